/** `heed evaluate --task`, and training on scored pairs. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { load } from 'heed';
import { evaluateEmbeddingSimilarity, evaluateInformationRetrieval } from 'heed/evaluation';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { run } from './support.js';

const questions = [
  { a: 'a kitten', b: 'a small cat' },
  { a: 'a kitten', b: 'a young cat' },
  { a: 'the ocean', b: 'the deep sea' },
];
const scored = [
  { a: 'a small cat', b: 'a little cat', score: 5 },
  { a: 'a small cat', b: 'a large cat', score: 3 },
  { a: 'a small cat', b: 'the deep sea', score: 0.5 },
];

let folder: string;
const path = (name: string) => join(folder, name);
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'heed-evaluate-'));
  writeFileSync(path('questions.csv'), `a,b\n${questions.map(({ a, b }) => `${a},${b}\n`).join('')}`);
  writeFileSync(path('others.txt'), 'a fast car\nthe deep sea\n');
  writeFileSync(path('scored.csv'), `a,b,score\n${scored.map(({ a, b, score }) => `${a},${b},${score}\n`).join('')}`);
  writeFileSync(path('scored.jsonl'), scored.map((row) => `${JSON.stringify(row)}\n`).join(''));
});
afterAll(() => rmSync(folder, { recursive: true }));

const evaluate = (...args: string[]) => run(['evaluate', ...args]);

test('measures a search as the function does', async () => {
  const { out, err, code } = await evaluate(
    path('questions.csv'),
    '--task',
    'retrieval',
    '--corpus',
    path('others.txt'),
    '--json',
  );
  expect({ err, code }).toEqual({ err: '', code: 0 });
  const byText = (texts: string[]) => Object.fromEntries(texts.map((text) => [text, text]));
  const data = {
    queries: byText(['a kitten', 'the ocean']),
    corpus: byText(['a small cat', 'a young cat', 'the deep sea', 'a fast car']),
    relevantDocs: { 'a kitten': ['a small cat', 'a young cat'], 'the ocean': ['the deep sea'] },
  };
  using heed = await load();
  using model = await heed.fromPretrained();
  expect(JSON.parse(out)).toEqual(
    JSON.parse(JSON.stringify(await evaluateInformationRetrieval(model, data, { heed }))),
  );
  const shown = await evaluate(path('questions.csv'), '--task', 'retrieval');
  expect(shown.out).toMatch(/^accuracy@1 +1\.0000\n[\s\S]*MAP@100 +\d\.\d{4}\n\n2 queries\n$/);
});

test.each(['scored.csv', 'scored.jsonl'])('measures similarities of %s as the function does', async (name) => {
  // In q8, numbers depend on the build, and the command may run another one than this process.
  const { out, err, code } = await evaluate(path(name), '--task', 'similarity', '--json', '--dtype', 'fp32');
  expect({ err, code }).toEqual({ err: '', code: 0 });
  using heed = await load();
  using model = await heed.fromPretrained(undefined, { dtype: 'fp32' });
  const { count, spearman, pearson } = await evaluateEmbeddingSimilarity(model, scored);
  expect(JSON.parse(out)).toEqual({ count, spearman, pearson: expect.closeTo(pearson, 6) });
  expect((await evaluate(path(name), '--task', 'similarity')).out).toMatch(
    /^Spearman -?\d\.\d{4}, Pearson .*, 3 pairs\n$/,
  );
});

test('measures the model in the package in q8, as other commands run it', async () => {
  const [given, q8] = [[], ['--dtype', 'q8']].map((args) =>
    evaluate(path('scored.csv'), '--task', 'similarity', '--json', ...args),
  );
  expect(await given).toEqual(await q8);
});

test('refuses what it cannot measure', async () => {
  writeFileSync(path('wrong.csv'), 'a,b,score\nx,y,high\n');
  const cases: [string[], string][] = [
    [[path('scored.csv'), '--task', 'ranking'], '--task: expected one of classification, retrieval, similarity'],
    [[path('wrong.csv'), '--task', 'similarity'], 'a number under score'],
    [[path('others.txt'), '--task', 'retrieval'], 'others.txt:1'],
    [[path('questions.csv'), '--task', 'similarity'], 'a number under score'],
    [[path('questions.csv'), '--task', 'retrieval', '--corpus', path('none.txt')], 'none.txt'],
  ];
  for (const [args, expected] of cases) {
    const { err, code } = await evaluate(...args);
    expect(err).toContain(expected);
    expect(err.trim().split('\n')).toHaveLength(1);
    expect(code).not.toBe(0);
  }
});

test('heed train embedding learns from scored pairs', async () => {
  const call = [
    'train',
    'embedding',
    path('scored.csv'),
    '--out',
    path('learned'),
    '--epochs',
    '2',
    '--seed',
    '1',
    '--json',
  ];
  const { out, err, code } = await run(call);
  expect({ err, code }).toEqual({ err: '', code: 0 });
  expect(JSON.parse(out).history.loss).toHaveLength(2);
});
