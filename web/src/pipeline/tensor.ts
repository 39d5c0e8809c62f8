/** Tensors with the members of transformers.js's tensors. */
import { describe, invalid } from '../base/error.js';
import { type NestedNumbers, Tensor } from '../base/tensor.js';

/** The values of a `PipelineTensor`. */
export type PipelineData = Float32Array | Int8Array | Uint8Array;

/**
 * A slice of one axis: null for the whole axis, an index, which removes the axis, or a range [start, end), where null
 * means from the start or to the end.
 */
export type PipelineSlice = number | readonly [start: number | null, end: number | null] | null;

/** A tensor with transformers.js's interface. */
export interface PipelineTensor<Data extends PipelineData = Float32Array> {
  /** The type of the entries. */
  readonly type: Data extends Float32Array ? 'float32' : Data extends Int8Array ? 'int8' : 'uint8';
  /** The values in row-major order. */
  readonly data: Data;
  /** The shape. */
  readonly dims: number[];
  /** The number of values. */
  readonly size: number;
  /** Returns the values in nested arrays. */
  tolist(): NestedNumbers;
  /** Returns the value of a tensor with exactly one. */
  item(): number;
  /** Returns the mean of all values as a tensor of the same type without axes. */
  mean(): PipelineTensor<Data>;
  /** Returns a copy of a part. Negative numbers count from the end of an axis. */
  slice(...slices: PipelineSlice[]): PipelineTensor<Data>;
  /** A copy of the part at an index of the first axis. */
  readonly [index: number]: PipelineTensor<Data>;
  /** Iterates over the parts along the first axis; for a vector, over its numbers. */
  [Symbol.iterator](): IterableIterator<PipelineTensor<Data> | number>;
}

/** @internal */
export function pipelineTensor<Data extends PipelineData>(data: Data, dims: readonly number[]): PipelineTensor<Data> {
  const type = data instanceof Float32Array ? 'float32' : data instanceof Int8Array ? 'int8' : 'uint8';
  const slice = (...slices: PipelineSlice[]) => sliced(data, dims, slices);
  const tensor = {
    ...{ type, data, dims: [...dims], size: data.length, slice },
    tolist: () => new Tensor(data as Float32Array, dims).toArray(),
    item() {
      if (data.length === 1) return data[0]!;
      throw invalid('item', 'a tensor with one value', `${data.length}`);
    },
    mean() {
      let sum = 0;
      for (const value of data) sum += value;
      return pipelineTensor(new (data.constructor as new (values: number[]) => Data)([sum / data.length]), []);
    },
    *[Symbol.iterator]() {
      for (let i = 0; i < (dims[0] ?? 0); i++) yield dims.length === 1 ? data[i]! : slice(i);
    },
  };
  // Parts along the first axis are made when they are accessed.
  return new Proxy(tensor, {
    get: (target, key) =>
      typeof key === 'string' && /^\d+$/.test(key)
        ? Number(key) < (dims[0] ?? 0)
          ? slice(Number(key))
          : undefined
        : Reflect.get(target, key),
  }) as unknown as PipelineTensor<Data>;
}

function sliced<Data extends PipelineData>(
  data: Data,
  dims: readonly number[],
  slices: readonly PipelineSlice[],
): PipelineTensor<Data> {
  if (slices.length > dims.length)
    throw invalid('slice', `at most ${dims.length} slices, one per axis`, `${slices.length}`);
  const ranges = dims.map((extent, axis) => rangeOf(slices[axis] ?? null, extent, axis));
  const kept = ranges.filter(({ isIndex }) => !isIndex).map(({ start, end }) => end - start);
  const result = data.slice(
    0,
    ranges.reduce((product, { start, end }) => product * (end - start), 1),
  ) as Data;
  let to = 0;
  const copy = (axis: number, from: number, size: number) => {
    if (axis === dims.length) {
      result[to++] = data[from]!;
      return;
    }
    const step = size / dims[axis]!;
    for (let i = ranges[axis]!.start; i < ranges[axis]!.end; i++) copy(axis + 1, from + i * step, step);
  };
  if (result.length > 0) copy(0, 0, data.length);
  return pipelineTensor(result, kept);
}

function rangeOf(slice: PipelineSlice, extent: number, axis: number): { start: number; end: number; isIndex: boolean } {
  const wrong = (got: string) =>
    invalid(`slice[${axis}]`, `null, an index or [start, end] within ${extent} entries`, got);
  if (slice === null) return { start: 0, end: extent, isIndex: false };
  const at = (value: number) => (value < 0 ? value + extent : value);
  if (typeof slice === 'number') {
    const start = at(slice);
    if (!Number.isInteger(slice) || start < 0 || start >= extent) throw wrong(`${slice}`);
    return { start, end: start + 1, isIndex: true };
  }
  if (!Array.isArray(slice) || slice.length !== 2) throw wrong(describe(slice));
  const [first, last] = slice as [number | null, number | null];
  const [start, end] = [at(first ?? 0), at(last ?? extent)];
  if (!Number.isInteger(start) || !Number.isInteger(end) || start < 0 || end > extent || start > end)
    throw wrong(`[${first}, ${last}]`);
  return { start, end, isIndex: false };
}
