/** A pretrained encoder in this thread. Letters: N texts, L the longest one's tokens, E width, H heads. */
import type { RawEncoderModel, RawEncoderModelConfig, RawEncoding, RawTensor } from '../core.js';
import { calling, describe, HeedError, invalid } from '../error.js';
import type { ModelFolder } from '../io/files.js';
import { integer, listOf, oneOf, readOptions } from '../options.js';
import { Owned, type Runtime } from '../owned.js';
import { formatShape, Tensor } from '../tensor.js';
import {
  callSchema,
  embedSchema,
  encodeSchema,
  readLoadOptions,
  requireTexts,
  tokenizeSchema,
} from './call-options.js';
import { Chain, HEADS, type HeadContext, type HeadName, makeHead, makePooler } from './heads.js';
import {
  countTexts,
  type InputContext,
  type InputOptions,
  type ModelInput,
  positionLimit,
  type Row,
  readInput,
  rowsOf,
} from './input.js';
import { type LoadedModel, type LoadModelOptions, loadModel } from './load.js';
import type {
  EmbedOptions,
  EncodeOptions,
  EncodeResult,
  ModelConfig,
  Prediction,
  PredictOptions,
  PretrainedModel,
  TokenizeOptions,
  TokenizeResult,
} from './model.js';
import { Breather, type PieceOptions, piecesOf, runPiece } from './run.js';
import type { Pooling, Recipe } from './sentence-transformers.js';
import type { ModelSource } from './source.js';
import { loadVectorLayers } from './vector-layers.js';

const ids = listOf((value, name) => integer(value, name, 0), 'an array of token ids');

/** Reads a model folder and gives its encoder, or throws one HeedError and leaves nothing behind. `folder`: the source, where it is open already. */
export async function loadPretrained(
  runtime: Runtime,
  source: ModelSource,
  options: LoadModelOptions = {},
  folder?: ModelFolder,
): Promise<PretrainedModel> {
  const read = readLoadOptions(options);
  const loaded = await loadModel(runtime.core, source, read, folder);
  const parts = new Parts(loaded.raw);
  try {
    parts.vectorLayers = await loadVectorLayers(runtime.core, loaded, read.signal);
    loaded.integrity.requireAllFound();
    return new LocalModel(runtime, loaded, parts, read.dtype);
  } catch (error) {
    parts.delete();
    await loaded.folder.failed?.(error);
    throw error;
  }
}

/** What a model holds in the core's memory. */
class Parts {
  vectorLayers = Chain.of([]);
  pooler: Chain | null = null;
  readonly heads = new Map<HeadName, ReturnType<typeof makeHead>>();

  private deleted = false;

  constructor(readonly encoder: RawEncoderModel) {}

  /** May be called twice: by a load that fails late, and by the collector for the model that did not come about. */
  delete(): void {
    if (this.deleted) return;
    this.deleted = true;
    this.pooler?.delete();
    this.vectorLayers.delete();
    for (const { chain } of this.heads.values()) chain.delete();
    this.encoder.delete();
  }
}

class LocalModel extends Owned<Parts> implements PretrainedModel {
  readonly config: ModelConfig;
  readonly workers = { count: 0, reason: 'the model runs in the calling thread; `workers` starts a pool' };
  readonly #core: RawEncoderModelConfig;
  readonly #recipe: Recipe;
  readonly #context: InputContext;
  readonly #headContext: HeadContext;
  readonly #meanForClass: boolean;

  constructor(runtime: Runtime, loaded: LoadedModel, parts: Parts, dtype: 'fp32' | 'q8') {
    super('PretrainedModel', runtime, parts);
    const { config, settings, tokenizer, recipe, family, type, heads: tensors } = loaded;
    this.#core = config;
    this.#recipe = recipe;
    const maxLength = Math.min(positionLimit(config), tokenizer?.maxLength ?? Infinity, recipe.maxLength);
    const padId = settings.count('pad_token_id', Math.max(0, config.positionOffset - 1));
    this.#context = { tokenizer, config, maxLength, padId };
    this.#headContext = { core: runtime.core, tensors, settings, type, eps: config.eps };
    this.#meanForClass = settings.get('classifier_pooling') === 'mean';
    parts.pooler = makePooler(family.pooler, this.#headContext);
    this.config = {
      family: type,
      dtype,
      storage: loaded.storage,
      vocabSize: config.vocabSize,
      embedDim: config.embedDim,
      numLayers: config.numLayers,
      numHeads: config.numHeads,
      feedForwardDim: config.feedForwardDim,
      maxLength,
      parameterCount: parts.encoder.parameters().reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0),
      pooling: recipe.pooling.join('+'),
      normalize: recipe.normalize,
      prompts: recipe.prompts,
      labels: (settings.record('id2label')?.entries() ?? []).map(([, label]) => String(label)),
      problemType: (settings.get('problem_type') as string | undefined) ?? null,
      hasTokenizer: tokenizer !== null,
      maskToken: tokenizer && (['[MASK]', '<mask>'].find((token) => tokenizer.idOf(token) !== undefined) ?? null),
      unusedTensors: loaded.unused,
    };
  }

  async encode(input: ModelInput, options: EncodeOptions = {}): Promise<EncodeResult> {
    void this.raw;
    const read = readOptions('encode', encodeSchema, options);
    const { outputAttentions, outputHiddenStates } = read;
    const breather = new Breather(read.signal);
    const headMask = this.#headMask(read.headMask);
    const rows = await this.#allRows(readInput(input), read, breather);
    const { numLayers, numHeads, embedDim } = this.#core;
    const count = rows.length;
    const width = Math.max(0, ...rows.map((row) => row.width));

    const last = new Float32Array(count * width * embedDim);
    const hidden = outputHiddenStates ? Array.from({ length: numLayers }, () => new Float32Array(last.length)) : [];
    const attentions = outputAttentions
      ? Array.from({ length: numLayers }, () => new Float32Array(count * numHeads * width * width))
      : [];
    let first = 0;
    for (const piece of piecesOf(rows, this.#core)) {
      const from = first;
      const spread = (encoding: RawEncoding, out: Float32Array) =>
        spreadRows(encoding.hidden(), piece, width, embedDim, out.subarray(from * width * embedDim));
      const onLayer = (layer: number, encoding: RawEncoding, weights: Float32Array | null) => {
        if (weights)
          spreadWeights(weights, piece, width, numHeads, attentions[layer]!.subarray(from * numHeads * width * width));
        if (outputHiddenStates && layer < numLayers - 1) spread(encoding, hidden[layer + 1]!);
      };
      await this.#run(piece, { breather, headMask, returnWeights: outputAttentions, onLayer }, (encoding) =>
        spread(encoding, last),
      );
      first += piece.length;
      read.onProgress?.({ done: first, total: count });
    }

    const shape = [count, width, embedDim];
    const mask = new Uint8Array(count * width);
    rows.forEach((row, n) => {
      for (const column of row.columns) mask[n * width + column] = 1;
    });
    const result: EncodeResult = {
      lastHiddenState: new Tensor(last, shape),
      tokens: rows.map((row) => row.tokens),
      offsets: rows.map((row) => row.offsets),
      attentionMask: new Tensor(mask, [count, width]),
      truncated: rows.map((row) => row.cut),
    };
    const { pooler } = this.raw;
    if (pooler)
      result.poolerOutput = asTensor(
        calling('encode', () =>
          pooler.forward({ data: firstRows(last, count, width, embedDim), shape: [count, embedDim] }),
        ),
      );
    if (outputAttentions)
      result.attentions = attentions.map((data) => new Tensor(data, [count, numHeads, width, width]));
    if (outputHiddenStates)
      result.hiddenStates = [
        ...hidden.map((data) => new Tensor(data, shape)),
        ...(numLayers > 0 ? [new Tensor(last.slice(), shape)] : []),
      ];
    return result;
  }

  async embed(input: ModelInput, options: EmbedOptions = {}): Promise<Tensor> {
    void this.raw;
    const read = readOptions('embed', embedSchema, options);
    const { layers, normalize: normalizes } = this.#recipe;
    const { pooling = this.#recipe.pooling, normalize = normalizes } = read;
    if (layers.length > 0 && pooling.length !== this.#recipe.pooling.length)
      throw invalid(
        'embed.pooling',
        pooling.join(', '),
        `${this.#recipe.pooling.length} of them, as the layers behind the pooling want`,
      );
    const full = layers.at(-1)?.outFeatures ?? pooling.length * this.#core.embedDim;
    const width = read.dimensions ?? full;
    if (width > full) throw invalid('embed.dimensions', String(width), `a whole number from 1 to ${full}`);
    const pieceOptions = {
      breather: new Breather(read.signal),
      headMask: this.#headMask(read.headMask),
      returnWeights: false,
    };
    const prompt = this.#prompt(read);
    const given = readInput(input);
    requireTexts(given, read);
    const skipped = this.#skippedBy(prompt, given);
    const total = countTexts(given);
    const out = new Float32Array(total * width);
    let done = 0;
    for (const piece of piecesOf(rowsOf(given, { ...read, prompt }, this.#context), this.#core)) {
      const vectors = await this.#run(piece, pieceOptions, (encoding) =>
        this.raw.vectorLayers.forward(this.#pool(encoding, piece, pooling, skipped)),
      );
      for (let n = 0; n < piece.length; n++) {
        const vector = vectors.data.subarray(n * full, n * full + width);
        out.set(normalize ? normalized(vector) : vector, (done + n) * width);
      }
      done += piece.length;
      read.onProgress?.({ done, total });
    }
    return new Tensor(out, [total, width]);
  }

  async tokenize(texts: string | readonly string[], options: TokenizeOptions = {}): Promise<TokenizeResult> {
    void this.raw;
    const read = readOptions('tokenize', tokenizeSchema, options);
    const rows = await this.#allRows(readInput(texts), read, new Breather(read.signal));
    return {
      inputIds: rows.map((row) => row.ids),
      tokens: rows.map((row) => row.tokens),
      offsets: rows.map((row) => row.offsets),
      tokenTypeIds: rows.map((row) => row.types ?? row.ids.map(() => 0)),
      attentionMask: rows.map((row) => row.ids.map(() => 1)),
      truncated: rows.map((row) => row.cut),
    };
  }

  async predict(head: HeadName, input: ModelInput, options: PredictOptions = {}): Promise<Prediction> {
    void this.raw;
    const read = readOptions('predict', callSchema, options);
    const { chain, bias } = this.#head(oneOf(HEADS)(head, 'predict: head'));
    const breather = new Breather(read.signal);
    const pieceOptions = { breather, headMask: this.#headMask(read.headMask), returnWeights: false };
    const rows = await this.#allRows(readInput(input), read, breather);
    const width = Math.max(0, ...rows.map((row) => row.width));
    const masks: [number, number][] = [];
    const parts: Float32Array[] = [];
    let labels = 0;
    let done = 0;
    for (const piece of piecesOf(rows, this.#core)) {
      const logits = await this.#run(piece, pieceOptions, (encoding) => {
        if (head === 'sequence-classification')
          return chain.forward(this.#pool(encoding, piece, [this.#meanForClass ? 'mean' : 'cls']));
        const hidden = encoding.hidden();
        if (head === 'fill-mask')
          return this.#wordLogits(chain.forward(this.#maskRows(hidden, piece, done, masks)), bias);
        return chain.forward({ data: hidden, shape: [hidden.length / this.#core.embedDim, this.#core.embedDim] });
      });
      labels = logits.shape.at(-1)!;
      if (head === 'token-classification' || head === 'question-answering') {
        const padded = new Float32Array(piece.length * width * labels);
        spreadRows(logits.data, piece, width, labels, padded);
        parts.push(padded);
      } else parts.push(logits.data);
      done += piece.length;
      read.onProgress?.({ done, total: rows.length });
    }
    const shape =
      head === 'sequence-classification'
        ? [rows.length, labels]
        : head === 'fill-mask'
          ? [masks.length, labels]
          : [rows.length, width, labels];
    return {
      logits: new Tensor(concatenated(parts), shape),
      inputIds: rows.map((row) => row.ids),
      tokens: rows.map((row) => row.tokens),
      offsets: rows.map((row) => row.offsets),
      parts: rows.map((row) => row.parts),
      masks,
      truncated: rows.map((row) => row.cut),
    };
  }

  async decode(tokenIds: readonly number[]): Promise<string> {
    void this.raw;
    const { tokenizer } = this.#context;
    if (!tokenizer)
      throw new HeedError('UNSUPPORTED', 'decode: got a model without tokenizer.json; expected one with it');
    return tokenizer.decode(ids(tokenIds, 'decode: ids'));
  }

  #run<T>(piece: Row[], options: PieceOptions, use: (encoding: RawEncoding) => T): Promise<T> {
    return runPiece(() => this.raw.encoder, this.#core, piece, options, use);
  }

  /** [N, modes * E]; `skipped`: tokens at each text's beginning that means and maxima leave out. */
  #pool(encoding: RawEncoding, piece: Row[], pooling: readonly Pooling[], skipped = 0): RawTensor {
    const count = piece.length;
    const width = this.#core.embedDim;
    const skips = skipped > 0 ? new Int32Array(count).fill(skipped) : null;
    const parts = pooling.map((mode) => encoding.pool(mode, skips));
    if (parts.length === 1) return { data: parts[0]!, shape: [count, width] };
    const data = new Float32Array(count * parts.length * width);
    parts.forEach((part, i) => {
      for (let n = 0; n < count; n++)
        data.set(part.subarray(n * width, (n + 1) * width), (n * parts.length + i) * width);
    });
    return { data, shape: [count, parts.length * width] };
  }

  /** Tokens of the prompt, the special one before it included, where the folder wants them out of the pooling. */
  #skippedBy(prompt: string, input: ModelInput): number {
    const { tokenizer } = this.#context;
    if (this.#recipe.poolsPrompt || prompt === '' || !tokenizer || !(typeof input === 'string' || Array.isArray(input)))
      return 0;
    const { tokens } = tokenizer.tokenize(prompt, undefined, Infinity);
    return tokens.length - (tokens.at(-1)?.part === null ? 1 : 0);
  }

  async #allRows(input: ModelInput, options: InputOptions, breather: Breather): Promise<Row[]> {
    requireTexts(input, options);
    const rows: Row[] = [];
    for (const row of rowsOf(input, options, this.#context)) {
      rows.push(row);
      await breather.breathe();
    }
    return rows;
  }

  #prompt({ prompt, promptName }: { prompt: string | undefined; promptName: string | undefined }): string {
    if (prompt !== undefined && promptName !== undefined)
      throw invalid('embed.promptName', `${describe(promptName)} beside \`prompt\``, 'one of the two');
    if (prompt !== undefined) return prompt;
    const name = promptName ?? this.#recipe.defaultPrompt;
    if (name === null) return '';
    if (Object.hasOwn(this.#recipe.prompts, name)) return this.#recipe.prompts[name]!;
    throw invalid(
      'embed.promptName',
      describe(name),
      Object.keys(this.#recipe.prompts).join(', ') || 'none, as the model folder defines no prompts',
    );
  }

  #head(name: HeadName): ReturnType<typeof makeHead> {
    const { heads } = this.raw;
    let head = heads.get(name);
    if (!head) {
      head = makeHead(name, this.#headContext);
      heads.set(name, head);
    }
    return head;
  }

  #headMask(mask: RawTensor | null): Float32Array[] | null {
    if (mask === null) return null;
    const { numLayers, numHeads } = this.#core;
    if (mask.shape.length !== 2 || mask.shape[0] !== numLayers || mask.shape[1] !== numHeads) {
      throw new HeedError(
        'SHAPE_MISMATCH',
        `headMask: got shape ${formatShape(mask.shape)}; expected [${numLayers}, ${numHeads}], layers and heads`,
      );
    }
    return Array.from({ length: numLayers }, (_, i) => mask.data.slice(i * numHeads, (i + 1) * numHeads));
  }

  /** The rows at mask tokens. */
  #maskRows(hidden: Float32Array, piece: Row[], firstText: number, masks: [number, number][]): RawTensor {
    const { embedDim } = this.#core;
    const maskId = this.config.maskToken === null ? undefined : this.#context.tokenizer!.idOf(this.config.maskToken);
    const picked: Float32Array[] = [];
    let at = 0;
    piece.forEach((row, n) => {
      row.ids.forEach((id, i) => {
        if (id === maskId) {
          masks.push([firstText + n, i]);
          picked.push(hidden.subarray((at + i) * embedDim, (at + i + 1) * embedDim));
        }
      });
      at += row.ids.length;
    });
    return { data: concatenated(picked), shape: [picked.length, embedDim] };
  }

  #wordLogits(x: RawTensor, bias: Float32Array | null): RawTensor {
    const { data, shape } = this.raw.encoder.wordLogits(x);
    const words = shape.at(-1)!;
    if (bias) for (let i = 0; i < data.length; i++) data[i] = data[i]! + (bias[i % words] ?? 0);
    return { data, shape };
  }
}

function asTensor({ data, shape }: RawTensor): Tensor {
  return new Tensor(data, shape);
}

/** Concatenated rows [sum L_n, E] into a padded [N, L, E], zeros elsewhere. */
function spreadRows(rows: Float32Array, piece: Row[], width: number, dim: number, out: Float32Array): void {
  let at = 0;
  piece.forEach((row, n) => {
    for (const column of row.columns) {
      out.set(rows.subarray(at, at + dim), (n * width + column) * dim);
      at += dim;
    }
  });
}

/** The weights of each text, [H, L_n, L_n] one after the other, into a padded [N, H, L, L]. */
function spreadWeights(weights: Float32Array, piece: Row[], width: number, numHeads: number, out: Float32Array): void {
  let at = 0;
  piece.forEach(({ columns }, n) => {
    for (let h = 0; h < numHeads; h++) {
      for (const i of columns) {
        const row = ((n * numHeads + h) * width + i) * width;
        for (const j of columns) out[row + j] = weights[at++]!;
      }
    }
  });
}

function firstRows(data: Float32Array, count: number, width: number, dim: number): Float32Array {
  const out = new Float32Array(count * dim);
  for (let n = 0; n < count; n++) out.set(data.subarray(n * width * dim, n * width * dim + dim), n * dim);
  return out;
}

/** As torch.nn.functional.normalize: a zero vector stays one. */
export function normalized(vector: Float32Array): Float32Array {
  const norm = Math.max(Math.sqrt(vector.reduce((sum, v) => sum + v * v, 0)), 1e-12);
  return vector.map((v) => v / norm);
}

function concatenated(parts: Float32Array[]): Float32Array {
  const whole = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
