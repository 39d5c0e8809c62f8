/**
 * Boolean masks as tensors, where true or 1 allows attention. They broadcast from the right to [N,H,L,S]. Notation: N
 * batch, H heads, L queries, S keys.
 */
import { broadcastPositions, broadcastShape, MAX_ENTRIES } from '../base/axes.js';
import { calling, formatShape, invalid, misshapen } from '../base/error.js';
import { maxOf } from '../base/lists.js';
import { count, flag, integer, listOf, optional, type Schema, size } from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import {
  elementCount,
  isBoolean,
  type MaskInput,
  type NestedMask,
  readMask,
  summand,
  Tensor,
  type TensorInput,
} from '../base/tensor.js';
import { run, toTensor } from './functions.js';

/** The keys that each query may attend to, one byte per entry. */
export type BooleanMask = Tensor<Uint8Array>;

/** A boolean mask: booleans, zeros and ones, or bytes. */
export type BooleanMaskInput = NestedMask | { readonly data: Uint8Array; readonly shape: readonly number[] };

/** Options of `masks.relative`. */
export interface RelativeBiasOptions {
  /** Distances from this one on share the last bucket. Default 128. */
  maxDistance?: number | undefined;
  /** Whether keys after the query have separate buckets, as in encoders. Default true. */
  bidirectional?: boolean | undefined;
}

const relativeSchema = {
  maxDistance: optional(size, 128),
  bidirectional: optional(flag, true),
} satisfies Schema<RelativeBiasOptions>;

function causal(length: number, keys: number = length): BooleanMask {
  return matrix('causal', length, keys, (i, j) => j <= i);
}

function window(length: number, radius: number, keys: number = length): BooleanMask {
  const distance = integer(radius, 'masks.window: radius', 0);
  return matrix('window', length, keys, (i, j) => Math.abs(i - j) <= distance);
}

function padding(lengths: readonly number[], keys?: number): BooleanMask {
  const read = listOf(count, 'an array of lengths')(lengths, 'masks.padding: lengths');
  const longest = maxOf([0, ...read]);
  const width = keys === undefined ? longest : integer(keys, 'masks.padding: keys', 0);
  if (longest > width)
    throw invalid('masks.padding: lengths', `lengths of at most ${width}, the number of keys`, `${longest}`);
  const data = allocate('masks.padding', Uint8Array, read.length * width);
  for (const [n, length] of read.entries()) data.fill(1, n * width, n * width + length);
  return new Tensor(data, [read.length, 1, 1, width]);
}

function and(a: BooleanMaskInput, b: BooleanMaskInput): BooleanMask;
function and(a: MaskInput, b: MaskInput): BooleanMask | Tensor;
function and(a: MaskInput, b: MaskInput): BooleanMask | Tensor {
  const name = 'masks.and';
  const [left, right] = [readMask(`${name}: a`, a), readMask(`${name}: b`, b)];
  const shape = broadcastShape(left.shape, right.shape);
  if (!shape)
    throw misshapen(`${name}: b`, `a shape that broadcasts against a, ${formatShape(left.shape)}`, right.shape);
  const areBoolean = isBoolean(left) && isBoolean(right);
  const Store: new (length: number) => Uint8Array | Float32Array = areBoolean ? Uint8Array : Float32Array;
  const data = allocate(name, Store, elementCount(shape));
  const [leftAt, rightAt] = calling(name, () => [left, right].map((one) => broadcastPositions(one.shape, shape)));
  for (let i = 0; i < data.length; i++) {
    const [a, b] = [leftAt![i]!, rightAt![i]!];
    data[i] = areBoolean ? left.data[a]! & right.data[b]! : summand(left, a) + summand(right, b);
  }
  return new Tensor<Float32Array | Uint8Array>(data, shape) as BooleanMask | Tensor;
}

/** Makes and combines masks. */
export interface Masks {
  /**
   * Allows query i to attend to keys 0..i: [length, keys]. `keys` defaults to `length`.
   *
   * @example
   * heed.masks.causal(3).toArray(); // [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
   */
  causal(length: number, keys?: number): BooleanMask;
  /**
   * Allows query i to attend to the keys j with |i - j| <= radius: [length, keys]. `keys` defaults to `length`.
   *
   * @example
   * heed.masks.window(3, 1).toArray(); // [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
   */
  window(length: number, radius: number, keys?: number): BooleanMask;
  /**
   * Allows the first `lengths[n]` keys of sequence n: [N, 1, 1, keys]. `keys` defaults to the maximum length.
   *
   * @example
   * heed.masks.padding([1, 3]).toArray(); // [[[[1, 0, 0]]], [[[1, 1, 1]]]]
   */
  padding(lengths: readonly number[], keys?: number): BooleanMask;
  /**
   * Allows what both masks allow. Their shapes broadcast. Two boolean masks give a boolean mask. If one is additive,
   * the result is the additive sum, with -Infinity where a boolean mask disallows attention.
   *
   * @example
   * heed.masks.and(heed.masks.causal(3), heed.masks.window(3, 1)).toArray(); // [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
   */
  and(a: BooleanMaskInput, b: BooleanMaskInput): BooleanMask;
  and(a: MaskInput, b: MaskInput): BooleanMask | Tensor;
  /**
   * ALiBi (Press et al. 2021, arXiv:2108.12409): the additive mask -slope_h |i - j|, [numHeads, length, keys]. `keys`
   * defaults to `length`.
   *
   * @example
   * heed.masks.alibi(2, 3).shape; // [2, 3, 3]
   */
  alibi(numHeads: number, length: number, keys?: number): Tensor;
  /**
   * T5's relative bias (Raffel et al. 2019, arXiv:1910.10683) as an additive mask [H, length, keys]: logarithmic
   * buckets of distances, with one score per bucket and head in `table` [numBuckets, H]. `keys` defaults to `length`.
   *
   * @example
   * const table = Array.from({ length: 32 }, () => [0, 0]); // learned: 32 buckets, 2 heads
   * heed.masks.relative(table, 3).shape; // [2, 3, 3]
   */
  relative(table: TensorInput, length: number, keys?: number, options?: RelativeBiasOptions): Tensor;
}

/** The masks of one runtime, which computes the additive masks. */
export function masksOf(runtime: Runtime): Masks {
  return {
    causal,
    window,
    padding,
    and,
    alibi(numHeads, length, keys = length) {
      const heads = integer(numHeads, 'masks.alibi: numHeads', 1);
      const [rows, columns] = extents('alibi', length, keys);
      return calling('masks.alibi', () => toTensor(runtime.calls.alibi(heads, rows, columns)));
    },
    relative(table, length, keys = length, options) {
      const [queries, columns] = extents('relative', length, keys);
      return run('masks.relative', { table }, relativeSchema, options, ([raw], read) =>
        toTensor(runtime.calls.relativeBias(raw!, { queries, keys: columns, ...read })),
      );
    },
  };
}

function extents(name: string, length: number, keys: number): [length: number, keys: number] {
  return [integer(length, `masks.${name}: length`, 0), integer(keys, `masks.${name}: keys`, 0)];
}

function matrix(name: string, length: number, keys: number, allowed: (i: number, j: number) => boolean): BooleanMask {
  const [rows, columns] = extents(name, length, keys);
  const data = allocate(`masks.${name}`, Uint8Array, rows * columns);
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) data[i * columns + j] = Number(allowed(i, j));
  return new Tensor(data, [rows, columns]);
}

function allocate<Data>(name: string, Store: new (length: number) => Data, length: number): Data {
  if (length > MAX_ENTRIES) throw invalid(name, `at most ${MAX_ENTRIES} entries`, `${length}`, 'OUT_OF_MEMORY');
  return calling(name, () => new Store(length));
}
