/** Conversion of weights to fp16, compared with all fp16 numbers, widened by io/safetensors.ts. */
import { expect, test } from 'vitest';
import { halfOf, halves } from '../../../web/src/gpu/halves.js';
import { widen } from '../../../web/src/io/safetensors.js';

/** All non-negative fp16 numbers in order, infinity last. */
const numbers = widen(new Uint8Array(Uint16Array.from({ length: 0x7c01 }, (_, half) => half).buffer), 'F16');

test('each number of fp16 is kept, and numbers between two round to the nearest, ties to even', () => {
  const wrong: number[] = [];
  const check = (value: number, half: number) => {
    if (halfOf(value) !== half || halfOf(-value) !== half + 0x8000) wrong.push(value);
  };
  numbers.forEach((value, half) => {
    check(value, half);
    if (half + 1 >= numbers.length) return;
    // The number after the largest would be 65,536.
    const next = half === 0x7bff ? 65_536 : numbers[half + 1]!;
    const middle = (value + next) / 2; // exact in fp32
    check(middle, half % 2 === 0 ? half : half + 1);
    if (half === 0) return; // below 2^-25, numbers round like the middle
    check(middle * (1 - 2 ** -23), half);
    check(middle * (1 + 2 ** -23), half + 1);
  });
  expect(wrong).toEqual([]);
});

test('of what fp16 has no numbers for', () => {
  expect([2 ** -26, 2 ** -149, 0, -0].map(halfOf)).toEqual([0, 0, 0, 0x8000]);
  expect([65_519, 65_520, 1e30, Number.POSITIVE_INFINITY].map(halfOf)).toEqual([0x7bff, 0x7c00, 0x7c00, 0x7c00]);
  expect(halfOf(Number.NaN) & 0x7fff).toBeGreaterThan(0x7c00);
});

/** Unpacks rows as the kernels do. */
function unpacked(data: Float32Array, rows: number): number[] {
  const { words, scales } = halves(data, rows);
  const values = widen(new Uint8Array(words.buffer), 'F16');
  return Array.from(data, (_, at) => values[at]! * scales[Math.floor(at / (data.length / rows))]!);
}

test('rows of any magnitude keep 11 bits of each weight', () => {
  const magnitudes = [1e-30, 1e-9, 1, 3, 70_000, 1e30];
  const data = Float32Array.from(magnitudes.flatMap((size) => [size, -size / 3, size / 7777, size * 1.99, 0]));
  unpacked(data, magnitudes.length).forEach((value, at) => {
    expect(Math.abs(value - data[at]!)).toBeLessThanOrEqual(2 ** -11 * Math.abs(data[at]!));
  });
  const { scales } = halves(data, magnitudes.length);
  for (const scale of scales) expect(Number.isInteger(Math.log2(scale))).toBe(true);
});

test('the weights of files in fp16 and bfloat16 keep their values, beside greater ones of their row', () => {
  const small = numbers.filter((value) => value < 2);
  expect(unpacked(small, 1)).toEqual(Array.from(small));
  const brains = Float32Array.from({ length: 25 * 128 }, (_, i) => (1 + (i % 128) / 128) * 2 ** ((i >> 7) - 30));
  expect(unpacked(brains, 1)).toEqual(Array.from(brains));
});

test('an odd number of weights fills the last word with zeros, and a row of zeros stays one', () => {
  expect(unpacked(Float32Array.of(1, 2, 3), 1)).toEqual([1, 2, 3]);
  expect(halves(new Float32Array(3), 3).words).toEqual(new Uint32Array(2));
});

test('infinities and NaN stay what they are', () => {
  const values = unpacked(Float32Array.of(Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN, 1), 2);
  expect(values).toEqual([Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN, 1]);
});
