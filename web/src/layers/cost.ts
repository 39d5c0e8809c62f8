/**
 * The cost of layers. A flop is one multiplication or one addition of a matrix product. Softmax, norms and activations
 * grow more slowly and are not counted, as is customary. Notation: L length, S length of the keys, E width, H heads, F
 * feed-forward width, Dk / Dv key / value width of a head.
 */

import { formatShape } from '../base/error.js';
import { maxOf } from '../base/lists.js';
import { count, flag, integer, optional, type Read, readOptions, type Schema, size } from '../base/options.js';
import { elementCount } from '../base/tensor.js';
import type { ListedParameter } from './state-dict.js';

/** Options of a layer's `flops`. */
export interface FlopsOptions {
  /**
   * S, the number of keys of cross-attention: the rows of a decoder's memory or of a Transformer's source. Default: the
   * length.
   */
  keyLength?: number | undefined;
  /** Whether self-attention is causal; in a Transformer, only that of its decoder. Default false. */
  causal?: boolean | undefined;
  /** Limits self-attention to |i - j| <= window. Default: no limit. */
  window?: number | undefined;
}

const flopsSchema = {
  keyLength: optional(size, null),
  causal: optional(flag, false),
  window: optional(count, Infinity),
} satisfies Schema<FlopsOptions>;

/** A forward pass over one sequence: L, S, and the masks of self-attention. */
export type Pass = Omit<Read<typeof flopsSchema>, 'keyLength'> & { length: number; keyLength: number };

/** Reads the arguments of `flops`. `name`: the name of the call, for messages. */
export function readPass(name: string, length: number, options?: FlopsOptions): Pass {
  const rows = integer(length, `${name}: length`, 1);
  const read = readOptions(name, flopsSchema, options);
  return { ...read, length: rows, keyLength: read.keyLength ?? rows };
}

/** The flops of a product of [length, inner] and [inner, out]. */
export function linearFlops(length: number, inner: number, out: number): number {
  return 2 * length * inner * out;
}

/** The flops of both products of a feed-forward block. If gated, the first is twice as wide. */
export function feedForwardFlops(
  { embedDim, feedForwardDim, gated }: { embedDim: number; feedForwardDim: number; gated: boolean },
  length: number,
): number {
  return (gated ? 3 : 2) * linearFlops(length, embedDim, feedForwardDim);
}

interface AttentionSizes {
  embedDim: number;
  numHeads: number;
  /** 0: embedDim / numHeads, which also holds for `valueDim` */
  keyDim: number;
  valueDim: number;
  /** 0 or absent: embedDim, which also holds for `valueInputDim` */
  keyInputDim?: number | undefined;
  valueInputDim?: number | undefined;
}

/**
 * The flops of multi-head attention: the four projections, Q K^T, and the product of the weights with V. `pairs`: the
 * number of pairs of a query and a visible key.
 */
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

/** The flops of an encoder layer: self-attention and feed-forward block. */
export function encoderLayerFlops(sizes: EncoderLayerSizes, pass: Pass): number {
  const { length } = pass;
  return attentionFlops(sizes, length, length, visiblePairs(pass, length)) + feedForwardFlops(sizes, length);
}

/** The flops of a decoder layer: an encoder layer and cross-attention. */
export function decoderLayerFlops(sizes: EncoderLayerSizes, pass: Pass): number {
  const { length, keyLength } = pass;
  return encoderLayerFlops(sizes, pass) + attentionFlops(sizes, length, keyLength, length * keyLength);
}

/** The number of pairs of a query and a key that `causal` and `window` allow. */
export function visiblePairs({ length, causal, window }: Pass, keyLength: number): number {
  return length * keyLength - above(length, keyLength, causal ? 0 : window) - above(keyLength, length, window);
}

/** The number of pairs i < rows, j < columns with j - i > distance. */
function above(rows: number, columns: number, distance: number): number {
  const triangle = (n: number) => (n > 0 ? (n * (n + 1)) / 2 : 0);
  return triangle(columns - distance - 1) - triangle(columns - distance - 1 - rows);
}

/** Formats a table of a layer's parameters, with its flops if a length is given. */
export function layerSummary(
  name: string,
  parameters: readonly ListedParameter[],
  parameterCount: number,
  cost: { length: number; flops: number } | null,
): string {
  const sizes = parameters.map(({ shape }) => elementCount(shape));
  const rows = parameters.map((each, i) => [each.name, formatShape(each.shape), thousands(sizes[i]!)]);
  const table = rows.length > 0 ? [['parameter', 'shape', 'count'], ...rows] : [];
  const [first, second, third] = [0, 1, 2].map((i) => maxOf(table.map((row) => row[i]!.length)));
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

/** The sizes for which `flops` compares layers. */
export interface CostOptions {
  /** d, the width of the input. */
  dim: number;
  /** d_k, the width of queries and keys. Default dim. */
  keyDim?: number | undefined;
  /** d_v, the width of the output. Default dim. */
  valueDim?: number | undefined;
  /** k, the number of positions that the convolution covers. Default 3. */
  kernelSize?: number | undefined;
}

const costSchema = {
  dim: size,
  keyDim: optional(size, null),
  valueDim: optional(size, null),
  kernelSize: optional(size, 3),
} satisfies Schema<CostOptions>;

/** The cost of one layer. */
export interface Cost {
  /** The number of multiplications and additions in its matrix products. */
  flops: number;
  /** The number of its weights, without biases. */
  parameters: number;
  /** The growth of the flops in big O notation. */
  complexity: string;
}

/**
 * Compares the cost of four layers that relate L positions of width d to each other and return L positions of width d_v
 * (Vaswani et al. 2017, arXiv:1706.03762, table 1), without biases. The dense layer reads the whole sequence and is
 * applied once per output position. Needs no `load()`.
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
