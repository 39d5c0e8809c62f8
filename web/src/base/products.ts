/** Matrix products of tensors with batch axes, as torch.matmul. */
import { broadcastPositions, broadcastShape, gathered, transposedPositions } from './axes.js';
import { formatShape, misshapen } from './error.js';
import { elementCount } from './tensor.js';
import type { RawFunctions, RawTensor } from './wasm/core.js';

/** Exchanges the last two axes. */
export function flipped({ data, shape }: RawTensor): RawTensor {
  const turned = transposedPositions(shape, shape.length - 2, shape.length - 1);
  return { data: gathered(data, turned.positions), shape: turned.shape };
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
  const refusal = (name: string, expected: string, { shape }: RawTensor) =>
    misshapen(`matmul: ${name}`, expected, shape);
  for (const [name, x] of Object.entries({ a, b }))
    if (x.shape.length === 0) throw refusal(name, 'at least one axis', x);
  const [isRow, isColumn] = [a.shape.length === 1, b.shape.length === 1];
  const left = isRow ? [1, ...a.shape] : a.shape;
  const right = isColumn ? [...b.shape, 1] : b.shape;
  const inner = left.at(-1)!;
  if (right.at(-2) !== inner) throw refusal('b', isColumn ? `[${inner}]` : `[..., ${inner}, M], as wide as a`, b);
  const [outer, own] = [left.slice(0, -2), right.slice(0, -2)];
  const batch = broadcastShape(outer, own);
  if (!batch) throw refusal('b', `leading axes that broadcast with ${formatShape(outer)}`, b);
  const shape = [...batch, ...(isRow ? [] : [left.at(-2)!]), ...(isColumn ? [] : [right.at(-1)!])];
  return {
    a: { data: a.data, shape: left, batch: outer },
    b: { data: b.data, shape: right, batch: own },
    batch,
    shape,
  };
}

/** The matrix product a b over the last two axes; the others broadcast. */
export function matmul(calls: Pick<RawFunctions, 'compute'>, left: RawTensor, right: RawTensor): RawTensor {
  const { a, b, batch, shape } = operands(left, right);
  const [rows, inner, columns] = [a.shape.at(-2)!, a.shape.at(-1)!, b.shape.at(-1)!];
  const result = { data: new Float32Array(elementCount(shape)), shape };
  if (inner === 0 || result.data.length === 0) return result;
  const { data: weights } = flipped(b);
  const product = (x: RawTensor, number: number) => {
    const first = number * inner * columns;
    const weight = { data: weights.subarray(first, first + inner * columns), shape: [columns, inner] };
    return calls.compute('linear', { x, weight, bias: null, activation: 'identity' }).data;
  };
  // With a single matrix on the right, multiply all rows on the left at once.
  if (b.batch.every((extent) => extent === 1) && a.batch.length >= b.batch.length)
    return { data: product(a, 0), shape };
  const numbers = broadcastPositions(b.batch, batch);
  broadcastPositions(a.batch, batch).forEach((number, i) => {
    const x = { data: a.data.subarray(number * rows * inner, (number + 1) * rows * inner), shape: [rows, inner] };
    result.data.set(product(x, numbers[i]!), i * rows * columns);
  });
  return result;
}
