/** Shapes, axes and the positions of entries: how operations map the entries of one tensor to those of another. */
import { formatShape, HeedError, invalid } from './error.js';
import { integer, listOf, type Reader } from './options.js';
import { elementCount } from './tensor.js';
import type { RawTensor } from './wasm/core.js';

/** The most entries that a module's memory has room for. */
export const MAX_ENTRIES = 2 ** 29 - 1;

/** Reads an axis of a tensor. Negative numbers count from the end. */
export function readAxis(value: unknown, name: string, { shape: { length } }: RawTensor): number {
  if (length === 0) throw invalid(name, 'at least one axis', 'a tensor without axes', 'SHAPE_MISMATCH');
  const axis = integer(value, name, -length, length - 1);
  return axis < 0 ? axis + length : axis;
}

/** Any 32-bit integer, such as a position that may count from the end. */
export const anyInteger: Reader<number> = (value, name) => integer(value, name, -(2 ** 31));

/** An axis, or a list of axes, that `readAxis` checks later. */
export const axisOrAxes: Reader<number | number[]> = (value, name) =>
  Array.isArray(value)
    ? listOf(anyInteger, '')(value, name)
    : integer(value, name, -(2 ** 31), undefined, 'an array or ');

/** Reads distinct axes of a tensor. */
export function readAxes(given: number | readonly number[], name: string, x: RawTensor): number[] {
  if (typeof given === 'number') return [readAxis(given, name, x)];
  const axes = given.map((axis, i) => readAxis(axis, `${name}[${i}]`, x));
  const again = axes.findIndex((axis, i) => axes.indexOf(axis) !== i);
  if (again < 0) return axes;
  throw invalid(name, 'distinct axes', `axis ${given[again]} twice`);
}

/** For each axis, the distance in elements between entries that are neighbours along it. */
export function stridesOf(shape: readonly number[]): number[] {
  return shape.map((_, axis) => elementCount(shape.slice(axis + 1)));
}

/**
 * Positions in steps: for each entry (i, j, ...) of a tensor with these extents, in row-major order, `first` + i
 * `steps[0]` + j `steps[1]` + ...
 */
export function stridedPositions(extents: readonly number[], steps: readonly number[], first = 0): Int32Array {
  const size = elementCount(extents);
  if (size === 0) return new Int32Array(0);
  if (size > MAX_ENTRIES) {
    const got = `a tensor of shape ${formatShape(extents)}`;
    throw new HeedError('OUT_OF_MEMORY', `expected at most ${MAX_ENTRIES} entries, got ${got}`);
  }
  let positions = Int32Array.of(first);
  for (let axis = extents.length - 1; axis >= 0; axis--) {
    const inner = positions;
    positions = new Int32Array(extents[axis]! * inner.length);
    for (let i = 0, at = 0; i < extents[axis]!; i++)
      for (let j = 0; j < inner.length; j++) positions[at++] = inner[j]! + i * steps[axis]!;
  }
  return positions;
}

/** The entries of `data` at `positions`. */
export function gathered(data: Float32Array, positions: Int32Array): Float32Array {
  const entries = new Float32Array(positions.length);
  for (let i = 0; i < entries.length; i++) entries[i] = data[positions[i]!]!;
  return entries;
}

/** The shape to which both shapes broadcast, as in NumPy; null if they do not. */
export function broadcastShape(a: readonly number[], b: readonly number[]): number[] | null {
  const rank = Math.max(a.length, b.length);
  const at = (shape: readonly number[], axis: number) => shape[axis - rank + shape.length] ?? 1;
  const shape = Array.from({ length: rank }, (_, axis) => {
    const [m, n] = [at(a, axis), at(b, axis)];
    return m === n || n === 1 ? m : m === 1 ? n : -1;
  });
  return shape.includes(-1) ? null : shape;
}

/** For each entry of `target` in order, the position of the entry of `shape`, which broadcasts to it. */
export function broadcastPositions(shape: readonly number[], target: readonly number[]): Int32Array {
  const strides = stridesOf(shape);
  const steps = target.map((_, axis) => {
    const own = axis - target.length + shape.length;
    return (shape[own] ?? 1) === 1 ? 0 : strides[own]!;
  });
  return stridedPositions(target, steps);
}

/** For each entry of a tensor of this shape with two axes exchanged, the position in the tensor. */
export function transposedPositions(
  shape: readonly number[],
  a: number,
  b: number,
): { shape: number[]; positions: Int32Array } {
  const exchanged = (list: readonly number[]) => list.map((_, axis) => list[axis === a ? b : axis === b ? a : axis]!);
  const extents = exchanged(shape);
  return { shape: extents, positions: stridedPositions(extents, exchanged(stridesOf(shape))) };
}
