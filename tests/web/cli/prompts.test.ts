/** Commands use the prompts that a model has for queries and for documents, as the library does. */
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { load, type PretrainedModel } from 'heed';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeFolder, run } from './support.js';

const PROMPTS = { query: 'quick x ', document: 'brown y ' };
const texts = ['the fox', 'a quick x', 'the brown fox'];

let folder: string;
/** Not the model's folder, whose files a plan records. */
let work: string;
let model: PretrainedModel;
let expected: [text: string, score: number][];
const path = (name: string) => join(work, name);
const hits = (out: string) =>
  out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { text: string; score: number });

beforeAll(async () => {
  folder = makeFolder();
  work = fs.mkdtempSync(join(tmpdir(), 'heed-'));
  fs.writeFileSync(join(folder, 'config_sentence_transformers.json'), JSON.stringify({ prompts: PROMPTS }));
  fs.writeFileSync(path('texts.txt'), texts.map((text) => `${text}\n`).join(''));
  const heed = await load();
  model = await heed.fromPretrained(folder);
  const index = await heed.TextIndex.of(model, texts, { storage: 'float32' });
  expected = (await index.search('fox')).map(({ text, score }) => [text, score]);
});
afterAll(() => {
  model.dispose();
  for (const each of [folder, work]) fs.rmSync(each, { recursive: true });
});

test('heed search, in files and in an index', async () => {
  const file = path('index.safetensors');
  expect((await run(['index', path('texts.txt'), '--model', folder, '--out', file])).code).toBe(0);
  for (const where of [[path('texts.txt')], ['--index', file]]) {
    const { out, err } = await run(['search', 'fox', ...where, '--model', folder, '--json']);
    expect(err).toBe('');
    const found = hits(out);
    expect(found.map(({ text }) => text)).toEqual(expected.map(([text]) => text));
    for (const [n, { score }] of found.entries()) expect(score).toBeCloseTo(expected[n]![1], 2);
  }
  // Without the prompts, the scores differ by far more than rounding to int8 does.
  const { out } = await run(['search', 'fox', path('texts.txt'), '--model', folder, '--json', '--prompt', '']);
  expect(Math.abs(hits(out)[0]!.score - expected[0]![1])).toBeGreaterThan(0.01);
});

test('an index of heed index opens with its own model, which embeds the texts that are added', async () => {
  const described = path('described.jsonl');
  fs.writeFileSync(described, texts.map((text) => `${JSON.stringify({ text, descriptions: ['a x'] })}\n`).join(''));
  for (const input of [path('texts.txt'), described]) {
    const file = path(`${input.endsWith('l') ? 'described' : 'plain'}.safetensors`);
    expect((await run(['index', input, '--model', folder, '--out', file])).err).toBe('');
    const index = await (await load()).TextIndex.load(file, { embedder: model });
    expect(await index.add(['the x'])).toEqual([3]);
    expect(await index.search('the x')).toHaveLength(4);
  }
});

test('heed embed --role and heed corpus plan --role', async () => {
  for (const [role, vectors] of [
    ['query', await model.embedQuery(texts)],
    ['document', await model.embedDocument(texts)],
  ] as const) {
    const { out } = await run(['embed', path('texts.txt'), '--model', folder, '--role', role]);
    const rows = out
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { embedding: number[] }).embedding);
    expect(rows.flat()).toHaveLength(vectors.data.length);
    for (const [i, value] of rows.flat().entries()) expect(value).toBeCloseTo(vectors.data[i]!, 5);
    const plan = path(`plan-${role}`);
    await run(['corpus', 'plan', path('texts.txt'), '--model', folder, '--role', role, '--out', plan]);
    expect(await run(['corpus', 'work', plan, '--workers', '1'])).toMatchObject({ err: '', code: 0 });
    const part = fs.readFileSync(join(plan, 'part-00000.jsonl'), 'utf8').trim().split('\n');
    const stored = part.map((line) => (JSON.parse(line) as { embedding: number[] }).embedding);
    for (const [i, value] of stored.flat().entries()) expect(value).toBeCloseTo(vectors.data[i]!, 5);
  }
  const both = await run(['embed', path('texts.txt'), '--role', 'query', '--prompt', 'x']);
  expect([both.code, both.err]).toEqual([2, expect.stringContaining("cannot be used with option '--prompt")]);
});

test('only web/src/node/embed-texts.ts calls embed, embedQuery or embedDocument for commands and corpora', () => {
  const root = new URL('../../../web/src/', import.meta.url);
  const names = ['cli', 'scale', 'node'].flatMap((name) =>
    fs.readdirSync(new URL(name, root), { recursive: true, encoding: 'utf8' }).map((each) => `${name}/${each}`),
  );
  const found = names.filter(
    (name) =>
      name.endsWith('.ts') &&
      /\bmodel\.embed(Query|Document)?\(\s*(?!\{ inputIds)/.test(fs.readFileSync(new URL(name, root), 'utf8')),
  );
  expect(found).toEqual([]);
});
