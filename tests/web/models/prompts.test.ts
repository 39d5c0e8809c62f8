/** `embedQuery` and `embedDocument`: the prompts of the folder, in the calling thread, in a worker and in a pool. */
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { tinyModel } from './tiny.js';

const heed = await load();
const folder = (prompts: Record<string, string>, more: object = {}) => ({
  ...tinyModel(),
  'config_sentence_transformers.json': JSON.stringify({ prompts, ...more }),
});
const texts = ['fox', 'the quick fox', 'a brown fox', 'x y', 'z', '1 2', 'a', 'the', 'quick', 'brown'];

describe.each([{}, { worker: true }, { workers: 2 }])('with %o', (options) => {
  test('queries and documents get the prompts of the folder', async () => {
    const prompts = { query: 'the x ', passage: 'a y ', other: 'z ' };
    using model = await heed.fromPretrained(folder(prompts), options);
    const withText = (prompt: string) => model.embed(texts.map((text) => prompt + text));
    expect((await model.embedQuery(texts)).data).toEqual((await withText('the x ')).data);
    expect((await model.embedDocument(texts)).data).toEqual((await withText('a y ')).data);
    expect((await model.embedQuery(texts, { promptName: 'other' })).data).toEqual((await withText('z ')).data);
    expect((await model.embedDocument(texts, { prompt: '' })).data).toEqual((await withText('')).data);
    const ids = { inputIds: [[2, 5, 6, 3]] };
    expect(await model.embedQuery(ids)).toEqual(await model.embed(ids));
    const { data, scales } = await model.embedQuery('fox', { output: 'int8', dimensions: 8 });
    expect([data.length, scales.length]).toEqual([8, 1]);
  });
});

test('names of prompts are those of sentence-transformers and of Nomic, the first that the folder has', async () => {
  const vectors = async (method: 'embedQuery' | 'embedDocument', prompts: Record<string, string>) => {
    using model = await heed.fromPretrained(folder(prompts));
    return (await model[method]('fox')).data;
  };
  using plain = await heed.fromPretrained(tinyModel());
  const expected = (await plain.embed('the x fox')).data;
  for (const name of ['query', 'search_query'])
    expect(await vectors('embedQuery', { [name]: 'the x ' }), name).toEqual(expected);
  for (const name of ['document', 'passage', 'corpus', 'search_document'])
    expect(await vectors('embedDocument', { [name]: 'the x ' }), name).toEqual(expected);
  expect(await vectors('embedDocument', { passage: 'y ', document: 'the x ' })).toEqual(expected);
});

test('without such a prompt, the default of the folder counts, or none', async () => {
  using model = await heed.fromPretrained(folder({ other: 'the x ' }, { default_prompt_name: 'other' }));
  using plain = await heed.fromPretrained(tinyModel());
  expect((await model.embedQuery('fox')).data).toEqual((await plain.embed('the x fox')).data);
  expect((await plain.embedDocument('fox')).data).toEqual((await plain.embed('fox')).data);
});

test('wrong arguments are one error, after which the model works', async () => {
  using model = await heed.fromPretrained(folder({ query: 'the x ' }));
  const wrong = { code: 'INVALID_ARGUMENT' };
  await expect(model.embedQuery(7 as never)).rejects.toMatchObject(wrong);
  await expect(model.embedQuery('fox', 'query' as never)).rejects.toThrow(/^embedQuery: expected an options object/);
  await expect(model.embedQuery('fox', { promptName: 'passage' })).rejects.toThrow(/one of the model's prompts/);
  await expect(model.embedDocument('fox', { promt: '' } as never)).rejects.toThrow(/'promt'/);
  const { proxy, revoke } = Proxy.revocable([], {});
  revoke();
  await expect(model.embedQuery(proxy as never)).rejects.toMatchObject(wrong);
  const stop = new AbortController();
  stop.abort(new Error('enough'));
  await expect(model.embedQuery('fox', { signal: stop.signal })).rejects.toThrow('enough');
  expect((await model.embedQuery('fox')).shape).toEqual([1, 24]);
});
