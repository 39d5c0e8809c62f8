/**
 * Calls that pools divide have the results of one thread: `encode`, `predict` and its tasks, `embedSparse`,
 * `embedTokens`.
 */
import { classify, classifyTokens, fillMask, load, type PretrainedModel, rerank } from 'heed';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bytesOf, fixtures } from './fixtures.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const words = ['fox', 'the', 'quick', 'brown', 'a', 'x', 'y', 'z', '[MASK]'];
const texts = Array.from({ length: 60 }, (_, i) => words.slice(i % 3, 1 + (i % 3) + ((i * 5) % 7)).join(' '));
const pairs = texts.map((_, i) => words.slice(0, 1 + (i % 5)).join(' '));

let here: PretrainedModel;
let pool: PretrainedModel;
let shares: number[];
beforeAll(async () => {
  here = await heed.fromPretrained(tinyModel());
  pool = await heed.fromPretrained(tinyModel(), { workers: 3 });
});
afterAll(() => {
  here.dispose();
  pool.dispose();
});
const onProgress = ({ done }: { done: number }) => void shares.push(done);

describe('encode', () => {
  test('with all outputs', async () => {
    shares = [];
    const options = { outputAttentions: true, outputHiddenStates: true, outputProjections: true };
    expect(await pool.encode(texts, { ...options, onProgress })).toEqual(await here.encode(texts, options));
    expect(shares.length).toBeGreaterThan(2);
    expect(shares.at(-1)).toBe(texts.length);
  });

  test('of pairs, with heads switched off, and with texts cut', async () => {
    const { numLayers, numHeads } = here.config;
    const headMask = Array.from({ length: numLayers }, (_, i) =>
      Array.from({ length: numHeads }, (_, h) => (i + h) % 2),
    );
    const options = { textPairs: pairs, headMask, maxLength: 7, outputAttentions: true };
    expect(await pool.encode(texts, options)).toEqual(await here.encode(texts, options));
  });

  test('of token ids with padding', async () => {
    const inputIds = Array.from({ length: 30 }, (_, i) => [2, 5 + (i % 9), 6, 3, 0, 0].slice(0, 4 + (i % 3)));
    const attentionMask = inputIds.map((ids) => ids.map((id) => (id === 0 ? 0 : 1)));
    const tokenTypeIds = inputIds.map((ids) => ids.map((_, i) => (i > 2 ? 1 : 0)));
    const input = { inputIds, attentionMask, tokenTypeIds };
    expect(await pool.encode(input)).toEqual(await here.encode(input));
  });

  test('of what is read and edited, whose texts are those of the call', async () => {
    const options = { read: ['layers.0.output'], edit: [{ site: 'layers.0.output', text: 40, scale: 0 }] };
    const expected = await here.encode(texts, options as never).catch((error: Error) => error.message);
    expect(await pool.encode(texts, options as never).catch((error: Error) => error.message)).toEqual(expected);
  });

  test('names the text that is wrong, and goes on working', async () => {
    const long = texts.map((text, i) => (i === 41 ? 'x '.repeat(40) : text));
    await expect(pool.encode(long, { truncation: false, maxLength: 30 })).rejects.toThrow(
      /^texts\[41\]: expected at most/,
    );
    await expect(pool.encode([...texts, 5 as never])).rejects.toThrow('texts[60]');
    const stop = new AbortController();
    const pending = pool.encode(texts, { signal: stop.signal });
    stop.abort(new Error('enough'));
    await expect(pending).rejects.toThrow('enough');
    expect((await pool.encode('fox')).tokens).toEqual((await here.encode('fox')).tokens);
  });
});

test.each(['sequence-classification', 'token-classification', 'question-answering', 'fill-mask'] as const)(
  'predict: %s',
  async (head) => {
    const expected = await here.predict(head, texts, { textPairs: pairs }).catch((error: Error) => error.message);
    expect(await pool.predict(head, texts, { textPairs: pairs }).catch((error: Error) => error.message)).toEqual(
      expected,
    );
  },
);

test('fill-mask without any mask', async () => {
  const plain = texts.map((text) => text.replace('[MASK]', 'x'));
  expect(await pool.predict('fill-mask', plain)).toEqual(await here.predict('fill-mask', plain));
});

test('the tasks', async () => {
  const tasks = [
    (model: PretrainedModel) => classify(model, texts),
    (model: PretrainedModel) => classifyTokens(model, texts),
    (model: PretrainedModel) =>
      fillMask(
        model,
        texts.filter((text) => text.includes('[MASK]')),
      ),
  ];
  for (const task of tasks) expect(await task(pool)).toEqual(await task(here));
});

test('rerank is divided', async () => {
  const files = { ...tinyModel(), ...bytesOf(`${fixtures}bert-one-label`) };
  files['tokenizer.json'] = tinyModel()['tokenizer.json'] as never;
  using here = await heed.fromPretrained(files);
  using pool = await heed.fromPretrained(files, { workers: 2 });
  expect(await rerank(pool, 'the fox', texts)).toEqual(await rerank(here, 'the fox', texts));
});

test('embedSparse and embedTokens', async () => {
  expect(await pool.embedSparse(texts)).toEqual(await here.embedSparse(texts));
  expect(await pool.embedTokens(texts)).toEqual(await here.embedTokens(texts));
  for (const promptName of ['query', 'document'] as const)
    expect(await pool.embedTokens(texts, { promptName })).toEqual(await here.embedTokens(texts, { promptName }));
});
