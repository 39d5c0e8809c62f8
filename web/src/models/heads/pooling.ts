/** From the encoder's hidden states to the vectors of texts. Notation: N texts, E width of the encoder, D of vectors. */
import { invalid } from '../../base/error.js';
import type { RawEncoderModelConfig, RawRows, RawTensor } from '../../base/wasm/core.js';
import { concatenate } from '../../io/files.js';
import type { Pooling, SentenceConfig } from '../families/sentence-transformers.js';
import { type InputContext, isTexts, type ModelInput, type Row } from '../input.js';
import { normalized } from '../quantized.js';
import type { Chain } from './task-heads.js';

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
}

/**
 * Determines the form of a call's vectors from the folder's settings and the call's options.
 * @throws HeedError if the folder's layers require other poolings, or vectors have fewer than `dimensions` entries
 */
export function vectorForm(
  owner: string,
  { layers, pooling: configured, normalize: byDefault }: SentenceConfig,
  { embedDim }: Pick<RawEncoderModelConfig, 'embedDim'>,
  { pooling = configured, normalize = byDefault, dimensions }: VectorOptions = {},
): VectorForm {
  if (layers.length > 0 && pooling.length !== configured.length) {
    const expected = `a list of ${configured.length}, as the layers after the pooling require`;
    throw invalid(`${owner}.pooling`, expected, pooling.join(', '));
  }
  const full = layers.at(-1)?.outFeatures ?? pooling.length * embedDim;
  const width = dimensions ?? full;
  if (width > full) throw invalid(`${owner}.dimensions`, `a whole number from 1 to ${full}`, String(width));
  return { pooling, normalize, width, full };
}

/**
 * The number of tokens at the beginning of each text that means and maxima leave out: those of the prompt, including
 * the special token before it, if the folder excludes the prompt from pooling.
 */
export function skippedTokens(
  input: ModelInput,
  prompt: string,
  { poolsPrompt }: SentenceConfig,
  { tokenizer }: InputContext,
): number {
  if (!isTexts(input) || poolsPrompt || prompt === '' || !tokenizer) return 0;
  const { tokens } = tokenizer.tokenize(prompt, undefined, Infinity);
  return tokens.length - (tokens.at(-1)?.part === null ? 1 : 0);
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

/** Makes vectors [N,D] of pooled hidden states: applies the folder's layers, drops entries, and normalizes. */
export function finishVectors(pooled: RawTensor, layers: Chain, { normalize, width }: VectorForm): RawTensor {
  const { data, shape } = layers.forward(pooled);
  const [count, full] = shape as [number, number];
  const out = new Float32Array(count * width);
  for (let n = 0; n < count; n++) {
    const vector = data.subarray(n * full, n * full + width);
    out.set(normalize ? normalized(vector) : vector, n * width);
  }
  return { data: out, shape: [count, width] };
}

/**
 * The hidden states [tokens, E] of the tokens whose id is `id`. Calls `found` with the text and the position of each.
 */
export function rowsOfToken(
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
