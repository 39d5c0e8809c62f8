import { describe, formatShape, guarded, invalid } from './error.js';
import { inspected } from './platform.js';
import type { RawMask, RawTensor } from './wasm/core.js';

/** Numbers in nested arrays; a number for a tensor without axes. */
export type NestedNumbers = number | NestedNumbers[];

/** What a tensor's values may be stored in. */
export type TensorData = Float32Array | Uint8Array | Int8Array;

/**
 * Numbers in row-major order and the extents of their axes, outermost first. Results of calls are such tensors; their `data` is a copy that JavaScript owns.
 *
 * @example
 * const x = new Tensor(Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]);
 * x.at(1, -1); // 6
 * x.at(0).toArray(); // [1, 2, 3]
 * x.slice(1).shape; // [1, 3]
 * for (const row of x) console.log(row); // two tensors of shape [3]
 */
export class Tensor<Data extends TensorData = Float32Array> implements Iterable<number | Tensor<Data>> {
  // Minified classes keep this name in consoles.
  static {
    Object.defineProperty(Tensor, 'name', { value: 'Tensor' });
  }

  readonly data: Data;
  readonly shape: number[];

  /** @throws HeedError `SHAPE_MISMATCH` if the product of the extents is not the number of values */
  constructor(data: Data, shape: readonly number[]) {
    const expected = 'a Float32Array, a Uint8Array or an Int8Array';
    if (!expected.includes(kindOf(data) ?? '-')) throw invalid('Tensor: data', expected, describe(data));
    this.shape = guarded('Tensor: shape', () => checkShape('Tensor', data.length, shape));
    this.data = data;
  }

  /**
   * The entry at `indices`, one per axis from the first; with fewer indices than axes, a copy of the sub-tensor there, which in training has a gradient. Negative indices count from
   * the end.
   * @throws HeedError `INVALID_ARGUMENT` for an index outside its axis, or more indices than axes
   */
  at<Result extends number | Tensor<TensorData> = number | Tensor<Data>>(...indices: number[]): Result {
    const rank = this.shape.length;
    if (indices.length > rank) throw invalid('Tensor.at: indices', `at most ${rank} indices`, `${indices.length}`);
    let first = 0;
    for (const [axis, index] of indices.entries()) {
      const extent = this.shape[axis]!;
      if (!Number.isInteger(index) || index < -extent || index >= extent)
        throw invalid(`Tensor.at: index ${axis}`, `an integer from ${-extent} to ${extent - 1}`, describe(index));
      first = first * extent + (index < 0 ? index + extent : index);
    }
    if (indices.length === rank) return this.data[first] as Result;
    const shape = this.shape.slice(indices.length);
    return partOf(this, elementCount(shape), first, 1, shape) as unknown as Result;
  }

  /**
   * A copy of the entries from `start` up to, but not including, `end` of the first axis; as in `Array.prototype.slice`, negative positions count from the end and positions
   * beyond it are limited to it. In training it has a gradient.
   * @throws HeedError `INVALID_ARGUMENT` for a tensor without axes
   */
  slice(start = 0, end = Infinity): Tensor<Data> {
    const extent = firstExtent(this);
    const limited = (position: number) =>
      Math.trunc(Math.min(Math.max(position < 0 ? position + extent : position, 0), extent));
    const [first, last] = [limited(start), Math.max(limited(start), limited(end))];
    const entry = this.shape.slice(1);
    return partOf(this, elementCount(entry), first, last - first, [last - first, ...entry]);
  }

  /** The entries of the first axis: numbers for a tensor with one axis, else copies of the sub-tensors. */
  *[Symbol.iterator](): Generator<number | Tensor<Data>, void> {
    for (let i = 0, extent = firstExtent(this); i < extent; i++) yield this.at(i);
  }

  /**
   * The numbers in arrays, one level per axis: `number` for a tensor without axes, `number[]` with one, `number[][]` with two. Name the type that fits: `x.toArray<number[][]>()`.
   *
   * @example
   * const x = new Tensor(Float32Array.of(1, 2, 3, 4), [2, 2]);
   * x.toArray(); // [[1, 2], [3, 4]]
   */
  toArray<Result extends NestedNumbers = NestedNumbers>(): Result {
    return nest<NestedNumbers>(
      this,
      (value) => value,
      (entries) => entries,
    ) as Result;
  }

  /**
   * What `JSON.stringify` writes: the numbers in nested arrays, which are accepted wherever a tensor is.
   *
   * @example
   * JSON.stringify({ vector: new Tensor(Float32Array.of(1, 2), [2]) }); // '{"vector":[1,2]}'
   */
  toJSON(): NestedNumbers {
    return this.toArray();
  }

  /**
   * The numbers as text, aligned in columns: four decimal places, for masks none. Of more than 1000 numbers, only the first and last three entries of each axis are
   * shown, as in NumPy.
   *
   * @example
   * String(new Tensor(Float32Array.of(1, -0.5), [2])); // "[ 1.0000, -0.5000]"
   */
  toString(): string {
    return this.#text(this.data.length > 1000);
  }

  /** `isShort`: only the first and last three entries of each axis. */
  #text(isShort: boolean): string {
    const textOf = (value: number) =>
      this.data.BYTES_PER_ELEMENT === 4 ? value.toFixed(4).replace(/^-(0\.0+)$/, '$1') : String(value);
    const edge = isShort ? 3 : Infinity;
    const width = nest<number>(
      this,
      (value) => textOf(value).length,
      (lengths) => Math.max(0, ...lengths),
      edge,
    );
    return nest(
      this,
      (value) => textOf(value).padStart(width),
      (entries, axis) => {
        if (entries.length < this.shape[axis]!) entries.splice(edge, 0, '…');
        // A line break between rows, and one more for each further axis.
        const depth = this.shape.length - 1 - axis;
        return `[${entries.join(depth === 0 ? ', ' : `,${'\n'.repeat(depth)}${' '.repeat(axis + 1)}`)}]`;
      },
      edge,
    );
  }

  /** What `console.log` prints in Node, Deno and Bun: the shape, then `toString()`, of rows longer than 64 as for large tensors. */
  [inspected](): string {
    const isShort = this.data.length > 1000 || (this.shape.at(-1) ?? 0) > 64;
    return `Tensor ${formatShape(this.shape)}\n${this.#text(isShort)}`;
  }
}

/** Returns rows `first` to `first + count` of a tensor [rows, columns] of training, as a result that has a gradient; null if the tensor has none. */
export type PartRecorder = (whole: RawTensor, first: number, count: number) => Float32Array | null;

/** How parts of results of training are recorded, by the results' data. */
const recorders = new WeakMap<object, PartRecorder>();

/** @internal From now on, `record` makes the parts of a result of training. */
export function recordParts(data: Float32Array, record: PartRecorder): void {
  recorders.set(data, record);
}

/** `count` blocks of `size` values each, from block `first` on. */
function partOf<Data extends TensorData>(
  { data }: Tensor<Data>,
  size: number,
  first: number,
  count: number,
  shape: readonly number[],
): Tensor<Data> {
  const record = count * size > 0 ? recorders.get(data) : undefined;
  const whole = { data: data as Float32Array, shape: [data.length / size, size] };
  const part = record?.(whole, first, count) ?? data.slice(first * size, (first + count) * size);
  return new Tensor(part as Data, shape);
}

function firstExtent({ shape }: { shape: readonly number[] }): number {
  if (shape.length === 0) throw invalid('Tensor', 'a tensor with at least one axis', 'one without axes');
  return shape[0]!;
}

/** Combines the entries of a tensor axis by axis, the innermost axis first; of each axis, at most the first and last `edge` entries. */
function nest<T>(
  { data, shape }: Tensor<TensorData>,
  leaf: (value: number) => T,
  join: (entries: T[], axis: number) => T,
  edge = Infinity,
): T {
  const combine = (axis: number, first: number, size: number): T => {
    if (axis === shape.length) return leaf(data[first]!);
    const extent = shape[axis]!;
    const length = Math.min(extent, 2 * edge);
    const entry = (_: unknown, i: number) =>
      combine(axis + 1, first + ((i < edge ? i : i + extent - length) * size) / extent, size / extent);
    return join(Array.from({ length }, entry), axis);
  };
  return combine(0, 0, data.length);
}

/** Float32 numbers with a shape: a `Tensor`, or any object that has both. */
export interface TensorLike {
  readonly data: Float32Array;
  readonly shape: readonly number[];
}

/** Numbers in nested arrays; all rows of one axis have the same length. */
export type NestedInput = readonly number[] | readonly NestedInput[];

/** What may be passed wherever a tensor is expected. */
export type TensorInput = TensorLike | NestedInput;

/** A boolean mask in nested arrays: true or 1 marks what may be attended to. */
export type NestedMask = readonly (boolean | number)[] | readonly NestedMask[];

/**
 * What may be passed wherever a mask is expected. Nested arrays and `Uint8Array` tensors are boolean (true or 1: *may be attended to*, the opposite of PyTorch's
 * `key_padding_mask`); a tensor over a `Float32Array` is added to the scores.
 */
export type MaskInput = NestedMask | TensorLike | { readonly data: Uint8Array; readonly shape: readonly number[] };

// More axes than any tensor has; also stops at arrays that contain themselves.
const MAX_RANK = 16;
/** The largest extent: extents are 32-bit in the core. */
export const MAX_SIZE = 2 ** 31 - 1;

/** Reads a tensor or nested numbers into values and a shape. A Float32Array of the caller is not copied. */
export function readTensor(argument: string, value: unknown): RawTensor {
  return read(argument, value, 'a { data: Float32Array, shape } tensor or nested arrays of numbers', 'a Float32Array', {
    Store: Float32Array,
    entryOf: (entry) => (typeof entry === 'number' ? entry : null),
    entries: 'numbers',
  });
}

/** Reads a mask; see `MaskInput`. */
export function readMask(argument: string, value: unknown): RawMask {
  const mask = read<Uint8Array | Float32Array>(
    argument,
    value,
    'nested arrays of booleans, a Uint8Array tensor or a Float32Array tensor',
    'a Uint8Array (1: may attend) or a Float32Array (added to the scores)',
    {
      Store: Uint8Array,
      entryOf: (entry) => (entry === true || entry === 1 ? 1 : entry === false || entry === 0 ? 0 : null),
      entries: 'true, false, 1 or 0',
      hint: 'Numbers to add to the scores come in a Tensor over a Float32Array',
    },
  );
  const wrong = isBoolean(mask) ? mask.data.findIndex((entry) => entry > 1) : -1;
  if (wrong >= 0) throw invalid(`${argument}.data[${wrong}]`, '0 or 1', String(mask.data[wrong]));
  return mask;
}

/** The number of values of a tensor of this shape. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

/** Whether a mask is boolean rather than additive; not by `instanceof`, which is false for arrays of another realm. */
export function isBoolean({ data }: RawMask): boolean {
  return data.BYTES_PER_ELEMENT === 1;
}

/** How nested arrays become values. `entryOf` returns null for what is not a legal entry. */
interface Entries<Data> {
  Store: new (length: number) => Data;
  entryOf: (entry: unknown) => number | null;
  entries: string;
  /** For numbers that are no entries. */
  hint?: string;
}

/** Reads nested arrays, or an object with `data` of one of the kinds that `expectedData` names and a `shape`. */
export function read<Data extends TensorData | Int32Array>(
  argument: string,
  value: unknown,
  expected: string,
  expectedData: string,
  entries: Entries<Data>,
): { data: Data; shape: number[] } {
  return guarded(argument, () => {
    if (Array.isArray(value)) return flatten(argument, value, entries);
    const { data, shape } = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>;
    if (data === undefined || shape === undefined) throw invalid(argument, expected, describe(value));
    if (!expectedData.includes(kindOf(data) ?? '-')) throw invalid(`${argument}.data`, expectedData, describe(data));
    return { data: data as Data, shape: checkShape(argument, checkedLength(argument, data as Data), shape) };
  });
}

// The getter on %TypedArray%.prototype: works for typed arrays of any realm, and is undefined for objects that only resemble them.
const typedArrayName = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)!
  .get!;

/** The name of a typed array's class; undefined for other values. */
export function kindOf(data: unknown): string | undefined {
  return typedArrayName.call(data);
}

function checkedLength(argument: string, data: TensorData | Int32Array): number {
  const { length, buffer } = data;
  // The array's own length may be stale: V8 before 12 keeps it in optimized code that has also seen arrays over resizable buffers.
  if (buffer.byteLength === 0 && (length > 0 || (buffer as { detached?: boolean }).detached)) {
    throw invalid(`${argument}.data`, 'values', 'an array whose buffer is detached');
  }
  return length;
}

/** A copy of `shape`, checked against the number of values. */
function checkShape(argument: string, length: number, shape: unknown): number[] {
  if (!Array.isArray(shape)) throw invalid(`${argument}.shape`, 'an array of extents', describe(shape));
  const rank = shape.length;
  if (rank > MAX_RANK) throw invalid(`${argument}.shape`, `at most ${MAX_RANK} axes`, `${rank}`);
  const extents = Array.from({ length: rank }, (_, axis) => shape[axis] as unknown);
  let size = 1;
  for (const extent of extents) {
    if (!Number.isInteger(extent) || (extent as number) < 0 || (extent as number) > MAX_SIZE) {
      throw invalid(`${argument}.shape`, 'integers from 0 to 2147483647', formatShape(extents));
    }
    size *= extent as number;
  }
  if (size !== length) {
    throw invalid(argument, `${size} values for shape ${formatShape(extents)}`, `${length}`, 'SHAPE_MISMATCH');
  }
  return extents as number[];
}

function flatten<Data extends TensorData | Int32Array>(
  argument: string,
  nested: readonly unknown[],
  { Store, entryOf, entries, hint }: Entries<Data>,
): { data: Data; shape: number[] } {
  const shape: number[] = [];
  for (let level: unknown = nested; Array.isArray(level); level = level[0]) {
    shape.push(level.length);
    if (shape.length > MAX_RANK)
      throw invalid(argument, `nested arrays of ${entries}`, `arrays nested more than ${MAX_RANK} deep`);
    if (level.length === 0) break;
  }
  // Lengths first: a long first row among short ones must not decide how much memory is allocated.
  const checkRows = (level: unknown, axis: number, path: string): void => {
    if (!Array.isArray(level) || level.length !== shape[axis]) {
      const code = Array.isArray(level) ? 'SHAPE_MISMATCH' : 'INVALID_ARGUMENT';
      throw invalid(`${argument}${path}`, `an array of ${shape[axis]}, as the first`, describe(level), code);
    }
    if (axis + 1 < shape.length) for (let i = 0; i < level.length; i++) checkRows(level[i], axis + 1, `${path}[${i}]`);
  };
  checkRows(nested, 0, '');
  const data = new Store(elementCount(shape));
  let next = 0;
  const fill = (level: readonly unknown[], axis: number, path: string): void => {
    const isRow = axis + 1 === shape.length;
    for (let i = 0; i < level.length; i++) {
      if (!isRow) {
        fill(level[i] as readonly unknown[], axis + 1, `${path}[${i}]`);
        continue;
      }
      const entry = entryOf(level[i]);
      if (entry === null) {
        const isNumber = typeof level[i] === 'number';
        throw invalid(
          `${argument}${path}[${i}]`,
          entries,
          describe(level[i]),
          undefined,
          isNumber && hint ? { hint } : {},
        );
      }
      data[next++] = entry;
    }
  };
  fill(nested, 0, '');
  return { data, shape };
}

/** A matrix [rows, width]; refuses rows of width 0, whose number is arbitrary. */
export function readRows(name: string, value: unknown): RawTensor {
  const rows = readTensor(name, value);
  requireMatrix(name, rows.shape);
  return rows;
}

export function requireMatrix(name: string, shape: number[]): void {
  if (shape.length !== 2 || (shape[1] === 0 && shape[0] !== 0))
    throw invalid(name, '[rows, width]', `shape ${formatShape(shape)}`, 'SHAPE_MISMATCH');
}
