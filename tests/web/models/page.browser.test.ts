/** A pretrained encoder in a real page and in that page's worker, against Node. */

import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'heed';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fixture, fixtures } from './fixtures.js';
import { openSite, type Site } from './site.js';

let site: Site;
let page: Page;
const requests: string[] = [];
/** Paths of the files that the server was asked for. */
const served: string[] = [];

beforeAll(async () => {
  site = await openSite((path, _, response) => {
    served.push(path);
    const file = join(fixtures, path);
    const isFile = statSync(file, { throwIfNoEntry: false })?.isFile();
    if (isFile) response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(readFileSync(file));
    return isFile === true;
  });
  page = site.page;
  page.on('request', (request) => requests.push(request.url()));
});
afterAll(() => site.close());

const run = (worker: boolean, family: string) =>
  page.evaluate(
    async ({ worker, family, input }) => {
      const { load } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
      const heed = await load({ build: 'simd128' });
      const model = await heed.fromPretrained(`/models/${family}`, { worker });
      const out = await model.encode(input, { outputAttentions: true });
      const vectors = await model.embed(input, { normalize: true });
      model.dispose();
      return {
        encode: [...out.lastHiddenState.data],
        embed: [...vectors.data],
        attentions: out.attentions!.length,
      };
    },
    { worker, family, input: fixture(family).input },
  );

test.each(['bert', 'modernbert'])('%s gives the same in the page, in a worker and in Node', async (family) => {
  const here = await run(false, family);
  const there = await run(true, family);
  const heed = await load({ build: 'simd128' });
  using model = await heed.fromPretrained(join(fixtures, family));
  const { input } = fixture(family);
  const node = await model.encode(input);
  expect(there).toEqual(here);
  expect(here.encode).toEqual([...node.lastHiddenState.data]);
  expect(here.embed).toEqual([...(await model.embed(input, { normalize: true })).data]);
});

test('a worker does all the work, and calls can be cancelled', async () => {
  const seen = await page.evaluate(
    async ({ input }) => {
      const { load } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
      const wasm = await (await fetch('/heed-simd128.wasm')).arrayBuffer();
      const heed = await load({ build: 'simd128', wasm }); // a separate instance
      const empty = heed.info.memoryBytes;
      const model = await heed.fromPretrained('/models/bert', { worker: true });
      const many = { inputIds: Array.from({ length: 30_000 }, () => input.inputIds[2]!) };
      const stop = new AbortController();
      const onProgress = () => stop.abort(new Error('enough'));
      const message = await model
        .embed(many, { signal: stop.signal, onProgress })
        .catch((error: Error) => error.message);
      const after = await model.embed(input);
      model.dispose();
      const grown = heed.info.memoryBytes - empty;
      heed.dispose();
      return { message, grown, rows: after.shape[0] };
    },
    { input: fixture('bert').input },
  );
  expect(seen.message).toBe('enough');
  expect(seen.grown).toBe(0); // the page's instance was not used
  expect(seen.rows).toBe(3);
});

test.each(['/index.js', '/heed.min.js'])(
  "an index in a model's worker has the hits of one in the page: %s",
  async (script) => {
    const seen = await page.evaluate(async (script) => {
      const { load } = (await new Function('script', 'return import(script)')(script)) as typeof import('heed');
      const wasm = await (await fetch('/heed-simd128.wasm')).arrayBuffer();
      const heed = await load({ build: 'simd128', wasm }); // a separate instance
      const model = await heed.fromPretrained('/models/bert', { worker: true });
      const [count, width] = [20_000, 64];
      const data = Float32Array.from({ length: count * width }, (_, i) => Math.sin(i * 1.37) + Math.cos(i * i));
      const vectors = { data, shape: [count, width] };
      const texts = Array.from({ length: count }, (_, i) => `text ${i}`);
      const empty = heed.info.memoryBytes;
      const there = await heed.TextIndex.of(model, [], { worker: true });
      await there.add(texts, { vectors });
      await there.remove(({ index }) => index % 3 === 0);
      const query = data.slice(0, width);
      const hits = [await there.search(query), await there.search(query, { filter: ({ index }) => index % 2 === 0 })];
      const file = await there.toSafetensors();
      const grown = heed.info.memoryBytes - empty;
      const here = heed.TextIndex.of();
      await here.add(texts, { vectors });
      await here.remove(({ index }) => index % 3 === 0);
      const expected = [here.search(query), here.search(query, { filter: ({ index }) => index % 2 === 0 })];
      const other = here.toSafetensors();
      const isSame = file.length === other.length && file.every((byte, i) => byte === other[i]);
      heed.dispose();
      return { hits, expected, isSame, grown };
    }, script);
    expect(seen.hits).toEqual(seen.expected);
    expect(seen.hits[0]).toHaveLength(10);
    expect([seen.isSame, seen.grown]).toEqual([true, 0]);
  },
);

test('a pool reads each file once, and a Worker of the page keeps its handlers', async () => {
  served.length = 0;
  const { input } = fixture('bert');
  const seen = await page.evaluate(
    async ({ input }) => {
      const { load } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
      const heed = await load();
      const alone = await heed.fromPretrained('/models/bert');
      const expected = await alone.embed(input);
      const pool = await heed.fromPretrained('/models/bert', { workers: 2 });
      const worker = new Worker('/worker.js', { type: 'module' });
      let messages = 0;
      const own = () => messages++;
      worker.onmessage = own;
      const model = await heed.fromPretrained('/models/bert', { worker });
      const vectors = [await pool.embed(input), await model.embed(input)];
      heed.dispose();
      return {
        same: vectors.every(({ data }) => data.every((value, i) => value === expected.data[i])),
        ended: [pool, model, alone].every(({ disposed }) => disposed),
        kept: worker.onmessage === own,
        messages,
      };
    },
    { input },
  );
  expect(seen).toMatchObject({ same: true, ended: true, kept: true });
  expect(seen.messages).toBeGreaterThanOrEqual(2);
  // Requested by the page, by the pool and by the worker that the page created.
  expect(served.filter((path) => path === 'bert/model.safetensors')).toHaveLength(3);
});

test('errors arrive from the worker, and no other host gets requests', async () => {
  const code = await page.evaluate(async () => {
    const { load } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
    return (await load()).fromPretrained('/models/nothing-here', { worker: true }).then(
      () => 'loaded',
      (error: { code: string }) => error.code,
    );
  });
  expect(code).toBe('NOT_FOUND');
  const host = new URL(page.url()).host;
  expect(requests.filter((url) => new URL(url).host !== host)).toEqual([]);
});
