/** A pretrained encoder in a real page and in that page's worker, against Node. */

import { readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load } from 'heed';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchChromium } from '../../../tools/chromium.mjs';
import { fixture, fixtures } from './fixtures.js';

const dist = fileURLToPath(new URL('../../../dist/', import.meta.url));
const types: Record<string, string> = { '.js': 'text/javascript', '.wasm': 'application/wasm', '.html': 'text/html' };

let page: Page;
let close: () => Promise<void>;
const requests: string[] = [];

beforeAll(async () => {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url!.split('?')[0]!);
    if (path === '/') {
      // The strictest policy under which WebAssembly runs.
      const policy = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'";
      return void response
        .writeHead(200, { 'content-type': 'text/html', 'content-security-policy': policy })
        .end('<!doctype html><title>heed</title><script type="module" src="/page.js"></script>');
    }
    if (path === '/page.js')
      return void response
        .writeHead(200, { 'content-type': 'text/javascript' })
        .end('import * as heed from "/index.js"; globalThis.heed = heed;');
    const file = path.startsWith('/models/')
      ? join(fixtures, path.slice('/models/'.length))
      : join(dist, path.slice(1));
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return void response.writeHead(404).end();
    response
      .writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream' })
      .end(readFileSync(file));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const browser = await launchChromium();
  page = await browser.newPage();
  page.on('request', (request) => requests.push(request.url()));
  await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  await page.waitForFunction('globalThis.heed');
  close = async () => {
    await browser.close();
    server.close();
  };
});
afterAll(() => close());

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

test('the page stays alive while its worker works, and calls can be cancelled', async () => {
  const seen = await page.evaluate(
    async ({ input }) => {
      const { load } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
      const model = await (await load()).fromPretrained('/models/bert', { worker: true });
      const many = { inputIds: Array.from({ length: 30_000 }, () => input.inputIds[2]!) };
      const stop = new AbortController();
      let ticks = 0;
      const timer = setInterval(() => ticks++, 5);
      setTimeout(() => stop.abort(new Error('enough')), 200);
      const message = await model.embed(many, { signal: stop.signal }).catch((error: Error) => error.message);
      clearInterval(timer);
      const after = await model.embed(input);
      model.dispose();
      return { message, ticks, rows: after.shape[0] };
    },
    { input: fixture('bert').input },
  );
  expect(seen.message).toBe('enough');
  expect(seen.ticks).toBeGreaterThan(5);
  expect(seen.rows).toBe(3);
});

test('errors cross from the worker, and no host but the page was asked', async () => {
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
