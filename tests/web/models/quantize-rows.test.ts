/** Rows of weights as int8 and in 2 to 4 bits. Expected values: NumPy's, by tests/fixtures/models/quantize_rows.py. */
import { readFileSync } from 'node:fs';
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import type { Core } from '../../../web/src/base/wasm/core.js';
import {
  brainFloats,
  int8Rows,
  rotate,
  rotateBack,
  rotationBlock,
  roundedBrainFloats,
} from '../../../web/src/folders/quantize-rows.js';
import { trellisColumns, trellisRows } from '../../../web/src/folders/trellis.js';
import { widen } from '../../../web/src/io/safetensors.js';
import { int4Values, trellisValues } from './coded.js';

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
  for (const { rows, block, transformed, withoutSigns, values, scales } of golden.rotated) {
    const width = rows[0].length;
    expect(rotationBlock(width)).toBe(block);
    for (const [r, row] of rows.entries()) {
      const once = rotate(Float32Array.from(row));
      // NumPy applies the signs first, so that zeros may have the other sign.
      expect(Array.from(once, (value) => value + 0)).toEqual(transformed[r].map((value: number) => value + 0));
      rotateBack(once, 'signed-hadamard').forEach((value, k) => expect(value).toBeCloseTo(row[k], 6));
      const old = Float32Array.from(withoutSigns[r] as number[]);
      rotateBack(old, 'strided-hadamard').forEach((value, k) => expect(value).toBeCloseTo(row[k], 6));
    }
    const found = int8Rows(Float32Array.from(rows.flat()), width, { table: false, rotated: true, tensor });
    expect([...found.data]).toEqual(values.flat());
    expect([...found.scales]).toEqual(scales);
  }
  for (const width of [1, 4, 36, 70]) expect(rotationBlock(width)).toBe(1);
});

const heed = await load();
using layer = new heed.Linear({ inFeatures: 1, outFeatures: 1 });
const core = (layer as unknown as { runtime: { core: Core } }).runtime.core;

test('int8 rows of earlier builds, which are rotated without signs', () => {
  for (const { rows, withoutSigns } of golden.rotated) {
    const width = rows[0].length;
    const { data, scales } = int8Rows(Float32Array.from(withoutSigns.flat()), width, { table: false, tensor });
    const options = { inFeatures: width, outFeatures: rows.length, bias: false, activation: 'identity', name: '' };
    const linear = new core.Linear(options);
    linear.writeParameter(0, 0, new Uint8Array(data.buffer), 'Hadamard I8', scales);
    const expected: number[] = rows.flat();
    linear.readParameter(0).forEach((value, i) => expect(Math.abs(value - expected[i]!)).toBeLessThan(0.05));
    linear.delete();
  }
});

test('4-bit rows of heed 0.2.0', () => {
  const { bytes, scales, values } = golden.int4 as { bytes: number[][]; scales: number[]; values: number[][] };
  const found = int4Values(Uint8Array.from(bytes.flat()), scales, 2 * width);
  expect([...found]).toEqual(values.flat().map((v) => v || expect.closeTo(0)));
  const options = { inFeatures: 2 * width, outFeatures: scales.length, bias: false, activation: 'identity' };
  const raw = new core.Linear(options);
  raw.writeParameter(0, 0, Uint8Array.from(bytes.flat()), 'int4', Float32Array.from(scales));
  expect([...raw.readParameter(0)]).toEqual([...found].map((v) => v || expect.closeTo(0)));
  raw.delete();
});

describe('trellises', () => {
  const run = (bits: 2 | 3 | 4) => ({ core, bits, tensor, pause: async () => {} });
  const errorOf = (given: Float32Array, found: Float32Array) =>
    given.reduce((sum, v, i) => sum + (found[i]! - v) ** 2, 0) / given.reduce((sum, v) => sum + v * v, 0);

  test.each([2, 3, 4] as const)('have the least error of all paths: %s bits', (bits) => {
    const { targets, errors, states } = golden.trellis[bits];
    const given = Float32Array.from(targets.flat() as number[]);
    const length = targets[0].length;
    const lengths = new Int32Array(targets.length).fill(length);
    const found = core.trellisSearch(bits, lengths, given, new Float32Array(given.length).fill(golden.trellis.step));
    const levels = golden.trellis.levels as number[];
    (errors as number[]).forEach((least, n) => {
      const own = found.subarray(n * length, (n + 1) * length);
      const error = own.reduce(
        (sum, s, k) => sum + (given[n * length + k]! - golden.trellis.step * levels[s]!) ** 2,
        0,
      );
      expect(error / least).toBeCloseTo(1, 4);
      if (String([...own]) === String(states[n])) return;
      expect(Math.abs(error - least) / least).toBeLessThan(1e-5); // another path with the same error
    });
  });

  test.each([
    ['zeros', () => 0],
    ['one huge number', (i: number) => (i === 70 ? 3e38 : 0)],
    ['a row far below another', (i: number) => (i < 140 ? 1e-3 : 1) * Math.sin(i * i)],
    ['equal numbers', () => -0.25],
    ['tiny numbers', (i: number) => 1e-36 * Math.cos(i * i)],
  ])('of %s', async (_, at: (i: number) => number) => {
    const given = Float32Array.from({ length: 20 * 140 }, (_, i) => at(i));
    const largest = given.reduce((max, v) => Math.max(max, Math.abs(v)), 0) || 1;
    for (const bits of [2, 3, 4] as const) {
      const rows = await trellisRows(given, 140, run(bits));
      const columns = await trellisColumns(given, 140, null, run(bits));
      const values = trellisValues(columns.data, bits, columns.scales, columns.columnScales, true);
      for (let i = 0; i < columns.outliers.length; i += 3)
        values[columns.outliers[i]! * 140 + columns.outliers[i + 1]!] = columns.outliers[i + 2]!;
      for (const found of [trellisValues(rows.data, bits, rows.scales, rows.columnScales, false), values]) {
        const rms = Math.sqrt(given.reduce((sum, v, i) => sum + ((found[i]! - v) / largest) ** 2, 0) / given.length);
        expect(rms).toBeLessThan({ 2: 0.45, 3: 0.15, 4: 0.08 }[bits]);
      }
    }
  });

  test('of all widths, with scales that bfloat16 holds', async () => {
    for (const [bits, most] of [
      [2, 0.15],
      [3, 0.04],
      [4, 0.012],
    ] as const)
      for (const width of [16, 33, 70, 130]) {
        const given = Float32Array.from({ length: 40 * width }, (_, i) => Math.sin(i * i));
        const { data, scales, columnScales } = await trellisRows(given, width, run(bits));
        expect(data).toHaveLength(40 * bits * Math.ceil(width / 8));
        for (const each of [scales, columnScales])
          expect(widen(new Uint8Array(brainFloats(each).buffer), 'BF16')).toEqual(each);
        expect(errorOf(given, trellisValues(data, bits, scales, columnScales, false))).toBeLessThan(most);
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

test('refuses weights that are not finite', async () => {
  const bad = rows.slice();
  bad[2 * width + 3] = Number.NaN;
  const error = { code: 'INVALID_FILE', message: `${tensor}: expected finite weights, got NaN in row 12` };
  expect(() => int8Rows(bad, width, { table: false, tensor, firstRow: 10 })).toThrow(expect.objectContaining(error));
  const run = { core, bits: 3 as const, tensor, pause: async () => {} };
  await expect(trellisRows(bad, width, run)).rejects.toThrow(/expected finite weights, got NaN in row 2/);
});
