/** Plans: chunks, shards, parts, results of finishing, and leftovers of killed processes. */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { load } from 'heed';
import { embeddingStatus, finishEmbedding, type Manifest, planEmbedding, workEmbedding } from 'heed/corpus';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chunksOf, linesOf } from '../../../web/src/scale/lines.js';
import { corpus, makeFolder, partNames, rowsOf, run } from './support.js';

let folder: string;
let model: string;
const path = (name: string) => join(folder, name);
const write = (name: string, content: string | Uint8Array) => {
  fs.writeFileSync(path(name), content);
  return path(name);
};

beforeAll(() => {
  folder = makeFolder();
  model = path('model');
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

describe('chunks', () => {
  test('cover every byte and line of any file once, at the limits', () => {
    const line = fc.oneof(fc.constant(''), fc.string({ maxLength: 12 }), fc.constant('é\u2028x'), fc.constant('x\r'));
    const limits = fc.record({ rows: fc.integer({ min: 1, max: 5 }), bytes: fc.integer({ min: 1, max: 60 }) });
    fc.assert(
      fc.property(fc.array(line), fc.boolean(), limits, (given, ends, limit) => {
        const lines = given.map((text) => text.replaceAll('\n', ''));
        const bytes = Buffer.from(lines.join('\n') + (ends && lines.length > 0 ? '\n' : ''));
        const file = write('any.txt', bytes);
        const chunks = [...chunksOf(file, file, limit)];
        // The text after the last line feed is a line unless it is empty.
        const expected = bytes.toString().split('\n');
        if (expected.at(-1) === '') expected.pop();
        let next = 0;
        const found: string[] = [];
        const files = [{ file, bytes: bytes.length, format: 'lines' as const }];
        for (const [n, chunk] of chunks.entries()) {
          const own = bytes.subarray(chunk.first, chunk.first + chunk.bytes);
          expect(chunk.first).toBe(next);
          expect(chunk.rows).toBeLessThanOrEqual(limit.rows);
          expect(chunk.sha256).toBe(createHash('sha256').update(own).digest('hex'));
          if (n < chunks.length - 1) expect(own.at(-1)).toBe(10);
          next += chunk.bytes;
          const rows = [...linesOf({ root: '/', files, chunks, field: 'text', id: 'id' }, n)];
          expect(rows.map((row) => row.line)).toEqual(
            Array.from({ length: chunk.rows }, (_, i) => found.length + 1 + i),
          );
          found.push(...rows.map(({ text }) => text!));
        }
        expect(next).toBe(bytes.length);
        expect(found).toEqual(expected.map((text) => text.replace(/\r$/, '')));
      }),
    );
  });

  test('of long lines have fewer of them, also across the reader’s buffers', () => {
    const lines = Array.from({ length: 7 }, (_, n) => String(n).repeat(600_000));
    const file = write('long.txt', lines.join('\n'));
    const chunks = [...chunksOf(file, file, { rows: 100, bytes: 1_500_000 })];
    expect(chunks.map(({ rows }) => rows)).toEqual([3, 3, 1]);
    const files = [{ file, bytes: 0, format: 'lines' as const }];
    const found = chunks.flatMap((_, n) => [...linesOf({ root: '/', files, chunks, field: 'text', id: 'id' }, n)]);
    expect(found.map(({ text }) => text)).toEqual(lines);
  });
});

describe('a plan', () => {
  let out: string;
  let manifest: Manifest;
  let files: string[];
  const count = 7;

  beforeAll(async () => {
    files = [write('a.jsonl', corpus(103)), write('empty.jsonl', ''), write('b.ndjson', corpus(50, 103).trimEnd())];
    out = path('plan');
    manifest = await planEmbedding(files, { out, model, chunk: 25 });
  });

  test('says what its vectors depend on, and where each chunk is', () => {
    expect(JSON.parse(fs.readFileSync(join(out, 'manifest.json'), 'utf8'))).toEqual(manifest);
    expect(manifest).toMatchObject({ version: 1, dtype: 'fp32', width: 24, rows: 153, model: { source: model } });
    expect(manifest.chunks.map(({ rows }) => rows)).toEqual([25, 25, 25, 25, 3, 25, 25]);
    for (const { file, first, bytes, sha256 } of manifest.chunks) {
      const range = fs.readFileSync(file).subarray(first, first + bytes);
      expect(createHash('sha256').update(range).digest('hex')).toBe(sha256);
    }
  });

  test('is worked on in shards, and finished only when all of them are done', async () => {
    const first = await workEmbedding(out, { shard: { index: 0, count: 2 }, workers: 2 });
    expect(first).toEqual({ parts: 4, rows: 78, errors: 1, failed: [] });
    expect(partNames(out)).toEqual([0, 2, 4, 6].map((n) => `part-0000${n}.jsonl`));
    expect(embeddingStatus(out)).toMatchObject({
      chunks: count,
      partsDone: 4,
      rowsDone: 78,
      rows: 153,
      finished: false,
    });
    const early = await run(['finish', out]);
    expect(early.code).toBe(1);
    expect(early.err).toBe(`heed: 3 parts missing: 1, 3, 5. Run heed corpus work ${out} again\n`);
    expect(fs.existsSync(join(out, '_SUCCESS'))).toBe(false);

    const second = await run(['work', out, '--shard', '1/2']);
    expect(second).toMatchObject({ code: 0, err: '', out: `${out}: wrote 3 parts, 75 rows, 3 errors\n` });
    expect(await workEmbedding(out)).toMatchObject({ parts: 0, failed: [] });
    // Temporary files of processes that died are deleted; those of others stay.
    const part = fs.readFileSync(join(out, 'part-00001.jsonl'));
    fs.writeFileSync(join(out, 'part-00001.jsonl.tmp-0123abcd'), part.subarray(0, 300));
    fs.writeFileSync(join(out, '_SUCCESS.tmp-0123abcd'), '{"rows":153,"errors":4,"parts":7}\n');
    fs.writeFileSync(join(out, 'part-00003.jsonl.tmp-0123456789ab'), ''); // before its first bytes, as of Parquet
    const foreign = {
      'part-00001.jsonl.tmp-2024': 'mine',
      'part-00009.jsonl.tmp-1': `${part}`,
      'x.tmp-2024': 'mine',
      'part-00003.jsonl.tmp-7': '',
    };
    for (const [name, content] of Object.entries(foreign)) fs.writeFileSync(join(out, name), content);
    const end = await run(['finish', out]);
    expect(end).toMatchObject({ code: 0, err: '', out: `${out}: 153 rows in 7 parts, 4 errors\n` });
    expect(JSON.parse(fs.readFileSync(join(out, '_SUCCESS'), 'utf8'))).toEqual({ rows: 153, errors: 4, parts: count });
    expect(fs.readdirSync(out).filter((name) => name.includes('tmp'))).toEqual(Object.keys(foreign).sort());
    for (const [name, content] of Object.entries(foreign)) {
      expect(fs.readFileSync(join(out, name), 'utf8')).toBe(content);
      fs.rmSync(join(out, name));
    }
    expect(embeddingStatus(out)).toMatchObject({ rowsDone: 153, remaining: 0, finished: true });
    expect((await run(['status', out])).out).toMatch(/^rows +153 of 153\nparts +7 of 7\n/);
  });

  test('has each line as a row once, in order, with the vector of the model', async () => {
    const rows = rowsOf(out);
    expect(rows.map(({ id }) => id)).toEqual(Array.from({ length: 153 }, (_, n) => `id-${n}`));
    const inFile = (file: string, length: number) => Array.from({ length }, (_, n) => [file, n + 1]);
    expect(rows.map(({ file, line }) => [file, line])).toEqual([...inFile(files[0]!, 103), ...inFile(files[2]!, 50)]);
    const lines = `${fs.readFileSync(files[0]!, 'utf8')}${fs.readFileSync(files[2]!, 'utf8')}`.trimEnd().split('\n');
    using encoder = await (await load()).fromPretrained(model);
    for (const [n, { embedding, error }] of rows.entries()) {
      const { text } = JSON.parse(lines[n]!) as { text?: string };
      if (text === undefined) expect(error).toBe('expected { "text": "..." }, got no text under "text"');
      else expect(Float32Array.from(embedding!)).toEqual((await encoder.embed(text)).data);
    }
  });

  test('notices parts that are damaged, and makes them again', async () => {
    const part = join(out, 'part-00003.jsonl');
    const whole = fs.readFileSync(part);
    const text = whole.toString();
    const lines = text.split('\n');
    for (const [damage, error] of [
      [text.slice(0, -40), /^expected complete lines/],
      [`${lines.slice(1).join('\n')}`, /^expected 25 rows, got 24/],
      [[lines[1], lines[0], ...lines.slice(2)].join('\n'), /^row 1: expected line 76 of .*, got 77/],
      [text.replace('a.jsonl', 'c.jsonl'), /^row 1: expected a row of/],
    ] as const) {
      fs.writeFileSync(part, damage);
      const found = await finishEmbedding(out);
      expect(found).toMatchObject({ complete: false, missing: [3] });
      expect(found.damaged).toEqual([{ part: 'part-00003.jsonl', error: expect.stringMatching(error) }]);
      expect(fs.existsSync(join(out, '_SUCCESS'))).toBe(false);
      expect(await workEmbedding(out)).toMatchObject({ parts: 1, rows: 25 });
      expect(fs.readFileSync(part).equals(whole)).toBe(true);
      expect(await finishEmbedding(out)).toMatchObject({ complete: true, rows: 153 });
    }
  });

  test('of the same corpus gives the same bytes, whatever the number of threads', async () => {
    const again = path('again');
    await planEmbedding(files, { out: again, model, chunk: 25 });
    await workEmbedding(again, { workers: 3 });
    for (const name of partNames(out).filter((name) => name.endsWith('.jsonl')))
      expect(fs.readFileSync(join(again, name)).equals(fs.readFileSync(join(out, name))), name).toBe(true);
  });
});

test('bad lines become error rows, and do not fail a chunk', async () => {
  const good = (n: number) => JSON.stringify({ id: n, text: 'the fox' });
  const lines: [Uint8Array | string, unknown][] = [
    [good(1), null],
    ['', 'expected { "text": "..." }, got an empty line'],
    ['{"text":', 'expected { "text": "..." }, got a line that is not JSON'],
    ['[1,2]', 'expected { "text": "..." }, got no text under "text"'],
    ['null', 'expected { "text": "..." }, got no text under "text"'],
    ['"only a string"', null],
    ['{"text":1,"id":"x"}', 'expected { "text": "..." }, got no text under "text"'],
    [Uint8Array.of(0x22, 0xff, 0x22), 'expected UTF-8, got invalid bytes'],
    [`"${'the fox '.repeat(200_000)}"`, 'expected a line of at most 1048576 bytes, got a longer one'],
    [`${good(2)}\r`, null],
    ['{"text":""}', null],
    [good(3), null],
  ];
  const file = write('bad.jsonl', Buffer.concat(lines.flatMap(([line]) => [Buffer.from(line), Buffer.from('\n')])));
  const out = path('bad');
  await planEmbedding([file], { out, model, chunk: 5 });
  const errors = lines.filter(([, error]) => error !== null).length;
  expect(await workEmbedding(out)).toEqual({ parts: 3, rows: lines.length, errors, failed: [] });
  expect(await finishEmbedding(out)).toMatchObject({ complete: true, rows: lines.length, errors });
  const rows = rowsOf(out);
  expect(rows.map(({ line }) => line)).toEqual(lines.map((_, n) => n + 1));
  expect(rows.map(({ error }) => error ?? null)).toEqual(lines.map(([, error]) => error));
  expect(rows.map(({ id }) => id)).toEqual([
    1,
    ...Array(5).fill(undefined),
    'x',
    undefined,
    undefined,
    2,
    undefined,
    3,
  ]);
});

test('plain lines, and other keys', async () => {
  const plain = write('plain.txt', 'the fox\r\n\nquick');
  const keyed = write('keyed.jsonl', '{"body":"the fox","key":{"n":1}}\n');
  const out = path('keys');
  await planEmbedding([plain, keyed], { out, model, field: 'body', id: 'key', normalize: true, dimensions: 8 });
  await workEmbedding(out);
  const rows = rowsOf(out);
  expect(rows.map(({ line, id }) => [line, id])).toEqual([
    [1, undefined],
    [2, undefined],
    [3, undefined],
    [1, { n: 1 }],
  ]);
  expect(rows[0]!.embedding).toEqual(rows[3]!.embedding);
  expect(Math.hypot(...rows[0]!.embedding!)).toBeCloseTo(1, 5);
  expect(rows[0]!.embedding).toHaveLength(8);
});

test('empty files make a plan without chunks, which can be finished', async () => {
  const out = path('nothing');
  await planEmbedding([write('none.txt', '')], { out, model });
  expect(await workEmbedding(out)).toEqual({ parts: 0, rows: 0, errors: 0, failed: [] });
  expect(await finishEmbedding(out)).toMatchObject({ complete: true, rows: 0, parts: 0 });
});

test('two processes that work on the same chunks write each part once', async () => {
  const out = path('twice');
  await planEmbedding([write('twice.jsonl', corpus(400))], { out, model, chunk: 20 });
  const both = await Promise.all([run(['work', out]), run(['work', out])]);
  for (const { code, err } of both) expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(await finishEmbedding(out)).toMatchObject({ complete: true, rows: 400 });
  expect(rowsOf(out).map(({ id }) => id)).toEqual(Array.from({ length: 400 }, (_, n) => `id-${n}`));
  expect(fs.readdirSync(out).filter((name) => name.includes('tmp'))).toEqual([]);
});
