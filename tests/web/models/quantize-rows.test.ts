/** Rows of weights as int8 and in 4 bits. Expected values: NumPy's, by tests/fixtures/models/quantize_rows.py. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { int4Rows } from '../../../web/src/folders/int4-rows.js';
import {
  brainFloats,
  int8Rows,
  rotate,
  rotationBlock,
  roundedBrainFloats,
} from '../../../web/src/folders/quantize-rows.js';
import { int4RowBytes, int4Width, widen } from '../../../web/src/io/safetensors.js';
import { int4Values } from './int4.js';

const golden = JSON.parse(readFileSync(new URL('../../fixtures/models/quantized-rows.json', import.meta.url), 'utf8'));
const width = 70;
const rows = Float32Array.from(golden.rows.flat() as number[]);
const tensor = "model.safetensors: tensor 'w'";

test.each(['matrix', 'table'] as const)('int8 rows of a %s', (kind) => {
  const { data, scales } = int8Rows(rows, width, { table: kind === 'table', tensor });
  expect([...scales]).toEqual(golden[kind].scales);
  expect([...data]).toEqual(golden[kind].values.flat());
});

test('int8 rows that are rotated', () => {
  for (const { rows, block, transformed, values, scales } of golden.rotated) {
    const width = rows[0].length;
    expect(rotationBlock(width)).toBe(block);
    for (const [r, row] of rows.entries()) {
      const once = rotate(Float32Array.from(row), 1 / block);
      expect([...once]).toEqual(transformed[r]);
      rotate(once, 1).forEach((value, k) => expect(value).toBeCloseTo(row[k], 6));
    }
    const found = int8Rows(Float32Array.from(rows.flat()), width, { table: false, rotated: true, tensor });
    expect([...found.data]).toEqual(values.flat());
    expect([...found.scales]).toEqual(scales);
  }
  for (const width of [1, 4, 36, 70]) expect(rotationBlock(width)).toBe(1);
});

describe('4-bit rows', () => {
  const { rows, bytes, scales, values } = golden.int4 as Record<'rows' | 'bytes' | 'values', number[][]> & {
    scales: number[];
  };
  const wide = 2 * width;

  test('with scales that bfloat16 holds', () => {
    const found = int4Rows(Float32Array.from(rows.flat()), wide, { tensor });
    expect([...found.scales]).toEqual(scales);
    expect([...found.data]).toEqual(bytes.flat());
    expect(widen(new Uint8Array(brainFloats(found.scales).buffer), 'BF16')).toEqual(found.scales);
    expect([...int4Values(found.data, found.scales, wide)]).toEqual(values.flat().map((v) => v || expect.closeTo(0)));
  });

  test('have the least error of all paths for their factor', () => {
    const given = Float32Array.from([0.11, -0.42, 0.3, 0.07]);
    const { data, scales } = int4Rows(given, 4, { tensor });
    const errorOf = (row: Uint8Array) =>
      int4Values(row, scales, 4).reduce((sum, value, k) => sum + (value - given[k]!) ** 2, 0);
    let least = Infinity;
    for (let path = 0; path < 2 ** 16; path++)
      least = Math.min(least, errorOf(Uint8Array.of(data[0]!, path & 255, path >> 8)));
    expect(errorOf(data)).toBe(least);
  });

  test.each([
    ['zeros', () => 0],
    ['one huge number', (k: number) => (k === 70 ? 3e38 : 0)],
    ['a group far below another', (k: number) => (k < 64 ? 1e-3 : 1) * Math.sin(k)],
    ['equal numbers', () => -0.25],
    ['tiny numbers', (k: number) => 1e-36 * Math.cos(k)],
  ])('of %s', (_, at: (k: number) => number) => {
    const given = Float32Array.from({ length: 140 }, (_, k) => at(k));
    const { data, scales } = int4Rows(given, 140, { tensor });
    const found = int4Values(data, scales, 140);
    const largest = given.reduce((max, v) => Math.max(max, Math.abs(v)), 0) || 1;
    const rms = Math.sqrt(given.reduce((sum, v, k) => sum + ((found[k]! - v) / largest) ** 2, 0) / 140);
    expect(rms).toBeLessThan(0.05);
  });

  test('of other widths than multiples of 64', () => {
    for (const width of [2, 62, 64, 66, 126, 128, 130, 194]) {
      const given = Float32Array.from({ length: 3 * width }, (_, i) => Math.sin(i * i));
      const { data, scales } = int4Rows(given, width, { tensor });
      expect(data).toHaveLength(3 * int4RowBytes(width));
      expect(int4Width(int4RowBytes(width))).toBe(width);
      const found = int4Values(data, scales, width);
      const error = found.reduce((sum, v, i) => sum + (v - given[i]!) ** 2, 0);
      expect(error / given.reduce((sum, v) => sum + v * v, 0)).toBeLessThan(0.006);
    }
  });
});

test('fp32 numbers as the nearest bfloat16', () => {
  const given = [1, -1 - 2 ** -8, 1 + 2 ** -7 + 2 ** -8, 1 + 2 ** -8 + 2 ** -12, 0, 1e-40];
  const bits = roundedBrainFloats(Float32Array.from(given), tensor);
  const found = widen(new Uint8Array(bits.buffer), 'BF16');
  expect([...found.subarray(0, 5)]).toEqual([1, -1, 1 + 2 ** -6, 1 + 2 ** -7, 0]);
  expect(Math.abs(found[5]! - 1e-40)).toBeLessThan(2 ** -133);
  expect(() => roundedBrainFloats(Float32Array.of(1, Infinity), tensor)).toThrow(
    'expected finite weights, got Infinity',
  );
});

test('refuses weights that are not finite, and odd widths in 4 bits', () => {
  const bad = rows.slice();
  bad[2 * width + 3] = Number.NaN;
  const error = { code: 'INVALID_FILE', message: `${tensor}: expected finite weights, got NaN in row 12` };
  expect(() => int8Rows(bad, width, { table: false, tensor, firstRow: 10 })).toThrow(expect.objectContaining(error));
  expect(() => int4Rows(bad, width, { tensor, firstRow: 10 })).toThrow(expect.objectContaining(error));
  expect(() => int4Rows(rows, 35, { tensor })).toThrow(/expected an even width for 4 bits, got 35/);
});
