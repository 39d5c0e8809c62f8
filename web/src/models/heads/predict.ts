/** The logits of a model's heads. */
import { padHeads } from '../../base/padding.js';
import { Tensor } from '../../base/tensor.js';
import type { RawRows, RawTensor } from '../../base/wasm/core.js';
import { concatenate } from '../../io/files.js';
import type { OptionsOf } from '../call-options.js';
import { listsOf } from '../encode-outputs.js';
import { outputWidth } from '../families/family.js';
import { promptOf } from '../families/sentence-transformers.js';
import { longest, type ModelInput, type Row } from '../input.js';
import type { Prediction } from '../model.js';
import { type PieceOptions, runRows } from '../run.js';
import type { RunnableModel } from '../runnable-model.js';
import { logitsOf } from './logits.js';
import { poolRows, skippedTokens, stepOptions, vectorForm } from './pooling.js';
import type { Values } from './step-values.js';
import { HEADS, type HeadName } from './task-heads.js';

/** Implements `PretrainedModel.predict`, for the model of the texts' route. */
export async function predict(
  model: RunnableModel,
  name: HeadName,
  given: ModelInput,
  call: OptionsOf<'predict'>,
  pieceOptions: PieceOptions,
): Promise<Prediction> {
  const kind = HEADS[name];
  const found = model.head(name);
  const { isTied, bias, takesVectors, poolsLogits } = found;
  const form = vectorForm('predict', model.sentence, model.encoderConfig);
  // A cross-encoder's prompt precedes its queries, as in sentence-transformers.
  const isScored = name === 'sequence-classification';
  const prompt = isScored ? promptOf(model.sentence, call) : '';
  const skipped = takesVectors ? skippedTokens(given, prompt, call, model.sentence, model.context) : 0;
  const rows = await model.allRows(given, call, pieceOptions, prompt);
  pieceOptions.sites = model.sites('predict', call, rows);
  const embedDim = outputWidth(model.encoderConfig);
  const count = rows.length;
  const width = longest(rows);
  const masks: [number, number][] = [];
  const { maskToken } = model.config;
  const maskId = maskToken === null ? undefined : model.context.tokenizer!.idOf(maskToken);
  const parts: Float32Array[] = [];
  let labels = 0;
  const classPooling = found.pooling ?? model.classPooling;
  /** The inputs of each kind of head. */
  const inputs = {
    pooled: (encoding: RawRows, piece: Row[]) => poolRows(encoding, piece.length, embedDim, [classPooling]),
    tokens(encoding: RawRows) {
      const data = encoding.hidden();
      return { data, shape: [data.length / embedDim, embedDim] };
    },
    masks: (encoding: RawRows, piece: Row[], first: number) =>
      rowsOfToken(encoding.hidden(), piece, maskId, embedDim, (text, token) =>
        masks.push([first + text, piece[text]!.columns[token]!]),
      ),
  };
  const { steps } = model.raw;
  const use = (input: RawTensor, piece: Row[]) => {
    const { data, shape } = logitsOf(model, found, input);
    labels = shape.at(-1)!;
    if (isTied && bias) for (let i = 0; i < data.length; i++) data[i]! += bias[i % labels] ?? 0;
    const padded = kind === 'tokens' ? new Float32Array(piece.length * width * labels) : data;
    if (kind === 'tokens') padHeads(data, piece, width, 1, labels, padded);
    parts.push(poolsLogits ? meanRows(data, piece, labels) : padded);
  };
  const running = kind === 'pooled' && !found.pooling && !takesVectors ? withoutPadding(model, rows) : rows;
  await runRows(model.runContext, running, count, call, pieceOptions, (piece, first) => {
    const run = (values: Values) => use(steps.run(values, found.value, found.steps), piece);
    if (takesVectors) return steps.hooks(piece, stepOptions(form, skipped, false), run);
    return {
      ...(kind === 'pooled' && !poolsLogits && { pooling: { modes: [classPooling], skipped: 0 } }),
      use: (encoding) => use(inputs[poolsLogits ? 'tokens' : kind](encoding, piece, first), piece),
    };
  });
  const shapes = { pooled: [count], tokens: [count, width], masks: [masks.length] };
  return {
    logits: new Tensor(concatenate(Float32Array, parts), [...shapes[kind], labels]),
    inputIds: rows.map(({ given, ids }) => (given ?? { ids }).ids),
    ...listsOf(rows),
    parts: rows.map((row) => row.parts),
    masks,
    ...(call.read && { activations: pieceOptions.sites!.activations() }),
  };
}

/**
 * The rows without padding tokens at the end, if a decoder's classifier reads the last token: transformers takes the
 * last one that is not `pad_token_id`, also if the text contains it.
 */
function withoutPadding(model: RunnableModel, rows: Row[]): Row[] {
  const pad = model.headContext.settings.get('pad_token_id');
  if (model.classPooling !== 'last' || typeof pad !== 'number' || !model.encoderConfig.causal) return rows;
  return rows.map((row) => {
    let count = row.ids.length;
    while (count > 0 && row.ids[count - 1] === pad) count--;
    if (count === row.ids.length) return row;
    const keep = Math.max(1, count);
    const cut = <T>(list: T[] | null) => list?.slice(0, keep) ?? null;
    return { ...row, ids: row.ids.slice(0, keep), types: cut(row.types), positions: cut(row.positions) };
  });
}

/** The means of each text's rows of `data` (tokens, width), without those of masked tokens. */
function meanRows(data: Float32Array, piece: readonly Row[], width: number): Float32Array {
  const means = new Float32Array(piece.length * width);
  let at = 0;
  for (const [n, { ids, keyMask }] of piece.entries()) {
    const sums = new Float64Array(width);
    let count = 0;
    for (let i = 0; i < ids.length; i++, at += width) {
      if (keyMask && keyMask[i] !== 0) continue;
      for (let k = 0; k < width; k++) sums[k]! += data[at + k]!;
      count++;
    }
    means.set(
      sums.map((sum) => sum / count),
      n * width,
    );
  }
  return means;
}

/**
 * The hidden states [tokens, E] of the tokens whose id is `id`. Calls `found` with the text and the position of each.
 */
function rowsOfToken(
  hidden: Float32Array,
  piece: readonly Row[],
  id: number | undefined,
  embedDim: number,
  found: (text: number, token: number) => void,
): RawTensor {
  const picked: Float32Array[] = [];
  let at = 0;
  piece.forEach(({ ids }, n) => {
    ids.forEach((each, i) => {
      if (each !== id) return;
      found(n, i);
      picked.push(hidden.subarray((at + i) * embedDim, (at + i + 1) * embedDim));
    });
    at += ids.length;
  });
  return { data: concatenate(Float32Array, picked), shape: [picked.length, embedDim] };
}
