/** Helpers for tests of properties: draw, compare and rearrange numbers. */
import { Tensor } from 'heed';

/** Pseudorandom values in [-1, 1) that depend only on the seed (mulberry32). */
export function draw(seed: number, ...shape: number[]): Tensor {
  let state = seed;
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return new Tensor(
    Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => 2 * next() - 1),
    shape,
  );
}

/** factor x + offset */
export function scaled({ data, shape }: Tensor, factor: number, offset = 0): Tensor {
  return new Tensor(
    data.map((value) => value * factor + offset),
    shape,
  );
}

/** The largest |a - b| / (1e-5 + 1e-4 |b|), which is at most 1 if a and b agree. */
export function error(a: Tensor, b: Tensor): number {
  if (String(a.shape) !== String(b.shape)) throw new Error(`shapes [${a.shape}] and [${b.shape}]`);
  return a.data.reduce(
    (worst, value, i) => Math.max(worst, Math.abs(value - b.data[i]!) / (1e-5 + 1e-4 * Math.abs(b.data[i]!))),
    0,
  );
}

/** Rows `order[0]`, `order[1]`, ... of the second last axis. */
export function rows({ data, shape }: Tensor, order: readonly number[]): Tensor {
  const width = shape.at(-1)!;
  const length = shape.at(-2)!;
  const result: number[] = [];
  for (let start = 0; start < data.length; start += length * width) {
    for (const row of order) result.push(...data.subarray(start + row * width, start + (row + 1) * width));
  }
  return new Tensor(Float32Array.from(result), [...shape.slice(0, -2), order.length, width]);
}

/** Sums over the last axis. */
export function rowSums({ data, shape }: Tensor): number[] {
  const width = shape.at(-1)!;
  return Array.from({ length: data.length / width }, (_, r) =>
    data.subarray(r * width, (r + 1) * width).reduce((a, b) => a + b, 0),
  );
}
