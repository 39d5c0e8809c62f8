/**
 * Operations on tensors, with the values of IEEE arithmetic in double precision, rounded to fp32. heed and heed/train
 * compute them here; heed/train adds the gradients of `train/graph/operation-gradients.ts`, by name.
 *
 * There are two kinds. In a *map*, each entry of the result depends on one entry of each input, whose positions are
 * listed per entry of the result. In a *reduction*, each entry of an input contributes to one entry of the result,
 * whose position is listed per entry of the input.
 */
import {
  anyInteger,
  axisOrAxes,
  broadcastPositions,
  broadcastShape,
  gathered,
  readAxes,
  readAxis,
  stridedPositions,
  stridesOf,
  transposedPositions,
} from '../../base/axes.js';
import { calling, formatShape, invalid, misshapen } from '../../base/error.js';
import {
  flag,
  integer,
  listOf,
  mask,
  optional,
  type Reader,
  readOptions,
  type Schema,
  tensor,
} from '../../base/options.js';
import { matmul } from '../../base/products.js';
import { sigmoid } from '../../base/scores.js';
import { elementCount, isBoolean, readTensor, type Tensor } from '../../base/tensor.js';
import type { RawFunctions, RawMask, RawTensor } from '../../base/wasm/core.js';

import type { ConcatenateOptions, MeanOptions, Operations, ReductionOptions, SliceOptions } from './operations.js';

const reductionSchema = {
  axis: optional(axisOrAxes, null),
  keepDims: optional(flag, false),
} satisfies Schema<ReductionOptions>;
const booleanMask: Reader<RawMask> = (value, name) => {
  const read = mask(value, name);
  if (!isBoolean(read)) throw invalid(name, 'a boolean mask', 'an additive mask');
  return read;
};
const meanSchema = { ...reductionSchema, mask: optional(booleanMask, null) } satisfies Schema<MeanOptions>;
const concatenateSchema = { axis: optional(anyInteger, -1) } satisfies Schema<ConcatenateOptions>;
const sliceSchema = {
  axis: optional(anyInteger, 0),
  start: optional(anyInteger, 0),
  end: optional(anyInteger, Infinity),
} satisfies Schema<SliceOptions>;

/** The maps of one tensor, by name. */
const unary = {
  exp: Math.exp,
  log: Math.log,
  abs: Math.abs,
  sqrt: Math.sqrt,
  relu: (x: number) => (x <= 0 ? 0 : x), // NaN stays NaN
  tanh: Math.tanh,
  sigmoid,
};

/** Sets y to a function of arrays of the same length. */
type Loop = (y: Float32Array, a: Float32Array, b: Float32Array) => void;

/** The maps of two tensors, by name: loops of their own, because a call per entry would take most of the time. */
const binary: Record<'add' | 'subtract' | 'multiply' | 'divide', Loop> = {
  add(y, a, b) {
    for (let i = 0; i < y.length; i++) y[i] = a[i]! + b[i]!;
  },
  subtract(y, a, b) {
    for (let i = 0; i < y.length; i++) y[i] = a[i]! - b[i]!;
  },
  multiply(y, a, b) {
    for (let i = 0; i < y.length; i++) y[i] = a[i]! * b[i]!;
  },
  divide(y, a, b) {
    for (let i = 0; i < y.length; i++) y[i] = a[i]! / b[i]!;
  },
};

/** The names of the operations with a gradient formula. */
export type OperationName = keyof typeof unary | keyof typeof binary | 'rearrange' | 'sum' | 'mean' | 'max' | 'matmul';

/** An operation that has been computed. */
export interface Computed {
  readonly name: OperationName;
  /** The inputs by the names of their arguments. */
  readonly inputs: Readonly<Record<string, RawTensor>>;
  readonly result: RawTensor;
  /** The positions for each input; see above. null: the same positions. */
  readonly positions: readonly (Int32Array | null)[];
  /** For a mean, the factor on each entry of x, by its index. */
  readonly factor?: ((index: number) => number) | undefined;
}

const add = (total: number, entry: number) => total + entry;
const larger = (total: number, entry: number) => Math.max(total, entry);

/** A shape with one of its axes replaced by others. */
function withExtents(shape: readonly number[], axis: number, ...extents: number[]): number[] {
  return [...shape.slice(0, axis), ...extents, ...shape.slice(axis + 1)];
}

/** Reads a tensor, or a number as a tensor without axes. */
function readOperand(name: string, value: unknown): RawTensor {
  return typeof value === 'number' ? { data: Float32Array.of(value), shape: [] } : readTensor(name, value);
}

/**
 * The operations of a runtime. `record` converts what was computed to the result: a tensor that has a gradient where it
 * needs one.
 */
export function makeOperations(
  runtime: { readonly calls: Pick<RawFunctions, 'compute'> },
  record: (computed: Computed) => Tensor,
): Operations {
  /** Computes a map from the entries of its inputs at `positions`. */
  function map(
    name: OperationName,
    loop: Loop,
    inputs: Record<string, RawTensor>,
    shape: number[],
    positions: (Int32Array | null)[],
  ): Tensor {
    const arrays = Object.values(inputs).map(({ data }, i) => (positions[i] ? gathered(data, positions[i]) : data));
    const [a, b = a] = arrays;
    const data = new Float32Array(elementCount(shape));
    loop(data, a!, b!);
    return record({ name, inputs, result: { data, shape }, positions });
  }

  const rearranged = (x: RawTensor, shape: number[], positions: Int32Array | null) =>
    map('rearrange', (y, entries) => y.set(entries), { x }, shape, [positions]);

  /** Reads what `sum`, `max` and `mean` reduce. */
  function reduction(x: RawTensor, axes: readonly number[], keepDims: boolean) {
    const kept = x.shape.map((extent, axis) => (axes.includes(axis) ? 1 : extent));
    const shape = keepDims ? kept : x.shape.filter((_, axis) => !axes.includes(axis));
    const positions = broadcastPositions(kept, x.shape);
    /** Combines the entries of x in order, beginning with `first`. */
    const combine = (first: number, f: (total: number, entry: number, i: number) => number) => {
      const totals = new Float64Array(elementCount(shape)).fill(first);
      for (let i = 0; i < positions.length; i++) totals[positions[i]!] = f(totals[positions[i]!]!, x.data[i]!, i);
      return totals;
    };
    const finish = (of: OperationName, totals: Float64Array, factor?: (index: number) => number) =>
      record({
        name: of,
        inputs: { x },
        result: { data: new Float32Array(totals), shape },
        positions: [positions],
        ...(factor && { factor }),
      });
    return { count: elementCount(axes.map((axis) => x.shape[axis]!)), positions, combine, finish };
  }

  function reduce(name: 'sum' | 'max', given: unknown, options: unknown): Tensor {
    const x = readOperand(`${name}: x`, given);
    const { axis, keepDims } = readOptions(name, reductionSchema, options);
    const axes = axis === null ? [...x.shape.keys()] : readAxes(axis, `${name}.axis`, x);
    return calling(name, () => {
      const { count, combine, finish } = reduction(x, axes, keepDims);
      const [first, f] = name === 'sum' ? ([0, add] as const) : ([-Infinity, larger] as const);
      if (name === 'max' && count === 0) throw misshapen(`${name}: x`, 'at least one entry along the axis', x.shape);
      return finish(name, combine(first, f));
    });
  }

  const operations: Record<string, unknown> = {};
  for (const [name, f] of Object.entries(unary)) {
    operations[name] = (given: unknown) => {
      const x = readOperand(`${name}: x`, given);
      const loop: Loop = (y, entries) => {
        for (let i = 0; i < y.length; i++) y[i] = f(entries[i]!);
      };
      return calling(name, () => map(name as OperationName, loop, { x }, x.shape, [null]));
    };
  }
  for (const [name, loop] of Object.entries(binary)) {
    operations[name] = (left: unknown, right: unknown) => {
      const [a, b] = [readOperand(`${name}: a`, left), readOperand(`${name}: b`, right)];
      const shape = broadcastShape(a.shape, b.shape);
      if (!shape) throw misshapen(`${name}: b`, `a shape that broadcasts against a, ${formatShape(a.shape)}`, b.shape);
      const positions = [a, b].map((x) =>
        formatShape(x.shape) === formatShape(shape) ? null : calling(name, () => broadcastPositions(x.shape, shape)),
      );
      return calling(name, () => map(name as OperationName, loop, { a, b }, shape, positions));
    };
  }

  return Object.assign(operations, {
    sum: (x: unknown, options: unknown) => reduce('sum', x, options),
    max: (x: unknown, options: unknown) => reduce('max', x, options),

    mean(given: unknown, options: unknown) {
      const x = readTensor('mean: x', given);
      const { axis, keepDims, mask: kept } = readOptions('mean', meanSchema, options);
      if (axis === null && x.shape.length < 2)
        throw misshapen('mean: x', '[..., L, E], or another shape with `axis`', x.shape);
      if (axis !== null && kept) throw invalid('mean.mask', 'undefined with `axis`', 'a mask');
      const tokens = x.shape.slice(0, -1);
      if (kept && formatShape(kept.shape) !== formatShape(tokens))
        throw misshapen('mean.mask', formatShape(tokens), kept.shape);
      const axes = readAxes(axis ?? -2, 'mean.axis', x);
      return calling('mean', () => {
        const { count, positions, combine, finish } = reduction(x, axes, keepDims);
        const width = x.shape.at(-1)!;
        const isKept = (i: number) => !kept || kept.data[Math.floor(i / width)] === 1;
        const totals = combine(0, (total, entry, i) => (isKept(i) ? total + entry : total));
        const counts = kept ? combine(0, (total, _, i) => total + Number(isKept(i))) : totals.slice().fill(count);
        // The mean of no tokens is 0.
        if (axis === null) for (const [i, n] of counts.entries()) counts[i] = n || 1;
        const means = totals.map((total, i) => total / counts[i]!);
        return finish('mean', means, (i) => Number(isKept(i)) / counts[positions[i]!]!);
      });
    },

    concatenate(tensors: unknown, options: unknown) {
      const name = 'concatenate';
      const parts = listOf(tensor, 'an array of tensors')(tensors, `${name}: tensors`);
      if (parts.length === 0) throw invalid(`${name}: tensors`, 'at least one tensor', 'none');
      const first = parts[0]!;
      const axis = readAxis(readOptions(name, concatenateSchema, options).axis, `${name}.axis`, first);
      const others = (shape: readonly number[]) => formatShape(withExtents(shape, axis));
      for (const [i, { shape }] of parts.entries()) {
        if (shape.length === first.shape.length && others(shape) === others(first.shape)) continue;
        throw misshapen(`${name}: tensors[${i}]`, `${formatShape(first.shape)} except along axis ${axis}`, shape);
      }
      const extent = parts.reduce((sum, { shape }) => sum + shape[axis]!, 0);
      const shape = withExtents(first.shape, axis, extent);
      return calling(name, () => {
        const strides = stridesOf(shape);
        const data = new Float32Array(elementCount(shape));
        let start = 0;
        const positions = parts.map((part) => {
          const own = stridedPositions(part.shape, strides, start * strides[axis]!);
          for (let i = 0; i < own.length; i++) data[own[i]!] = part.data[i]!;
          start += part.shape[axis]!;
          return own;
        });
        const inputs = Object.fromEntries(parts.map((part, i) => [`tensors[${i}]`, part]));
        return record({ name: 'sum', inputs, result: { data, shape }, positions });
      });
    },

    slice(given: unknown, options: unknown) {
      const x = readTensor('slice: x', given);
      const { axis: at, start, end } = readOptions('slice', sliceSchema, options);
      const axis = readAxis(at, 'slice.axis', x);
      const extent = x.shape[axis]!;
      const limited = (position: number) => Math.min(Math.max(position < 0 ? position + extent : position, 0), extent);
      const first = limited(start);
      const shape = withExtents(x.shape, axis, Math.max(limited(end) - first, 0));
      return calling('slice', () => {
        const strides = stridesOf(x.shape);
        return rearranged(x, shape, stridedPositions(shape, strides, first * strides[axis]!));
      });
    },

    reshape(given: unknown, extents: unknown) {
      const x = readOperand('reshape: x', given);
      const size = x.data.length;
      const shape = listOf((value, name) => integer(value, name, -1), 'an array of extents')(extents, 'reshape: shape');
      const free = shape.indexOf(-1);
      const others = elementCount(shape.filter((_, axis) => axis !== free));
      if (free >= 0) shape[free] = others === 0 ? -1 : size / others;
      if (shape.every((extent) => Number.isInteger(extent) && extent >= 0) && elementCount(shape) === size)
        return calling('reshape', () => rearranged(x, shape, null));
      throw misshapen('reshape: shape', `the ${size} elements of x`, extents as number[]);
    },

    transpose(given: unknown, axis0: unknown = -2, axis1: unknown = -1) {
      const x = readTensor('transpose: x', given);
      const [i, j] = [readAxis(axis0, 'transpose: axis0', x), readAxis(axis1, 'transpose: axis1', x)];
      return calling('transpose', () => {
        const { shape, positions } = transposedPositions(x.shape, i, j);
        return rearranged(x, shape, positions);
      });
    },

    matmul(left: unknown, right: unknown) {
      const [a, b] = [readTensor('matmul: a', left), readTensor('matmul: b', right)];
      return calling('matmul', () =>
        record({ name: 'matmul', inputs: { a, b }, result: matmul(runtime.calls, a, b), positions: [] }),
      );
    },
  }) as unknown as Operations;
}
