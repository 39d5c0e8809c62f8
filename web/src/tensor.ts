import type { RawMask, RawTensor } from './core.js';
import { describe, guarded, HeedError, invalid } from './error.js';

/** Numbers nested in arrays; a plain number where the tensor has no axis. */
export type NestedNumbers = number | NestedNumbers[];

/** Row-major numbers and the extents of their axes, outermost first. Owned by JavaScript: results are copies. */
export class Tensor<Data extends Float32Array | Uint8Array = Float32Array> {
  // Its own name in consoles, whatever a minifier calls the class.
  static {
    Object.defineProperty(Tensor, 'name', { value: 'Tensor' });
  }

  readonly data: Data;
  readonly shape: number[];

  /** @throws HeedError `SHAPE_MISMATCH` where the shape's extents do not multiply to the number of values. */
  constructor(data: Data, shape: readonly number[]) {
    const kind = kindOf(data);
    if (kind !== 'Float32Array' && kind !== 'Uint8Array')
      throw invalid('Tensor: data', describe(data), 'a Float32Array or a Uint8Array');
    this.shape = guarded('Tensor: shape', () => checkShape('Tensor', data.length, shape));
    this.data = data;
  }

  /** The numbers nested in arrays, one level an axis. */
  toArray(): NestedNumbers {
    const nest = (axis: number, offset: number, size: number): NestedNumbers => {
      if (axis === this.shape.length) return this.data[offset]!;
      const extent = this.shape[axis]!;
      const step = extent === 0 ? 0 : size / extent;
      return Array.from({ length: extent }, (_, i) => nest(axis + 1, offset + i * step, step));
    };
    return nest(0, 0, this.data.length);
  }

  /** Rows in brackets to look at, in columns, four digits after the point (masks: none). */
  toString(): string {
    const texts = Array.from(this.data, (value) =>
      this.data instanceof Float32Array ? value.toFixed(4).replace(/^-(0\.0+)$/, '$1') : String(value),
    );
    const width = texts.reduce((most, text) => Math.max(most, text.length), 0);
    const nest = (axis: number, offset: number, size: number): string => {
      if (axis === this.shape.length) return texts[offset]!.padStart(width);
      const extent = this.shape[axis]!;
      const step = extent === 0 ? 0 : size / extent;
      const parts = Array.from({ length: extent }, (_, i) => nest(axis + 1, offset + i * step, step));
      // A line break between rows, and one more for each further axis.
      const between =
        axis === this.shape.length - 1 ? ', ' : `,${'\n'.repeat(this.shape.length - 1 - axis)}${' '.repeat(axis + 1)}`;
      return `[${parts.join(between)}]`;
    };
    return nest(0, 0, this.data.length);
  }
}

/** Float32 numbers with a shape: heed's own results, or any object that has both. */
export interface TensorLike {
  readonly data: Float32Array;
  readonly shape: readonly number[];
}

/** Numbers in nested arrays, all rows of one axis equally long. */
export type NestedInput = readonly number[] | readonly NestedInput[];

/** What is taken wherever a tensor is expected. */
export type TensorInput = TensorLike | NestedInput;

/** Entries of a boolean mask: true / 1 may be attended to. */
export type NestedMask = readonly (boolean | number)[] | readonly NestedMask[];

/**
 * What is taken wherever a mask is expected. Nested arrays and `Uint8Array` tensors are boolean (true / 1: *may be attended to*, the opposite of PyTorch's
 * `key_padding_mask`); a tensor over a `Float32Array` is added to the scores.
 */
export type MaskInput = NestedMask | TensorLike | { readonly data: Uint8Array; readonly shape: readonly number[] };

// Deep enough for every tensor, and an end for arrays that contain themselves.
const MAX_RANK = 16;
/** Extents are 32-bit in the core. */
export const MAX_SIZE = 2 ** 31 - 1;

/** Reads a tensor or nested numbers into values and a shape. Values are not copied where the caller gives a Float32Array. */
export function readTensor(argument: string, value: unknown): RawTensor {
  return guarded(argument, () => {
    if (Array.isArray(value)) {
      return flatten(argument, value, Float32Array, (entry) => (typeof entry === 'number' ? entry : null), 'numbers');
    }
    const { data, shape } = fields(
      argument,
      value,
      'a { data: Float32Array, shape } tensor or nested arrays of numbers',
    );
    if (kindOf(data) !== 'Float32Array') throw invalid(`${argument}.data`, describe(data), 'a Float32Array');
    return { data: data as Float32Array, shape: checkShape(argument, lengthOf(argument, data as Float32Array), shape) };
  });
}

/** Reads a mask; see `MaskInput`. */
export function readMask(argument: string, value: unknown): RawMask {
  return guarded(argument, () => {
    if (Array.isArray(value)) {
      return flatten(
        argument,
        value,
        Uint8Array,
        (e) => (e === true || e === 1 ? 1 : e === false || e === 0 ? 0 : null),
        'true, false, 1 or 0',
      );
    }
    const { data, shape } = fields(
      argument,
      value,
      'nested arrays of booleans, a Uint8Array tensor or a Float32Array tensor',
    );
    const kind = kindOf(data);
    if (kind !== 'Uint8Array' && kind !== 'Float32Array') {
      throw invalid(
        `${argument}.data`,
        describe(data),
        'a Uint8Array (1: may attend) or a Float32Array (added to the scores)',
      );
    }
    const values = data as Uint8Array | Float32Array;
    const checked = checkShape(argument, lengthOf(argument, values), shape);
    if (kind === 'Uint8Array') {
      const wrong = values.findIndex((entry) => entry > 1);
      if (wrong >= 0) throw invalid(`${argument}.data[${wrong}]`, String(values[wrong]), '0 or 1');
    }
    return { data: values, shape: checked };
  });
}

export function formatShape(shape: readonly unknown[]): string {
  return `[${shape.map((extent) => (typeof extent === 'number' ? extent : describe(extent))).join(', ')}]`;
}

function fields(argument: string, value: unknown, expected: string): { data: unknown; shape: unknown } {
  if (typeof value !== 'object' || value === null) throw invalid(argument, describe(value), expected);
  const { data, shape } = value as { data?: unknown; shape?: unknown };
  if (data === undefined || shape === undefined) throw invalid(argument, describe(value), expected);
  return { data, shape };
}

// The getter on %TypedArray%.prototype tells true arrays of any realm from objects that only look like them.
const typedArrayName = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)!
  .get!;

function kindOf(data: unknown): string | undefined {
  return typedArrayName.call(data);
}

function lengthOf(argument: string, data: Float32Array | Uint8Array): number {
  const { length, buffer } = data;
  // The array's own length may be a stale one: V8 before 12 keeps it in optimized code where arrays over resizable buffers were seen, too.
  if (buffer.byteLength === 0 && (length > 0 || (buffer as { detached?: boolean }).detached)) {
    throw invalid(`${argument}.data`, 'an array whose buffer was transferred away', 'values');
  }
  return length;
}

/** A copy of `shape`, checked against the number of values. */
function checkShape(argument: string, length: number, shape: unknown): number[] {
  if (!Array.isArray(shape)) throw invalid(`${argument}.shape`, describe(shape), 'an array of extents');
  const rank = shape.length;
  if (rank > MAX_RANK) throw invalid(`${argument}.shape`, `${rank} axes`, `at most ${MAX_RANK}`);
  const extents = Array.from({ length: rank }, (_, axis) => shape[axis] as unknown);
  let size = 1;
  for (const extent of extents) {
    if (!Number.isInteger(extent) || (extent as number) < 0 || (extent as number) > MAX_SIZE) {
      throw invalid(`${argument}.shape`, formatShape(extents), 'integers from 0 to 2147483647');
    }
    size *= extent as number;
  }
  if (size !== length) {
    throw new HeedError(
      'SHAPE_MISMATCH',
      `${argument}: got ${length} values for shape ${formatShape(extents)}; expected ${size}`,
    );
  }
  return extents as number[];
}

function flatten<Data extends Float32Array | Uint8Array>(
  argument: string,
  nested: readonly unknown[],
  Store: new (length: number) => Data,
  entryOf: (entry: unknown) => number | null,
  entries: string,
): { data: Data; shape: number[] } {
  const shape: number[] = [];
  for (let level: unknown = nested; Array.isArray(level); level = level[0]) {
    shape.push(level.length);
    if (shape.length > MAX_RANK)
      throw invalid(argument, `arrays nested more than ${MAX_RANK} deep`, `nested arrays of ${entries}`);
    if (level.length === 0) break;
  }
  // Lengths first: a long first row among short ones must not decide how much memory is asked for.
  const checkRows = (level: unknown, axis: number, path: string): void => {
    if (!Array.isArray(level))
      throw invalid(`${argument}${path}`, describe(level), `an array of ${shape[axis]}, as the first`);
    if (level.length !== shape[axis]) {
      throw new HeedError(
        'SHAPE_MISMATCH',
        `${argument}${path}: got ${describe(level)}; expected ${shape[axis]} entries, as in the first row`,
      );
    }
    if (axis + 1 < shape.length) for (let i = 0; i < level.length; i++) checkRows(level[i], axis + 1, `${path}[${i}]`);
  };
  checkRows(nested, 0, '');
  const data = new Store(shape.reduce((size, extent) => size * extent, 1));
  let next = 0;
  const fill = (level: readonly unknown[], axis: number, path: string): void => {
    const isRow = axis + 1 === shape.length;
    for (let i = 0; i < level.length; i++) {
      if (!isRow) {
        fill(level[i] as readonly unknown[], axis + 1, `${path}[${i}]`);
        continue;
      }
      const entry = entryOf(level[i]);
      if (entry === null) throw invalid(`${argument}${path}[${i}]`, describe(level[i]), entries);
      data[next++] = entry;
    }
  };
  fill(nested, 0, '');
  return { data, shape };
}
