/** Formats of parts, and types of stored vectors. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { VectorOutput } from 'heed';
import { load } from 'heed';
import { finishEmbedding, type PartFormat, planEmbedding, workEmbedding } from 'heed/corpus';
import { parquetMetadata, parquetReadObjects } from 'hyparquet';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { corpus, makeFolder, rowsOf } from './support.js';

const ROWS = 60;
let folder: string;
/** The vectors by row; null for lines without a text. */
let vectors: (Float32Array | null)[];

beforeAll(async () => {
  folder = makeFolder();
  fs.writeFileSync(join(folder, 'in.jsonl'), corpus(ROWS));
  using model = await (await load()).fromPretrained(join(folder, 'model'));
  vectors = await Promise.all(
    corpus(ROWS)
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { text?: string }).text)
      .map(async (text) => (text === undefined ? null : (await model.embed(text)).data)),
  );
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

async function partsOf(parts: PartFormat, output: VectorOutput): Promise<string> {
  const out = join(folder, `${parts}-${output}`);
  await planEmbedding([join(folder, 'in.jsonl')], { out, model: join(folder, 'model'), parts, output, chunk: 50 });
  expect(await workEmbedding(out)).toMatchObject({ parts: 2, rows: ROWS, errors: 2 });
  expect(await finishEmbedding(out)).toMatchObject({ complete: true, rows: ROWS, errors: 2, parts: 2 });
  return out;
}

/** Checks a stored vector of each type. `values`: the stored values as numbers. */
const CHECKS: Record<VectorOutput, (values: number[], vector: Float32Array, scale?: number) => void> = {
  float32: (values, vector) => expect(Float32Array.from(values)).toEqual(vector),
  int8(values, vector, scale) {
    expect(Math.max(...values.map(Math.abs))).toBe(127);
    for (const [i, v] of values.entries()) expect(Math.abs(v * scale! - vector[i]!)).toBeLessThan(scale! * 0.51);
  },
  binary(values, vector) {
    const bits = values.flatMap((byte) => [...byte.toString(2).padStart(8, '0')].map(Number));
    expect(bits).toEqual([...vector].map((v) => (v > 0 ? 1 : 0)));
  },
};
const TYPES = ['float32', 'int8', 'binary'] as const;

describe.each(TYPES)('%s', (output) => {
  test('JSON lines', async () => {
    const rows = rowsOf(await partsOf('jsonl', output));
    for (const [n, { embedding, error, scale }] of rows.entries()) {
      if (vectors[n]) CHECKS[output](embedding!, vectors[n], scale);
      else expect([embedding, error]).toEqual([undefined, expect.any(String)]);
    }
  });

  test('.npy', async () => {
    const out = await partsOf('npy', output);
    const rows = rowsOf(out);
    expect(rows.map(({ id }) => id)).toEqual(Array.from({ length: ROWS }, (_, n) => `id-${n}`));
    expect(rows.every(({ embedding }) => embedding === undefined)).toBe(true);
    let row = 0;
    for (const [name, count] of [
      ['part-00000.npy', 50],
      ['part-00001.npy', 10],
    ] as const) {
      const bytes = fs.readFileSync(join(out, name));
      expect(bytes.subarray(0, 8)).toEqual(Buffer.from('\x93NUMPY\x01\x00', 'latin1'));
      const header = bytes.subarray(10, 10 + bytes.readUInt16LE(8)).toString();
      const width = output === 'binary' ? 3 : 24;
      const type = { float32: '<f4', int8: '|i1', binary: '|u1' }[output];
      expect(header).toMatch(`{'descr': '${type}', 'fortran_order': False, 'shape': (${count}, ${width}), }`);
      const Type = { float32: Float32Array, int8: Int8Array, binary: Uint8Array }[output];
      const data = new Type(new Uint8Array(bytes.subarray(10 + header.length)).buffer);
      expect(data).toHaveLength(count * width);
      for (let n = 0; n < count; n++, row++) {
        const values = [...data.subarray(n * width, (n + 1) * width)];
        const vector = vectors[row];
        if (vector) CHECKS[output](values, vector, rows[row]!.scale);
        else expect(values).toEqual(values.map(() => (output === 'float32' ? Number.NaN : 0)));
      }
    }
    // A truncated matrix.
    fs.truncateSync(join(out, 'part-00001.npy'), 200);
    expect(await finishEmbedding(out)).toMatchObject({ missing: [1], damaged: [{ part: 'part-00001.npy' }] });
    expect(await workEmbedding(out)).toMatchObject({ parts: 1, rows: 10 });
    expect(await finishEmbedding(out)).toMatchObject({ complete: true });
  });

  test('Parquet', async () => {
    const out = await partsOf('parquet', output);
    const rows: Record<string, unknown>[] = [];
    for (const name of ['part-00000.parquet', 'part-00001.parquet']) {
      const bytes = fs.readFileSync(join(out, name));
      const file = new Uint8Array(bytes).buffer;
      const { schema } = parquetMetadata(file);
      const types = schema.map(({ name, type, converted_type }) => [name, converted_type ?? type]);
      expect(types).toEqual(
        expect.arrayContaining([
          ['file', 'UTF8'],
          ['line', 'INT64'],
          ['id', 'UTF8'],
        ]),
      );
      expect(types.at(-1)).toEqual(
        { float32: ['element', 'FLOAT'], int8: ['element', 'INT_8'], binary: ['embedding', 'BYTE_ARRAY'] }[output],
      );
      rows.push(...(await parquetReadObjects({ file, utf8: false })));
    }
    expect(rows.map(({ id, line }) => [id, line])).toEqual(
      Array.from({ length: ROWS }, (_, n) => [`id-${n}`, BigInt(n + 1)]),
    );
    for (const [n, { embedding, error, scale }] of rows.entries()) {
      if (vectors[n]) CHECKS[output]([...(embedding as number[])], vectors[n], scale as number);
      else expect([embedding ?? null, error]).toEqual([null, expect.stringContaining('no text')]);
    }
    const part = join(out, 'part-00000.parquet');
    fs.truncateSync(part, fs.statSync(part).size - 9);
    expect(await finishEmbedding(out)).toMatchObject({ missing: [0], damaged: [{ part: 'part-00000.parquet' }] });
  });
});
