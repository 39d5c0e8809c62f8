/** Activation patching: finds the sites that carry the difference between two texts. */
import { describe, formatShape, HeedError, invalid } from '../base/error.js';
import { legal, oneOf, optional, type Read, readOptions } from '../base/options.js';
import type { SiteEdit } from '../base/site-options.js';
import { Tensor } from '../base/tensor.js';
import {
  type EncodeResult,
  HEADS,
  type HeadName,
  type ModelInput,
  type Prediction,
  type PretrainedModel,
  requireModel,
} from '../models/index.js';
import { type LensOptions, lensSchema, ofText, oneText, repeated } from './call.js';

/**
 * Options of `patchGrid`. `metric` is called with the result of `encode` for each run or, if `head` is given, with that
 * of `predict`.
 */
export type PatchGridOptions = LensOptions & {
  /** The text from which activations are taken. */
  clean: ModelInput;
  /** The text that is run with patched activations. Must have as many tokens as `clean`. */
  corrupted: ModelInput;
  /**
   * The sites to patch. 'heads': `layers.i.heads`, one head per run; 'positions': `layers.i.input`, one position per
   * run; 'blocks': `layers.i.attention` and `layers.i.feedForward`.
   */
  over: 'heads' | 'positions' | 'blocks';
} & (
    | { head?: undefined; metric: (result: EncodeResult) => number }
    | { head: HeadName; metric: (result: Prediction) => number }
  );

type Metric = (result: EncodeResult | Prediction) => unknown;

const schema = {
  ...lensSchema,
  clean: oneText,
  corrupted: oneText,
  metric: legal<Metric>('a function', (value) => typeof value === 'function'),
  over: oneOf(['heads', 'positions', 'blocks']),
  head: optional(oneOf(Object.keys(HEADS) as HeadName[]), undefined),
};
type Options = Read<typeof schema>;

/** Tokens per call: enough for efficient matrix products in all workers, few enough for small results. */
const CALL_TOKENS = 1024;

/**
 * Activation patching, as in Meng et al. 2022 (arXiv:2202.05262, "causal tracing") and TransformerLens. Runs the
 * corrupted text once per site, with that site's activations replaced by those of the clean text, and returns the
 * metric of each run: [layers, heads], [layers, L] or [layers, 2] for L tokens. Layers below a patch are not
 * recomputed.
 *
 * @example
 * const clean = 'the warm summer';
 * const wanted = (await model.encode(clean)).lastHiddenState.at(0);
 * const grid = await patchGrid(model, {
 *   clean,
 *   corrupted: 'the cold summer',
 *   over: 'heads',
 *   metric: ({ lastHiddenState }) => similarity(lastHiddenState.at(0), wanted).at(0, 0),
 * });
 * grid.shape; // [6, 12]
 * @throws HeedError SHAPE_MISMATCH if the texts have different numbers of tokens
 */
export async function patchGrid(model: PretrainedModel, options: PatchGridOptions): Promise<Tensor> {
  requireModel('patchGrid', model, 'encode');
  const read = readOptions('patchGrid', schema, options);
  const { numLayers } = model.config;
  const { over, signal, onProgress } = read;
  const kinds = SITES[over];
  const inputs = Array.from({ length: numLayers }, (_, i) => `layers.${i}.input`);
  const call = signal ? { signal } : {};
  const [clean, corrupted] = await Promise.all([
    model.encode(read.clean, { ...call, read: kinds.map((site) => `layers.*.${site}`) }),
    model.encode(read.corrupted, { ...call, read: inputs }),
  ]);
  const length = clean.tokens[0]!.length;
  if (corrupted.tokens[0]!.length !== length)
    throw invalid(
      'patchGrid.corrupted',
      `${length} tokens, as \`clean\` has`,
      `${corrupted.tokens[0]!.length}`,
      'SHAPE_MISMATCH',
    );
  const first = clean.activations![`layers.0.${kinds[0]}`]!;
  const width = over === 'blocks' ? 2 : first.shape[1]!;
  const out = new Float32Array(numLayers * width);

  const editOf = (layer: number, at: number, text: number): SiteEdit => {
    const site = `layers.${layer}.${kinds[over === 'blocks' ? at : 0]}`;
    const values = clean.activations![site]!;
    const texts = [text];
    if (over === 'heads') return { site, texts, heads: [at], set: ofText(values, at) };
    if (over === 'positions') return { site, texts, positions: [at], set: ofText(values, at) };
    return { site, texts, set: ofText(values) };
  };
  const runs: { layer: number; from: number; count: number }[] = [];
  const most = Math.max(1, Math.floor(CALL_TOKENS / Math.max(1, length)));
  for (let layer = 0; layer < numLayers; layer++)
    for (let from = 0; from < width; from += most) runs.push({ layer, from, count: Math.min(most, width - from) });
  let next = 0;
  let done = 0;
  const work = async () => {
    try {
      while (next < runs.length) {
        const { layer, from, count } = runs[next++]!;
        const edit = [
          // Setting a layer's input makes the layers below irrelevant, so they are skipped.
          { site: inputs[layer]!, set: ofText(corrupted.activations![inputs[layer]!]!) },
          ...Array.from({ length: count }, (_, n) => editOf(layer, from + n, n)),
        ];
        const results = await resultsOf(model, read, count, { ...call, edit });
        for (const [n, result] of results.entries()) out[layer * width + from + n] = measured(read.metric, result);
        done += count;
        onProgress?.({ done, total: out.length });
      }
    } catch (error) {
      next = runs.length;
      throw error;
    }
  };
  await Promise.all(Array.from({ length: Math.max(1, model.workers.count) }, work));
  return new Tensor(out, [numLayers, width]);
}

const SITES = { heads: ['heads'], positions: ['input'], blocks: ['attention', 'feedForward'] } as const;

/** The results of `count` runs of the corrupted text, one result per run. */
async function resultsOf(
  model: PretrainedModel,
  { corrupted, head }: Options,
  count: number,
  call: object,
): Promise<(EncodeResult | Prediction)[]> {
  const texts = repeated(corrupted, count);
  if (!head) {
    const all = await model.encode(texts, call);
    return Array.from({ length: count }, (_, n) => encoded(all, n));
  }
  const all = await model.predict(head, texts, call);
  return Array.from({ length: count }, (_, n) => predicted(all, n, head));
}

function encoded(all: EncodeResult, n: number): EncodeResult {
  return {
    lastHiddenState: all.lastHiddenState.slice(n, n + 1),
    ...(all.poolerOutput && { poolerOutput: all.poolerOutput.slice(n, n + 1) }),
    tokens: [all.tokens[n]!],
    offsets: [all.offsets[n]!],
    attentionMask: all.attentionMask.slice(n, n + 1),
    truncated: [all.truncated[n]!],
  };
}

function predicted(all: Prediction, n: number, head: HeadName): Prediction {
  const own = all.masks.filter(([text]) => text === n);
  const first = all.masks.findIndex(([text]) => text === n);
  const [from, count] = HEADS[head] === 'masks' ? [Math.max(0, first), own.length] : [n, 1];
  return {
    logits: all.logits.slice(from, from + count),
    inputIds: [all.inputIds[n]!],
    tokens: [all.tokens[n]!],
    offsets: [all.offsets[n]!],
    parts: [all.parts[n]!],
    masks: own.map(([, token]) => [0, token]),
    truncated: [all.truncated[n]!],
  };
}

function measured(metric: Metric, result: EncodeResult | Prediction): number {
  let value: unknown;
  try {
    value = metric(result);
  } catch (cause) {
    throw new HeedError('INVALID_ARGUMENT', `patchGrid.metric: threw ${describe(cause)}`, { cause });
  }
  if (typeof value === 'number') return value;
  const got = value instanceof Tensor ? `a tensor of shape ${formatShape(value.shape)}` : describe(value);
  throw invalid('patchGrid.metric', 'a function that returns a number', got);
}
