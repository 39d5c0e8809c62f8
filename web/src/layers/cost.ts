/**
 * What layers cost. A flop is one multiplication or one addition of a matrix product; softmax, norms and activations grow more slowly and are left out, as is customary.
 * Notation: L length, S length of the keys, E width, H heads, F feed-forward width, Dk / Dv key / value width of a head.
 */
import { formatShape } from '../base/error.js';
import { count, flag, integer, optional, type Read, readOptions, type Schema, size } from '../base/options.js';

import { elementCount } from '../base/tensor.js';
import type { ListedParameter } from './state-dict.js';

/** Options of a layer's `flops`. */
export interface FlopsOptions {
  /** S: number of keys of cross-attention, rows of a decoder's memory or of a Transformer's source. Default: the length. */
  keyLength?: number;
  /** Self-attention (of a Transformer: only that of its decoder) is causal; default false. */
  causal?: boolean;
  /** Self-attention is limited to |i - j| <= window. Default: not limited. */
  window?: number;
}

const flopsSchema = {
  keyLength: optional(size, null),
  causal: optional(flag, false),
  window: optional(count, Infinity),
} satisfies Schema<FlopsOptions>;

/** One pass over a sequence: L, S, and the masks of self-attention. */
export type Pass = Omit<Read<typeof flopsSchema>, 'keyLength'> & { length: number; keyLength: number };

/** Reads the arguments of `flops`; `name` is the call in messages. */
export function readPass(name: string, length: number, options?: FlopsOptions): Pass {
  const rows = integer(length, `${name}: length`, 1);
  const read = readOptions(name, flopsSchema, options);
  return { ...read, length: rows, keyLength: read.keyLength ?? rows };
}

/** A product of [length, inner] and [inner, out]. */
export function linearFlops(length: number, inner: number, out: number): number {
  return 2 * length * inner * out;
}

/** Both products of a feed-forward; the first is twice as wide if gated. */
export function feedForwardFlops(
  { embedDim, feedForwardDim, gated }: { embedDim: number; feedForwardDim: number; gated: boolean },
  length: number,
): number {
  return (gated ? 3 : 2) * linearFlops(length, embedDim, feedForwardDim);
}

interface AttentionSizes {
  embedDim: number;
  numHeads: number;
  /** 0: embedDim / numHeads, also of `valueDim` */
  keyDim: number;
  valueDim: number;
  /** 0 or absent: embedDim, also of `valueInputDim` */
  keyInputDim?: number;
  valueInputDim?: number;
}

/** The four projections of multi-head attention, Q K^T and the product of the weights with V; `pairs` counts the queries' visible keys. */
export function attentionFlops(
  { embedDim, numHeads, keyDim, valueDim, keyInputDim, valueInputDim }: AttentionSizes,
  length: number,
  keyLength: number,
  pairs: number,
): number {
  const width = embedDim / numHeads;
  const [keys, values] = [numHeads * (keyDim || width), numHeads * (valueDim || width)];
  return (
    linearFlops(length, embedDim, keys) +
    linearFlops(keyLength, keyInputDim || embedDim, keys) +
    linearFlops(keyLength, valueInputDim || embedDim, values) +
    linearFlops(length, values, embedDim) +
    linearFlops(pairs, 1, keys + values)
  );
}

type EncoderLayerSizes = AttentionSizes & Parameters<typeof feedForwardFlops>[0];

/** Self-attention and feed-forward. */
export function encoderLayerFlops(sizes: EncoderLayerSizes, pass: Pass): number {
  const { length } = pass;
  return attentionFlops(sizes, length, length, visiblePairs(pass, length)) + feedForwardFlops(sizes, length);
}

/** An encoder layer and the attention to the memory between its two parts. */
export function decoderLayerFlops(sizes: EncoderLayerSizes, pass: Pass): number {
  const { length, keyLength } = pass;
  return encoderLayerFlops(sizes, pass) + attentionFlops(sizes, length, keyLength, length * keyLength);
}

/** How many pairs of a query and a key `causal` and `window` leave. */
export function visiblePairs({ length, causal, window }: Pass, keyLength: number): number {
  return length * keyLength - above(length, keyLength, causal ? 0 : window) - above(keyLength, length, window);
}

/** How many pairs of i < rows and j < columns have j - i > distance. */
function above(rows: number, columns: number, distance: number): number {
  const triangle = (n: number) => (n > 0 ? (n * (n + 1)) / 2 : 0);
  return triangle(columns - distance - 1) - triangle(columns - distance - 1 - rows);
}

/** A table of a layer's parameters, and its flops if a length is given. */
export function layerSummary(
  name: string,
  parameters: readonly ListedParameter[],
  parameterCount: number,
  cost: { length: number; flops: number } | null,
): string {
  const sizes = parameters.map(({ shape }) => elementCount(shape));
  const rows = parameters.map((each, i) => [each.name, formatShape(each.shape), thousands(sizes[i]!)]);
  const table = rows.length > 0 ? [['parameter', 'shape', 'count'], ...rows] : [];
  const [first, second, third] = [0, 1, 2].map((i) => Math.max(...table.map((row) => row[i]!.length)));
  const lines = table.map(([a, b, c]) => `  ${a!.padEnd(first!)}  ${b!.padEnd(second!)}  ${c!.padStart(third!)}`);
  const bytes = 4 * sizes.reduce((a, b) => a + b, 0);
  return [
    name,
    ...lines,
    `${thousands(parameterCount)} parameters, ${thousands(bytes)} bytes`,
    ...(cost ? [`${thousands(cost.flops)} flops at length ${thousands(cost.length)}`] : []),
  ].join('\n');
}

function thousands(value: number): string {
  return value.toString().replace(/\B(?=(\d{3})+$)/g, ',');
}

/** Sizes that `flops` compares layers for. */
export interface CostOptions {
  /** d, width of the input. */
  dim: number;
  /** d_k, width of queries and keys; default dim. */
  keyDim?: number;
  /** d_v, width of the output; default dim. */
  valueDim?: number;
  /** k, positions that the convolution covers; default 3. */
  kernelSize?: number;
}

const costSchema = {
  dim: size,
  keyDim: optional(size, null),
  valueDim: optional(size, null),
  kernelSize: optional(size, 3),
} satisfies Schema<CostOptions>;

/** What one layer costs. */
export interface Cost {
  /** Multiplications and additions of its matrix products. */
  flops: number;
  /** Number of its weights, without biases. */
  parameters: number;
  /** How the flops grow, as papers write it. */
  complexity: string;
}

/**
 * Compares four layers that let L positions of width d depend on each other and return L positions of width d_v (Vaswani et al. 2017, arXiv:1706.03762, table 1).
 * Without biases. The dense layer reads the whole sequence and is applied once for each output position. Needs no `load()`.
 *
 * @example
 * flops(100, { dim: 64 }).attention.flops; // 5017600
 */
export function flops(
  length: number,
  options: CostOptions,
): Record<'attention' | 'dense' | 'convolution' | 'recurrent', Cost> {
  const L = integer(length, 'flops: length', 1);
  const { dim: d, keyDim, valueDim, kernelSize: k } = readOptions('flops', costSchema, options);
  const [dk, dv] = [keyDim ?? d, valueDim ?? d];
  return {
    attention: {
      flops: 2 * L * d * (2 * dk + dv) + 2 * L * L * (dk + dv),
      parameters: 2 * d * dk + d * dv,
      complexity: 'O(L^2 d_k)',
    },
    dense: { flops: 2 * L * L * d * dv, parameters: L * d * dv, complexity: 'O(L^2 d d_v)' },
    convolution: { flops: 2 * L * k * d * dv, parameters: k * d * dv, complexity: 'O(L k d d_v)' },
    recurrent: { flops: 2 * L * dv * (d + dv), parameters: d * dv + dv * dv, complexity: 'O(L d d_v)' },
  };
}
