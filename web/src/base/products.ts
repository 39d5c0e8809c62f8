/** Transposition and matrix products of tensors with batch axes, as torch.transpose and torch.matmul. */
import { formatShape, HeedError } from './error.js';
import { integer } from './options.js';
import { elementCount } from './tensor.js';
import type { RawFunctions, RawTensor } from './wasm/core.js';

/** Reads an axis of a tensor. Negative numbers count from the end. */
export function readAxis(value: unknown, name: string, { shape: { length } }: RawTensor): number {
  if (length === 0)
    throw new HeedError('SHAPE_MISMATCH', `${name}: expected at least one axis, got a tensor without axes`);
  const axis = integer(value, name, -length, length - 1);
  return axis < 0 ? axis + length : axis;
}

/** Exchanges the axes `a` and `b`. */
export function transposed({ data, shape }: RawTensor, a: number, b: number): RawTensor {
  const order = shape.map((_, axis) => (axis === a ? b : axis === b ? a : axis));
  const steps = shape.map((_, axis) => elementCount(shape.slice(axis + 1)));
  const result = order.map((axis) => shape[axis]!);
  const values = new Float32Array(data.length);
  let at = 0;
  const copy = (axis: number, from: number): void => {
    if (axis === result.length) values[at++] = data[from]!;
    else for (let i = 0; i < result[axis]!; i++) copy(axis + 1, from + i * steps[order[axis]!]!);
  };
  if (data.length > 0) copy(0, 0);
  return { data: values, shape: result };
}

/** A tensor as a batch of matrices. `batch`: its axes before the rows and columns. */
interface Matrices extends RawTensor {
  batch: number[];
}

/**
 * Reads the operands of a product. A vector is a row on the left and a column on the right. @throws HeedError
 * `SHAPE_MISMATCH`
 */
export function operands(a: RawTensor, b: RawTensor): { a: Matrices; b: Matrices; batch: number[]; shape: number[] } {
  const refuse = (name: string, expected: string, { shape }: RawTensor) => {
    throw new HeedError('SHAPE_MISMATCH', `matmul: ${name}: expected ${expected}, got ${formatShape(shape)}`);
  };
  for (const [name, x] of Object.entries({ a, b })) if (x.shape.length === 0) refuse(name, 'at least one axis', x);
  const [isRow, isColumn] = [a.shape.length === 1, b.shape.length === 1];
  const left = isRow ? [1, ...a.shape] : a.shape;
  const right = isColumn ? [...b.shape, 1] : b.shape;
  const inner = left.at(-1)!;
  if (right.at(-2) !== inner) refuse('b', isColumn ? `[${inner}]` : `[..., ${inner}, M], as wide as a`, b);
  const [outer, own] = [left.slice(0, -2), right.slice(0, -2)];
  const rank = Math.max(outer.length, own.length);
  const at = (batch: number[], axis: number) => batch[axis - rank + batch.length] ?? 1;
  const batch = Array.from({ length: rank }, (_, axis) => {
    const [m, n] = [at(outer, axis), at(own, axis)];
    if (m !== n && m !== 1 && n !== 1) refuse('b', `leading axes that broadcast with ${formatShape(outer)}`, b);
    return m === 1 ? n : m;
  });
  const shape = [...batch, ...(isRow ? [] : [left.at(-2)!]), ...(isColumn ? [] : [right.at(-1)!])];
  return {
    a: { data: a.data, shape: left, batch: outer },
    b: { data: b.data, shape: right, batch: own },
    batch,
    shape,
  };
}

/** For each matrix of the broadcast batch, the index of the matrix in an operand with the batch axes `own`. */
export function matrixNumbers(batch: readonly number[], own: readonly number[]): number[] {
  return batch.reduce<number[]>(
    (numbers, extent, axis) => {
      const owned = own[axis - batch.length + own.length] ?? 1;
      return numbers.flatMap((n) => Array.from({ length: extent }, (_, i) => n * owned + (owned === 1 ? 0 : i)));
    },
    [0],
  );
}

/** The matrix product a b over the last two axes; the others broadcast. */
export function matmul(calls: Pick<RawFunctions, 'compute'>, left: RawTensor, right: RawTensor): RawTensor {
  const { a, b, batch, shape } = operands(left, right);
  const [rows, inner, columns] = [a.shape.at(-2)!, a.shape.at(-1)!, b.shape.at(-1)!];
  const result = { data: new Float32Array(elementCount(shape)), shape };
  if (inner === 0 || result.data.length === 0) return result;
  const { data: weights } = transposed(b, b.shape.length - 2, b.shape.length - 1);
  const product = (x: RawTensor, number: number) => {
    const first = number * inner * columns;
    const weight = { data: weights.subarray(first, first + inner * columns), shape: [columns, inner] };
    return calls.compute('linear', { x, weight, bias: null, activation: 'identity' }).data;
  };
  // With a single matrix on the right, multiply all rows on the left at once.
  if (b.batch.every((extent) => extent === 1) && a.batch.length >= b.batch.length)
    return { data: product(a, 0), shape };
  const numbers = matrixNumbers(batch, b.batch);
  matrixNumbers(batch, a.batch).forEach((number, i) => {
    const x = { data: a.data.subarray(number * rows * inner, (number + 1) * rows * inner), shape: [rows, inner] };
    result.data.set(product(x, numbers[i]!), i * rows * columns);
  });
  return result;
}
