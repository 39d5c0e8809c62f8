/** Contradictory and unused options are rejected. */
import { load, pipeline } from 'heed';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fixtures } from './fixtures.js';
import { openServer } from './server.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const prompts = { 'config_sentence_transformers.json': JSON.stringify({ prompts: { query: 'the ', other: 'a ' } }) };
let model: Awaited<ReturnType<typeof heed.fromPretrained>>;
beforeAll(async () => {
  model = await heed.fromPretrained({ ...tinyModel(), ...prompts });
});
afterAll(() => model.dispose());

const refused = (message: RegExp) => ({ code: 'INVALID_ARGUMENT', message: expect.stringMatching(message) });
const ids = { inputIds: [[2, 9, 12, 3]] };

test('`prompt` beside `promptName`', async () => {
  await expect(model.embed('fox', { prompt: 'a ', promptName: 'query' })).rejects.toMatchObject(
    refused(/embed\.promptName: expected undefined together with `prompt`, got 'query'/),
  );
  const vectors = async (options: object) => (await model.embed('fox', options)).data;
  expect(await vectors({ promptName: 'query' })).toEqual(await vectors({ prompt: 'the ' }));
  expect(await vectors({ promptName: 'query' })).not.toEqual(await vectors({}));
});

test.each(['textPairs', 'prompt', 'promptName'])('`%s` beside token ids', async (name) => {
  const value = name === 'textPairs' ? ['fox'] : 'query';
  const options = { [name]: value };
  const message = refused(new RegExp(`^${name}: expected undefined together with token ids, got `));
  await expect(model.embed(ids, options)).rejects.toMatchObject(message);
  if (name !== 'textPairs') return;
  await expect(model.encode(ids, options)).rejects.toMatchObject(message);
  await expect(model.predict('fill-mask', ids, options)).rejects.toMatchObject({ name: 'HeedError' });
  expect((await model.encode('the', { textPairs: 'fox' })).tokens[0]).toContain('fox');
});

test('`revision` of a source that is no model of a hub', async () => {
  const sources = [`${fixtures}bert`, 'http://127.0.0.1:9/model', new URL('http://127.0.0.1:9/model'), tinyModel()];
  for (const source of sources)
    await expect(heed.fromPretrained(source, { revision: 'v2' })).rejects.toMatchObject(
      refused(/revision: expected .*, got 'v2'/),
    );
  const server = await openServer();
  const loaded = heed.fromPretrained('org/name', { revision: 'v2', remoteHost: server.base });
  await expect(loaded).rejects.toMatchObject({ code: 'NOT_FOUND' });
  expect(server.urls).toContain('/org/name/resolve/v2/config.json');
  server.close();
});

test('invalid addresses', async () => {
  for (const [source, options, argument] of [
    ['https://', {}, 'source'],
    [{ href: 'https://', protocol: 'https:' }, {}, 'source'],
    ['file://elsewhere/x', {}, 'source'],
    ['org/name', { remoteHost: 'no host' }, 'remoteHost'],
  ] as const) {
    const error = await heed.fromPretrained(source, options).catch((error) => error);
    expect(error).toMatchObject(refused(new RegExp(`^${argument}: expected .*, got '.*'`)));
    expect(error.message).not.toMatch(/TypeError|threw/);
  }
});

test('a pipeline normalizes the vectors of tokens, too', async () => {
  const extract = await pipeline('feature-extraction', tinyModel());
  const texts = ['the quick fox', 'a'];
  const given = await extract(texts, { pooling: 'none', normalize: true });
  const plain = await extract(texts);
  expect(given.dims).toEqual(plain.dims);
  const width = given.dims[2]!;
  for (let at = 0; at < given.data.length; at += width) {
    const row = plain.data.subarray(at, at + width);
    const norm = Math.hypot(...row) || 1; // rows of padding stay zero
    row.forEach((value, i) => expect(given.data[at + i]).toBeCloseTo(value / norm, 5));
  }
  await expect(extract(texts, { normalize: 3 } as object)).rejects.toMatchObject(
    refused(/normalize: expected .*, got 3/),
  );
  await extract.dispose();
});

test('`onProgress` beside `progress_callback`', async () => {
  const options = { progress_callback() {}, onProgress() {} };
  await expect(pipeline('feature-extraction', tinyModel(), options)).rejects.toMatchObject(
    refused(/pipeline\.onProgress: expected undefined together with progress_callback, got both/),
  );
});
