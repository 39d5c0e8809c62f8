/** From the encoder's hidden states to the vectors of texts. Notation: N texts, E width of the encoder, D of vectors. */
import { invalid } from '../../base/error.js';
import type { RawRows, RawTensor } from '../../base/wasm/core.js';
import { outputWidth } from '../families/family.js';
import type { SentenceConfig } from '../families/sentence-config.js';
import {
  finalNormalize,
  layersIn,
  type Pooling,
  poolingName,
  poolingOf,
  type Step,
  shapesOf,
  VECTORS,
  vectorSteps,
} from '../families/steps.js';
import {
  allRows,
  type InputContext,
  type InputOptions,
  isTexts,
  limitOfTexts,
  type ModelInput,
  type Row,
  rowsOf,
} from '../input.js';
import { normalized } from '../quantized.js';
import type { StepOptions } from './step-values.js';

/** Options of a call that override the folder's settings of vectors. */
interface VectorOptions {
  pooling?: readonly Pooling[] | undefined;
  normalize?: boolean | undefined;
  dimensions?: number | undefined;
}

/** How vectors are made of hidden states. */
export interface VectorForm {
  /** The vectors of several poolings are concatenated. */
  pooling: readonly Pooling[];
  normalize: boolean;
  /** The number of leading entries that are kept. */
  width: number;
  /** The number of entries before the rest is dropped. */
  full: number;
  /** Whether vectors are normalized before entries are dropped, not after it. */
  normalizesFirst: boolean;
}

/**
 * Determines the form of a call's vectors from the folder's settings and the call's options.
 * @throws HeedError if the folder's layers require other poolings, or vectors have fewer than `dimensions` entries
 */
export function vectorForm(
  owner: string,
  { steps, dimensions: kept }: Pick<SentenceConfig, 'steps' | 'dimensions'>,
  config: Parameters<typeof outputWidth>[0],
  { pooling, normalize, dimensions }: VectorOptions = {},
): VectorForm {
  const own = vectorSteps(steps);
  const configured = poolingOf(own)?.modes ?? [];
  const modes = pooling ?? configured;
  const isPooled = configured.length > 0;
  if ((!isPooled && pooling) || (layersIn(own).length > 0 && modes.length !== configured.length)) {
    const expected = isPooled
      ? `a list of ${configured.length}, as the layers after the pooling require`
      : `undefined, as the folder's vectors are the model's ${poolingName(own)}`;
    throw invalid(`${owner}.pooling`, expected, modes.join(', '));
  }
  const called = own.map((step) => (step === poolingOf(own) ? { ...step, modes } : step));
  const full = shapesOf(called as Step[], outputWidth(config)).get(VECTORS)!.width;
  const width = dimensions ?? Math.min(kept ?? full, full);
  if (width > full) throw invalid(`${owner}.dimensions`, `a whole number from 1 to ${full}`, String(width));
  const isNormal = finalNormalize(own) >= 0;
  const normalizesFirst = isNormal && dimensions === undefined && normalize === undefined;
  return { pooling: modes, normalize: normalize ?? isNormal, width, full, normalizesFirst };
}

/**
 * The number of tokens at the beginning of each text that pooling leaves out: those of the prompt, including the special
 * token before it, if the folder excludes the prompt from pooling. As in sentence-transformers, they are those of the
 * prompt alone, cut and padded as a text, without a last special token.
 */
export function skippedTokens(
  input: ModelInput,
  prompt: string,
  { truncation, maxLength }: InputOptions,
  { steps }: Pick<SentenceConfig, 'steps'>,
  context: InputContext,
): number {
  const { tokenizer, texts } = context;
  const poolsPrompt = poolingOf(steps)?.poolsPrompt ?? true;
  const isMessage = texts.template !== null && !texts.template.onlyPairs;
  if (!isTexts(input) || poolsPrompt || isMessage || prompt === '' || !tokenizer) return 0;
  const limit = limitOfTexts({ truncation, maxLength }, context);
  const { ids, parts } = allRows(rowsOf([prompt], { truncation, maxLength }, context))[0]!;
  const { isFull, multiple } = texts.padding;
  const padded = multiple * Math.ceil((isFull ? limit : ids.length) / multiple);
  if (padded > ids.length) return padded - 1;
  return ids.length - (parts.at(-1) === null || tokenizer.isSpecial(ids.at(-1)!) ? 1 : 0);
}

/** Pools `count` texts to [count, modes * E]. `skipped`: see `skippedTokens`. */
export function poolRows(
  encoding: RawRows,
  count: number,
  width: number,
  pooling: readonly Pooling[],
  skipped = 0,
): RawTensor {
  const skips = skipped > 0 ? new Int32Array(count).fill(skipped) : null;
  const parts = pooling.map((mode) => encoding.pool(mode, skips));
  if (parts.length === 1) return { data: parts[0]!, shape: [count, width] };
  const data = new Float32Array(count * parts.length * width);
  parts.forEach((part, i) => {
    for (let n = 0; n < count; n++) data.set(part.subarray(n * width, (n + 1) * width), (n * parts.length + i) * width);
  });
  return { data, shape: [count, parts.length * width] };
}

/**
 * Pools rows of tokens [T, D] to [N, modes * D], as sentence-transformers 6.2: `cls` is the first token that is not
 * skipped.
 */
export function poolTokens(
  { data, shape }: RawTensor,
  piece: readonly Row[],
  pooling: readonly Pooling[],
  skipped = 0,
): RawTensor {
  const width = shape[1]!;
  const out = new Float32Array(piece.length * pooling.length * width);
  let [first, at] = [0, 0];
  for (const { ids } of piece) {
    const length = ids.length;
    for (const mode of pooling) {
      poolText(data.subarray(first * width, (first + length) * width), mode, skipped, out.subarray(at, at + width));
      at += width;
    }
    first += length;
  }
  return { data: out, shape: [piece.length, pooling.length * width] };
}

/** Pools the rows of one text to `out`. */
function poolText(rows: Float32Array, mode: Pooling, skipped: number, out: Float32Array): void {
  const width = out.length;
  const length = rows.length / width;
  const begin = Math.min(skipped, length);
  if (length === 0) return;
  if (mode === 'cls' || mode === 'last') {
    const row = mode === 'last' ? length - 1 : begin < length ? begin : 0;
    if (mode === 'cls' || begin < length) out.set(rows.subarray(row * width, (row + 1) * width));
    return;
  }
  if (begin === length) return;
  if (mode === 'max') out.set(rows.subarray(begin * width, (begin + 1) * width));
  let total = 0;
  for (let i = begin; i < length; i++) {
    const weight = mode === 'weighted_mean' ? i + 1 : 1;
    total += weight;
    for (let e = 0; e < width; e++) {
      const value = rows[i * width + e]!;
      if (mode === 'max') out[e] = Math.max(out[e]!, value);
      else out[e]! += weight * value;
    }
  }
  const divisor = mode === 'mean_sqrt_len' ? Math.sqrt(total) : total;
  if (mode !== 'max') for (let e = 0; e < width; e++) out[e]! /= divisor;
}

/** Drops entries of the folder's vectors, and normalizes them. */
export function finishVectors(
  { data, shape }: RawTensor,
  { normalize, width, normalizesFirst }: VectorForm,
): RawTensor {
  const [count, full] = shape as [number, number];
  const out = new Float32Array(count * width);
  for (let n = 0; n < count; n++) {
    const vector = data.subarray(n * full, n * full + (normalizesFirst ? full : width));
    out.set((normalize ? normalized(vector) : vector).subarray(0, width), n * width);
  }
  return { data: out, shape: [count, width] };
}

/** The options of the steps for vectors of this form. The last normalization follows the cut to `form.width`. */
export function stepOptions(
  { pooling }: Pick<VectorForm, 'pooling'>,
  skipped: number,
  unnormalized = true,
): StepOptions {
  return { pooling, skipped, unnormalized };
}
