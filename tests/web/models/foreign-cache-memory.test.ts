/** A Cache of an app, in which heed caches models, too: heed deletes and replaces only its own entries. */
import { afterAll, afterEach, beforeEach, expect, test, vi } from 'vitest';
import { MemoryCaches } from './memory-caches.js';
import { server, serving, wasm } from './revisions.js';

Object.assign(process, { getBuiltinModule: undefined }); // must run before heed looks for Node's modules
afterEach(() => vi.unstubAllGlobals());
afterAll(() => server.close());

const { clearCache, listCache, load, loadTokenizer } = await import('heed');
const heed = await load({ build: 'simd128', wasm });
const model = `${server.base}model/`;
const old = (Date.now() - 3 * 86_400_000).toString(36);
/** Entries of an app, some under keys that look like heed's. */
const FOREIGN: Record<string, string> = {
  '': 'the page',
  'app.js': 'a script',
  'model/config.json': '{}',
  'model/app.js?v=1': 'a script',
  '?heed=folder': 'an answer about a folder',
  [`app.js?heed=${old}-abc`]: 'an answer of a server with this parameter',
  'app.js?heed=1': 'another one',
};

let caches: MemoryCaches;
beforeEach(async () => {
  caches = new MemoryCaches();
  vi.stubGlobal('caches', caches);
  const cache = await caches.open('my-app-v1');
  for (const [name, text] of Object.entries(FOREIGN)) await cache.put(`${server.base}${name}`, new Response(text));
  server.answer = serving('a');
});

async function expectUnchanged(isAll = false): Promise<void> {
  const { entries } = await caches.open('my-app-v1');
  for (const [name, text] of Object.entries(FOREIGN)) {
    const entry = entries.get(`${server.base}${name}`);
    expect(entry && new TextDecoder().decode(entry.body), name).toBe(text);
  }
  if (isAll) expect(entries.size).toBe(Object.keys(FOREIGN).length);
}

const cache = 'my-app-v1';
const open = async (options = {}) => (await heed.fromPretrained(model, { cache, ...options })).dispose();

test.each<[string, () => Promise<unknown>]>([
  ['fromPretrained', () => open()],
  ['refresh', () => open({ refresh: true })],
  ['loadTokenizer', () => loadTokenizer(model, { cache }).catch(() => {})],
  ['inspect', () => heed.inspect(model, { cache })],
  ['quantize', () => heed.quantize(model, { cache })],
  ['listCache', () => listCache({ cache })],
  ['clearCache of another model', () => clearCache('org/name', { cache })],
  ['clearCache of the model', () => clearCache(model, { cache })],
  ['clearCache', () => clearCache(undefined, { cache })],
])('%s', async (_, call) => {
  await call();
  await expectUnchanged();
  await open();
  await call();
  server.answer = serving('b');
  await open({ refresh: true });
  await expectUnchanged();
  expect(await clearCache(undefined, { cache })).toBeGreaterThan(0);
  await expectUnchanged(true);
});

test('an entry of the app under the key of the record: the load succeeds, and caches nothing', async () => {
  const key = `${model}?heed=folder`;
  await (await caches.open(cache)).put(key, new Response('mine'));
  for (let n = 0; n < 2; n++) await open();
  const { entries } = await caches.open(cache);
  expect(new TextDecoder().decode(entries.get(key)!.body)).toBe('mine');
  entries.delete(key);
  await expectUnchanged(true);
});

test('files of a page that was closed are deleted after a day', async () => {
  const app = await caches.open(cache);
  const key = `${model}config.json?heed=${old}-abc`;
  await app.put(key, new Response('x', { headers: { 'x-heed': 'file', 'content-length': '1' } }));
  await open();
  expect(app.entries.has(key)).toBe(false);
  await expectUnchanged();
});

test.each([
  ['at once', async () => {}],
  [
    'after the first chunk',
    async (response: Response) => {
      const reader = response.body!.getReader();
      await reader.read();
      reader.releaseLock();
    },
  ],
])('a Cache that rejects files %s does not stop a load', async (_, read) => {
  const app = await caches.open(cache);
  const put = vi.spyOn(app, 'put').mockImplementation(async (_, response) => {
    await read(response);
    throw new DOMException('full', 'QuotaExceededError');
  });
  await open();
  expect(put).toHaveBeenCalled();
  await expectUnchanged(true);
});
