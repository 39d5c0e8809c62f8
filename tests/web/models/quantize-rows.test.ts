/** Rows of weights as int8 and in 4 bits. Expected values: NumPy's, by tests/fixtures/models/quantize_rows.py. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { brainFloats, int4Rows, int8Rows } from '../../../web/src/io/quantize-rows.js';
import { widen } from '../../../web/src/io/safetensors.js';

const golden = JSON.parse(readFileSync(new URL('../../fixtures/models/quantized-rows.json', import.meta.url), 'utf8'));
const width = 70;
const rows = Float32Array.from(golden.rows.flat() as number[]);
const tensor = "model.safetensors: tensor 'w'";

test.each(['matrix', 'table'] as const)('int8 rows of a %s', (kind) => {
  const { data, scales } = int8Rows(rows, width, { table: kind === 'table', tensor });
  expect([...scales]).toEqual(golden[kind].scales);
  expect([...data]).toEqual(golden[kind].values.flat());
});

test('4-bit rows, with scales that bfloat16 holds', () => {
  const { data, scales } = int4Rows(rows, width, { tensor });
  expect([...scales]).toEqual(golden.int4.scales);
  expect([...data]).toEqual(golden.int4.bytes.flat());
  expect(widen(new Uint8Array(brainFloats(scales).buffer), 'BF16')).toEqual(scales);
});

test('refuses weights that are not finite, and odd widths in 4 bits', () => {
  const bad = rows.slice();
  bad[2 * width + 3] = Number.NaN;
  const error = { code: 'INVALID_FILE', message: `${tensor}: expected finite weights, got NaN in row 12` };
  expect(() => int8Rows(bad, width, { table: false, tensor, firstRow: 10 })).toThrow(expect.objectContaining(error));
  expect(() => int4Rows(bad, width, { tensor, firstRow: 10 })).toThrow(expect.objectContaining(error));
  expect(() => int4Rows(rows, 35, { tensor })).toThrow(/expected an even width for 4 bits, got 35/);
});
