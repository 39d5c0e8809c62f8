/** `loadTokenizer`: the tokens of a model's folder without its weights. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load, loadTokenizer } from 'heed';
import { describe, expect, test } from 'vitest';
import { fixtures } from './fixtures.js';
import { openServer, serving } from './server.js';
import { tinyModel } from './tiny.js';

const files = tinyModel();
const { 'model.safetensors': _, ...light } = files;
const text = 'The quick, brown fox.';
const golden = JSON.parse(readFileSync(join(fixtures, 'tokenizers/golden.json'), 'utf8')) as {
  strings: string[];
  kinds: Record<string, { ids: number[][]; offsets: number[][] }>;
};

test.each(Object.keys(golden.kinds))("gives Hugging Face's ids and offsets: %s", async (kind) => {
  const file = readFileSync(join(fixtures, `tokenizers/${kind}.json`));
  const tokenizer = await loadTokenizer({ 'tokenizer.json': file });
  expect(tokenizer.modelMaxLength).toBe(Infinity);
  const { inputIds, offsets } = tokenizer.tokenize(golden.strings);
  expect(inputIds).toEqual(golden.kinds[kind]!.ids);
  expect(offsets.map((each) => each.flat())).toEqual(golden.kinds[kind]!.offsets);
});

describe('a folder without weights', async () => {
  const heed = await load();
  const model = await heed.fromPretrained(files);
  const tokenizer = await loadTokenizer(light);
  const texts = [text, 'a', '', 'x y z', '\uD800 fox'];

  test('has the tokens of the model', async () => {
    expect(tokenizer.tokenize(texts)).toEqual(await model.tokenize(texts));
    const pairs = { textPairs: ['x', 'y', 'z', 'a', 'the'], maxLength: 6 };
    expect(tokenizer.tokenize(texts, pairs)).toEqual(await model.tokenize(texts, pairs));
    expect(tokenizer.modelMaxLength).toBe(model.config.maxLength);
    const long = 'fox '.repeat(200);
    expect(tokenizer.tokenize(long, { truncation: true })).toEqual(await model.tokenize(long));
    expect(tokenizer.count(long)).toBe(202);
  });

  test('encodes, counts and decodes', () => {
    const ids = tokenizer.encode(text);
    expect(ids).toEqual([2, 9, 10, 22, 11, 12, 23, 3]);
    expect(tokenizer.encode(text, { addSpecialTokens: false })).toEqual(ids.slice(1, -1));
    expect(tokenizer.count(text)).toBe(8);
    expect(tokenizer.count(text, { addSpecialTokens: false })).toBe(6);
    expect(tokenizer.count('')).toBe(2);
    expect(tokenizer.decode(ids, { skipSpecialTokens: false, cleanUpTokenizationSpaces: true })).toBe(
      '[CLS] the quick, brown fox. [SEP]',
    );
    expect(tokenizer.decode([])).toBe('');
    expect(tokenizer.convertIdsToTokens([2, 9, 13])).toEqual(['[CLS]', 'the', '##es']);
    expect(tokenizer.convertTokensToIds(['fox', 'wolf', '[SEP]'])).toEqual([12, null, 3]);
    expect(tokenizer.vocabSize).toBe(24);
    const { offsets } = tokenizer.tokenize(text, { addSpecialTokens: false });
    expect(offsets[0]!.map(([start, end]) => text.slice(start, end))).toEqual([
      'The',
      'quick',
      ',',
      'brown',
      'fox',
      '.',
    ]);
  });

  test('refuses what is wrong with one error', () => {
    expect(() => tokenizer.tokenize(5 as never)).toThrow(/^texts: /);
    expect(() => tokenizer.encode(['a'] as never)).toThrow(/^text: expected a string/);
    expect(() => tokenizer.tokenize('a', { maxLength: 1 })).toThrow(/maxLength: expected at least 2/);
    expect(() => tokenizer.tokenize('a fox', { maxLength: 3, truncation: false })).toThrow(
      expect.objectContaining({ code: 'TOO_LONG' }),
    );
    expect(() => tokenizer.tokenize('a', { maxlength: 3 } as never)).toThrow(/maxLength/);
    expect(() => tokenizer.tokenize(['a', 'b'], { textPairs: 'x' })).toThrow(/textPairs/);
    expect(() => tokenizer.decode([-1])).toThrow(/^ids\[0\]/);
    expect(() => tokenizer.decode([1.5])).toThrow(/^ids\[0\]/);
    expect(() => tokenizer.convertIdsToTokens([24])).toThrow(/^ids\[0\]: expected an id below 24/);
    expect(tokenizer.count('fox')).toBe(3);
  });
});

test.each([
  [undefined, 'the fox .'],
  [false, 'the fox .'],
  [true, 'the fox.'],
])('cleans up spaces as the folder says (%s), or else not, as transformers does', async (clean, expected) => {
  const json = JSON.parse(light['tokenizer.json'] as string);
  const tokenizer = await loadTokenizer({
    'tokenizer.json': JSON.stringify({ ...json, decoder: null }),
    'tokenizer_config.json': JSON.stringify(clean === undefined ? {} : { clean_up_tokenization_spaces: clean }),
  });
  const ids = tokenizer.encode('the fox.');
  expect(tokenizer.decode(ids)).toBe(expected);
  expect(tokenizer.decode(ids, { cleanUpTokenizationSpaces: true })).toBe('the fox.');
  expect(tokenizer.decode(ids, { cleanUpTokenizationSpaces: false })).toBe('the fox .');
});

test('only small files are requested', async () => {
  const server = await openServer();
  server.answer = serving(files);
  const tokenizer = await loadTokenizer(`${server.base}model/`);
  expect(tokenizer.count('a fox')).toBe(4);
  expect(server.asked).not.toContain('model.safetensors');
  server.close();
});

test('folders that cannot be read are one error', async () => {
  await expect(loadTokenizer({ 'config.json': '{}' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
  await expect(loadTokenizer({ 'tokenizer.json': '{' })).rejects.toMatchObject({ code: 'INVALID_FILE' });
  await expect(loadTokenizer({ 'tokenizer.json': '{}' })).rejects.toMatchObject({ code: 'INVALID_FILE' });
  await expect(loadTokenizer(light, { dtype: 'q8' } as never)).rejects.toThrow(/'dtype'/);
  await expect(loadTokenizer(light, { signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough');
  const other = { ...light, 'config.json': '{"model_type":"unheard-of"}' };
  expect((await loadTokenizer(other)).count('a fox')).toBe(4);
});

test('folders of sentence-transformers: lower case, limits, and files in a folder of their own', async () => {
  const tokenizer = await loadTokenizer({
    'modules.json': JSON.stringify([{ idx: 0, name: '0', path: '0_Transformer', type: 'x.Transformer' }]),
    '0_Transformer/sentence_bert_config.json': JSON.stringify({ max_seq_length: 7, do_lower_case: true }),
    '0_Transformer/tokenizer.json': light['tokenizer.json']!,
  });
  expect(tokenizer.modelMaxLength).toBe(7);
  expect(tokenizer.tokenize('FOX FOX FOX FOX FOX FOX', { truncation: true }).truncated).toEqual([1]);
});
