/** Every load with a cache, in a folder that also has files of others. */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { clearCache, listCache, load, loadTokenizer } from 'heed';
import { afterAll, expect, test } from 'vitest';
import { changed, FOREIGN, place, snapshot } from '../foreign-files.js';
import { cutOff, openServer, serving } from './server.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const server = await openServer();
const tiny = tinyModel();
const model = `${server.base}model/`;
const hash = (text: string) => createHash('sha256').update(text).digest('hex');
const folders: string[] = [];
afterAll(() => {
  server.close();
  for (const folder of folders) fs.rmSync(folder, { recursive: true });
});

function foreignFolder(): string {
  const cache = fs.mkdtempSync(join(tmpdir(), 'heed-foreign-cache-'));
  folders.push(cache);
  place(cache, FOREIGN);
  return cache;
}

/** What fills, changes or reads the cache. */
const CALLS: [string, (cache: string) => Promise<unknown>][] = [
  ['fromPretrained', async (cache) => (await heed.fromPretrained(model, { cache })).dispose()],
  ['in a worker', async (cache) => (await heed.fromPretrained(model, { cache, worker: true })).dispose()],
  ['refresh', async (cache) => (await heed.fromPretrained(model, { cache, refresh: true })).dispose()],
  ['loadTokenizer', (cache) => loadTokenizer(model, { cache })],
  ['inspect', (cache) => heed.inspect(model, { cache })],
  ['quantize', (cache) => heed.quantize(model, { cache })],
  ['prune', (cache) => heed.prune(model, { cache, keep: ['the fox'] })],
  ['listCache', (cache) => listCache({ cache })],
  ['clearCache of another model', (cache) => clearCache('org/name', { cache })],
  ['clearCache of the model', (cache) => clearCache(model, { cache })],
  ['clearCache', (cache) => clearCache(undefined, { cache })],
];

test.each(CALLS)('%s', async (name, call) => {
  const cache = foreignFolder();
  const before = snapshot(cache);
  server.answer = serving(tiny);
  for (const fill of [false, true]) {
    if (fill) (await heed.fromPretrained(model, { cache })).dispose();
    await call(cache);
    expect(changed(cache, before)).toEqual([]);
  }
  // A load that fails, and one of a new revision.
  server.answer = cutOff;
  await heed.fromPretrained(model, { cache, refresh: true }).catch(() => {});
  server.answer = (_, response, file) => {
    const content = tiny[file];
    response.writeHead(content ? 200 : 404, { etag: '"2"' }).end(content && Buffer.from(content as Uint8Array));
  };
  await call(cache);
  (await heed.fromPretrained(model, { cache, refresh: true })).dispose();
  expect(changed(cache, before)).toEqual([]);
  // What heed has written is deleted, and nothing else.
  expect(await clearCache(undefined, { cache })).toBeGreaterThan(0);
  expect(snapshot(cache)).toEqual(before);
  expect(name).not.toBe('');
});

test('a file of another in the place of the record: the load succeeds, and caches nothing', async () => {
  const cache = foreignFolder();
  place(cache, { [`${hash(model)}.json`]: '{"mine":true}' });
  const before = snapshot(cache);
  server.answer = serving(tiny);
  for (let n = 0; n < 2; n++) (await heed.fromPretrained(model, { cache })).dispose();
  expect(snapshot(cache)).toEqual(before);
  expect(await listCache({ cache })).toEqual([]);
});

/** Makes every file of a cache three days old. */
function age(cache: string): void {
  const time = Date.now() / 1000 - 3 * 86_400;
  for (const name of fs.readdirSync(cache)) fs.utimesSync(join(cache, name), time, time);
}

test('files of a process that died are deleted after a day, by their marks', async () => {
  const cache = foreignFolder();
  const before = snapshot(cache);
  const [whole, part] = [`${model}x?heed=a-b`, `${model}y?heed=a-c`];
  place(cache, {
    [hash(whole)]: 'whole',
    [`${hash(whole)}.json`]: JSON.stringify({ heed: whole }),
    [`${hash(part)}.01234567-89ab-cdef-0123-456789abcdef`]: 'a part',
    [`${hash(part)}.json`]: JSON.stringify({ heed: part }),
  });
  server.answer = serving(tiny);
  (await heed.fromPretrained(model, { cache })).dispose();
  expect(Object.keys(snapshot(cache)).filter((name) => name.startsWith(hash(whole).slice(0, 60)))).toEqual([]);
  expect(changed(cache, before)).toEqual([]);
  // In use: it is listed, and remains.
  const bytes = (await listCache({ cache }))[0]!.bytes;
  age(cache);
  (await heed.fromPretrained(`${model}?v=2`, { cache })).dispose();
  expect(await listCache({ cache })).toHaveLength(2);
  expect(await clearCache(model, { cache })).toBe(bytes);
  await clearCache(undefined, { cache });
  expect(snapshot(cache)).toEqual(before);
});

test('a cached folder is a record and the files that it names, without marks', async () => {
  const cache = foreignFolder();
  server.answer = serving(tiny);
  (await heed.fromPretrained(model, { cache })).dispose();
  const names = Object.keys(snapshot(cache)).filter((name) => !(name in FOREIGN));
  const record = JSON.parse(fs.readFileSync(join(cache, `${hash(model)}.json`), 'utf8')) as {
    files: Record<string, { key: string } | null>;
  };
  const keys = Object.values(record.files).flatMap((file) => (file?.key ? [hash(file.key)] : []));
  expect(names.sort()).toEqual([`${hash(model)}.json`, ...keys].sort());
  server.answer = cutOff;
  (await heed.fromPretrained(model, { cache })).dispose();
});
