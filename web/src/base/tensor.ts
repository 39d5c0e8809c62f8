import { describe, formatShape, guarded, invalid } from './error.js';
import { maxOf } from './lists.js';
import { inspected } from './platform.js';
import { Unproxied } from './unproxied.js';
import type { RawMask, RawTensor } from './wasm/core.js';

/** Numbers in nested arrays, or a single number for a tensor without axes. */
export type NestedNumbers = number | NestedNumbers[];

/** The array types for a tensor's values. */
export type TensorData = Float32Array | Uint8Array | Int8Array;

/**
 * Numbers in row-major order, with the extents of their axes, outermost first. Calls return such tensors; their `data`
 * is a copy owned by JavaScript.
 *
 * @example
 * const x = new Tensor(Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]);
 * x.at(1, -1); // 6
 * x.at(0).toArray(); // [1, 2, 3]
 * x.slice(1).shape; // [1, 3]
 * for (const row of x) console.log(row); // two tensors of shape [3]
 */
export class Tensor<Data extends TensorData = Float32Array>
  extends Unproxied
  implements Iterable<number | Tensor<Data>>
{
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'Tensor';

  /** The values in row-major order: the last axis varies fastest. Not a copy. */
  readonly data: Data;
  /** The extent of each axis, such as [texts, dimensions]. */
  readonly shape: number[];

  /** @throws HeedError `SHAPE_MISMATCH` if the product of the extents differs from the number of values */
  constructor(data: Data, shape: readonly number[]) {
    super();
    const expected = 'a Float32Array, a Uint8Array or an Int8Array';
    if (!expected.includes(kindOf(data) ?? '-')) throw invalid('Tensor: data', expected, describe(data));
    this.shape = guarded('Tensor: shape', () => checkShape('Tensor', data.length, shape));
    this.data = data;
  }

  /**
   * Returns the entry at `indices`, one per axis from the first. With fewer indices than axes, returns a copy of the
   * sub-tensor there, which has a gradient in training. Negative indices count from the end.
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
   * Returns a copy of the entries [start, end) of the first axis. As in `Array.prototype.slice`, negative positions
   * count from the end, and positions out of range are clamped. The result has a gradient in training.
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

  /** Iterates over the first axis: numbers for a tensor with one axis, otherwise copies of the sub-tensors. */
  *[Symbol.iterator](): Generator<number | Tensor<Data>, void> {
    for (let i = 0, extent = firstExtent(this); i < extent; i++) yield this.at(i);
  }

  /**
   * Returns the numbers in arrays, one level per axis: `number` for a tensor without axes, `number[]` with one,
   * `number[][]` with two. Pass the type if needed: `x.toArray<number[][]>()`.
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
   * Returns the value for `JSON.stringify`: the numbers in nested arrays, which are accepted wherever a tensor is.
   *
   * @example
   * JSON.stringify({ vector: new Tensor(Float32Array.of(1, 2), [2]) }); // '{"vector":[1,2]}'
   */
  toJSON(): NestedNumbers {
    return this.toArray();
  }

  /**
   * Formats the numbers, aligned in columns, with four decimals; masks without decimals. For more than 1000 numbers,
   * shows only the first and last three entries of each axis, as NumPy does.
   *
   * @example
   * String(new Tensor(Float32Array.of(1, -0.5), [2])); // "[ 1.0000, -0.5000]"
   */
  override toString(): string {
    return this.#text(this.data.length > 1000);
  }

  /** `isShort`: show only the first and last three entries of each axis. */
  #text(isShort: boolean): string {
    const textOf = (value: number) =>
      this.data.BYTES_PER_ELEMENT === 4 ? value.toFixed(4).replace(/^-(0\.0+)$/, '$1') : String(value);
    const edge = isShort ? 3 : Infinity;
    const width = nest<number>(
      this,
      (value) => textOf(value).length,
      (lengths) => maxOf([0, ...lengths]),
      edge,
    );
    return nest(
      this,
      (value) => textOf(value).padStart(width),
      (entries, axis) => {
        if (entries.length < this.shape[axis]!) entries.splice(edge, 0, '…');
        // One line break between rows, and one more per further axis.
        const depth = this.shape.length - 1 - axis;
        return `[${entries.join(depth === 0 ? ', ' : `,${'\n'.repeat(depth)}${' '.repeat(axis + 1)}`)}]`;
      },
      edge,
    );
  }

  /**
   * The text for `console.log` in Node, Deno and Bun: the shape, then `toString()`, abbreviated if rows are longer than
   * 64.
   */
  [inspected](): string {
    const isShort = this.data.length > 1000 || (this.shape.at(-1) ?? 0) > 64;
    return `Tensor ${formatShape(this.shape)}\n${this.#text(isShort)}`;
  }
}

/**
 * Returns rows [first, first + count) of a training tensor [rows, columns] as a result that has a gradient; null if the
 * tensor has none.
 */
export type PartRecorder = (whole: RawTensor, first: number, count: number) => Float32Array | null;

/** Recorders of parts of training results, keyed by the results' data. */
const recorders = new WeakMap<object, PartRecorder>();

/** @internal Registers `record` for making parts of a training result. */
export function recordParts(data: Float32Array, record: PartRecorder): void {
  recorders.set(data, record);
}

/** Copies `count` blocks of `size` values each, starting at block `first`. */
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
  if (shape.length === 0) throw invalid('Tensor', 'at least one axis', 'a tensor without axes');
  return shape[0]!;
}

/**
 * Combines the entries of a tensor axis by axis, innermost first, using at most the first and last `edge` entries of
 * each axis.
 */
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

/** Float32 numbers with a shape: a `Tensor`, or any object with these two members. */
export interface TensorLike {
  readonly data: Float32Array;
  readonly shape: readonly number[];
}

/** Numbers in nested arrays. The innermost arrays may be Float32Arrays. All rows along an axis have the same length. */
export type NestedInput = readonly number[] | readonly Float32Array[] | readonly NestedInput[];

/** A value that is accepted wherever a tensor is expected. */
export type TensorInput = TensorLike | NestedInput;

/**
 * A mask in nested arrays: of booleans, zeros and ones, where true or 1 allows attention; or of numbers that are added
 * to the scores, if one of them is neither 0 nor 1, such as -Infinity.
 */
export type NestedMask = readonly (boolean | number)[] | readonly NestedMask[];

/**
 * A value that is accepted wherever a mask is expected. `Uint8Array` tensors and nested arrays of booleans, zeros and
 * ones are boolean masks (true or 1: *may be attended to*, the opposite of PyTorch's `key_padding_mask`).
 * `Float32Array` tensors, and nested arrays with any other number, are added to the scores: 0 then adds nothing, and
 * -Infinity forbids attention.
 */
export type MaskInput = NestedMask | TensorLike | { readonly data: Uint8Array; readonly shape: readonly number[] };

// More axes than any tensor has. The limit also stops at arrays that contain themselves.
const MAX_RANK = 16;
/** The maximum extent: the WebAssembly module uses 32-bit extents. */
export const MAX_SIZE = 2 ** 31 - 1;

/** Reads a tensor or nested numbers into values and a shape. Does not copy the caller's Float32Array. */
export function readTensor(argument: string, value: unknown): RawTensor {
  return read(argument, value, 'a { data: Float32Array, shape } tensor or nested arrays of numbers', 'a Float32Array', {
    Store: Float32Array,
    entryOf: (entry) => (typeof entry === 'number' ? entry : null),
    entries: 'numbers',
  });
}

/** Reads a mask; see `MaskInput`. */
export function readMask(argument: string, value: unknown): RawMask {
  let hasBooleans = false;
  let isAdded = false;
  const nested = read<Uint8Array | Float32Array>(
    argument,
    value,
    'nested arrays of booleans or numbers, a Uint8Array tensor or a Float32Array tensor',
    'a Uint8Array (1: may attend) or a Float32Array (added to the scores)',
    {
      Store: Float32Array,
      entryOf: (entry) => {
        const isBoolean = typeof entry === 'boolean';
        if (!isBoolean && typeof entry !== 'number') return null;
        hasBooleans ||= isBoolean;
        isAdded ||= entry !== Number(Boolean(entry)) && !isBoolean;
        return hasBooleans && isAdded ? null : Number(entry);
      },
      entries: 'booleans, or numbers that are added to the scores',
    },
  );
  const mask = Array.isArray(value) && !isAdded ? { ...nested, data: Uint8Array.from(nested.data) } : nested;
  const wrong = isBoolean(mask) ? mask.data.findIndex((entry) => entry > 1) : -1;
  if (wrong >= 0) throw invalid(`${argument}.data[${wrong}]`, '0 or 1', String(mask.data[wrong]));
  return mask;
}

/** The number of values of a tensor of this shape. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

/** Whether a mask is boolean rather than additive. `instanceof` would be false for arrays of another realm. */
export function isBoolean({ data }: RawMask): boolean {
  return data.BYTES_PER_ELEMENT === 1;
}

/** What the entry of a mask adds to a score. */
export function summand(mask: RawMask, at: number): number {
  const entry = mask.data[at]!;
  return isBoolean(mask) ? (entry === 1 ? 0 : -Infinity) : entry;
}

/** How nested arrays are converted. `entryOf` returns null for invalid entries. */
interface Entries<Data> {
  Store: new (length: number) => Data;
  entryOf: (entry: unknown) => number | null;
  entries: string;
}

/** Reads nested arrays, or an object with a `shape` and with `data` of a type that `expectedData` names. */
export function read<Data extends TensorData | Int32Array | Float64Array>(
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

// The getter on %TypedArray%.prototype works for typed arrays of any realm, and returns undefined for objects that only
// resemble them.
const typedArrayName = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)!
  .get!;

/** The name of a typed array's class; undefined for other values. */
export function kindOf(data: unknown): string | undefined {
  return typedArrayName.call(data);
}

function checkedLength(argument: string, data: TensorData | Int32Array | Float64Array): number {
  const { length, buffer } = data;
  // `length` may be stale: V8 before 12 caches it in optimized code that has also seen arrays over resizable buffers.
  if (buffer.byteLength === 0 && (length > 0 || (buffer as { detached?: boolean | undefined }).detached)) {
    throw invalid(`${argument}.data`, 'values', 'an array whose buffer is detached');
  }
  return length;
}

/** Copies `shape` and checks it against the number of values. */
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

/** An array, or a Float32Array as a row of one. */
const isList = (value: unknown): value is ArrayLike<unknown> =>
  Array.isArray(value) || kindOf(value) === 'Float32Array';

function flatten<Data extends TensorData | Int32Array | Float64Array>(
  argument: string,
  nested: readonly unknown[],
  { Store, entryOf, entries }: Entries<Data>,
): { data: Data; shape: number[] } {
  const shape: number[] = [];
  for (let level: unknown = nested; isList(level); level = level[0]) {
    shape.push(level.length);
    if (shape.length > MAX_RANK)
      throw invalid(argument, `nested arrays of ${entries}`, `arrays nested more than ${MAX_RANK} deep`);
    if (level.length === 0) break;
  }
  // Check lengths before allocating, so that a long first row among short ones does not determine the memory.
  const checkRows = (level: unknown, axis: number, path: string): void => {
    if (!isList(level) || level.length !== shape[axis]) {
      const code = isList(level) ? 'SHAPE_MISMATCH' : 'INVALID_ARGUMENT';
      throw invalid(`${argument}${path}`, `an array of ${shape[axis]} like the first one`, describe(level), code);
    }
    if (axis + 1 < shape.length) for (let i = 0; i < level.length; i++) checkRows(level[i], axis + 1, `${path}[${i}]`);
  };
  checkRows(nested, 0, '');
  const data = new Store(elementCount(shape));
  let next = 0;
  const fill = (level: ArrayLike<unknown>, axis: number, path: string): void => {
    const isRow = axis + 1 === shape.length;
    for (let i = 0; i < level.length; i++) {
      if (!isRow) {
        fill(level[i] as ArrayLike<unknown>, axis + 1, `${path}[${i}]`);
        continue;
      }
      const entry = entryOf(level[i]);
      if (entry === null) throw invalid(`${argument}${path}[${i}]`, entries, describe(level[i]));
      data[next++] = entry;
    }
  };
  fill(nested, 0, '');
  return { data, shape };
}

/** Reads a matrix [rows, width]. Rejects width 0, where the number of rows is arbitrary. */
export function readRows(name: string, value: unknown): RawTensor {
  const rows = readTensor(name, value);
  requireMatrix(name, rows.shape);
  return rows;
}

export function requireMatrix(name: string, shape: number[]): void {
  if (shape.length !== 2 || (shape[1] === 0 && shape[0] !== 0))
    throw invalid(name, '[rows, width]', `shape ${formatShape(shape)}`, 'SHAPE_MISMATCH');
}
