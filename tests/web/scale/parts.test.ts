/** Parts of any length, parts that lack a file, and ids that a part cannot store. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { HeedError } from 'heed';
import { finishEmbedding, type Manifest, type PartFormat, planEmbedding, workEmbedding } from 'heed/corpus';
import { parquetMetadata, parquetReadObjects } from 'hyparquet';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { PartWriter, ROW_GROUP_BYTES } from '../../../web/src/scale/part.js';
import { corpus, makeFolder, rowsOf } from './support.js';

let folder: string;
beforeAll(() => {
  folder = makeFolder();
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

/** A plan of 40 lines in two parts, both of which have been written. */
async function written(name: string, parts: PartFormat): Promise<string> {
  const file = join(folder, `${name}.jsonl`);
  fs.writeFileSync(file, corpus(40));
  const out = join(folder, name);
  await planEmbedding([file], { out, model: join(folder, 'model'), parts, chunk: 20 });
  expect(await workEmbedding(out)).toMatchObject({ parts: 2, rows: 40, failed: [] });
  return out;
}

test('a matrix without its rows is not whole, and is made again', async () => {
  const out = await written('rows', 'npy');
  fs.rmSync(join(out, 'part-00001.rows.jsonl'));
  expect(await finishEmbedding(out)).toMatchObject({
    complete: false,
    missing: [1],
    damaged: [{ part: 'part-00001.npy', error: 'expected part-00001.rows.jsonl next to it, got no such file' }],
  });
  expect(await workEmbedding(out)).toMatchObject({ parts: 1, rows: 20 });
  expect(await finishEmbedding(out)).toMatchObject({ complete: true, rows: 40 });
});

test.each(['jsonl', 'npy', 'parquet'] as const)('a part that cannot be read, %s', async (parts) => {
  const out = await written(`folder-${parts}`, parts);
  const name = parts === 'npy' ? 'part-00000.rows.jsonl' : `part-00000.${parts}`;
  fs.rmSync(join(out, name));
  fs.mkdirSync(join(out, name));
  const error = await finishEmbedding(out).catch((error: unknown) => error);
  expect(error).toBeInstanceOf(HeedError);
  expect((error as HeedError).message).toMatch(/part-00000\..*: cannot be read \(EISDIR/);
});

/** Exceeds the size of a single read or write in Node. */
const LARGE = 3 * 2 ** 30;

test('JSON lines that are longer than 2 GiB are read', async () => {
  const out = await written('long', 'jsonl');
  const part = join(out, 'part-00000.jsonl');
  fs.truncateSync(part, LARGE); // extends the file with a hole, which takes no space
  const found = await finishEmbedding(out);
  expect(found).toMatchObject({ missing: [0], damaged: [{ part: 'part-00000.jsonl' }] });
  expect(found.damaged[0]!.error).toMatch(/^row 21: expected a row of .*long\.jsonl, got /);
});

test('Parquet that is longer than 2 GiB is counted by its footer', async () => {
  const out = await written('long-parquet', 'parquet');
  const part = join(out, 'part-00000.parquet');
  const bytes = fs.readFileSync(part);
  const footer = 8 + bytes.readUInt32LE(bytes.length - 8);
  const file = fs.openSync(part, 'r+');
  fs.writeSync(file, bytes, bytes.length - footer, footer, LARGE);
  fs.closeSync(file);
  expect(await finishEmbedding(out)).toMatchObject({ complete: true, rows: 40, errors: 1 });
});

test('Parquet is written in row groups, so that memory does not depend on its length', async () => {
  const bytes = 2 ** 17;
  const perGroup = ROW_GROUP_BYTES / bytes;
  const rows = perGroup + 3;
  const manifest = { parts: 'parquet', output: 'binary', chunks: [{ rows }] } as unknown as Manifest;
  const writer = new PartWriter(folder, manifest, 0, 'abc');
  const vector = (row: number) => ({ values: new Uint8Array(bytes).fill(row % 256) });
  for (let row = 0; row < rows; row++)
    writer.write([row === 1 ? { file: 'x', line: 2, error: 'e' } : { file: 'x', line: row + 1, vector: vector(row) }]);
  expect(writer.publish()).toBe(true);
  const path = join(folder, 'part-00000.parquet');
  const file = new Uint8Array(fs.readFileSync(path)).buffer;
  const { row_groups, key_value_metadata } = parquetMetadata(file);
  expect(row_groups.map(({ num_rows }) => Number(num_rows))).toEqual([perGroup + 1, 2]);
  expect(JSON.parse(key_value_metadata!.find(({ key }) => key === 'heed')!.value!)).toEqual({ line: 1, errors: 1 });
  const [last] = await parquetReadObjects({ file, rowStart: rows - 1, rowEnd: rows, utf8: false });
  expect(last).toMatchObject({ file: 'x', line: BigInt(rows) });
  expect((last!.embedding as Uint8Array).every((v) => v === (rows - 1) % 256)).toBe(true);
});

test('ids that are no text for a database or a file make error rows', async () => {
  const ids = ['a', 'b\u0000c', '\ud800', '\ud83e\udd8a', ['\u0000'], 5];
  const file = join(folder, 'ids.jsonl');
  fs.writeFileSync(file, ids.map((id) => `${JSON.stringify({ id, text: 'the fox' })}\n`).join(''));
  const out = join(folder, 'ids');
  await planEmbedding([file], { out, model: join(folder, 'model') });
  expect(await workEmbedding(out)).toEqual({ parts: 1, rows: 6, errors: 2, failed: [] });
  expect(await finishEmbedding(out)).toMatchObject({ complete: true, rows: 6, errors: 2 });
  const rows = rowsOf(out);
  expect(rows.map(({ id }) => id)).toEqual(['a', undefined, undefined, '\ud83e\udd8a', ['\u0000'], 5]);
  expect(rows.map(({ error }) => error)).toEqual([
    undefined,
    '"id": expected Unicode text without U+0000, got "b\\u0000c"',
    '"id": expected Unicode text without U+0000, got "\\ud800"',
    undefined,
    undefined,
    undefined,
  ]);
});
