/** How many requests a page without a bundler makes until its first hit, with the model in the page and in a worker. */
import { readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchChromium } from '../../tools/chromium.mjs';

const dist = fileURLToPath(new URL('../../dist/', import.meta.url));
const types: Record<string, string> = { '.js': 'text/javascript', '.wasm': 'application/wasm' };

/** A page that searches. `links`: scripts whose download starts with the page's, as docs/bundlers.md advises. */
const pageOf = (options: object, links: string[]) => `<!doctype html><link rel="icon" href="data:,">
${links.map((name) => `<link rel="modulepreload" href="/dist/${name}">`).join('\n')}
<p></p>
<script type="module">
import { load } from '/dist/heed.min.js';
const heed = await load();
const model = await heed.fromPretrained(undefined, ${JSON.stringify(options)});
const index = await heed.TextIndex.of(model, ['The cat sleeps.', 'Interest rates rose.', 'Fry the onions.']);
const [best] = await index.search('preparing a meal');
document.querySelector('p').textContent = best.text;
</script>`;

let browser: Browser;
beforeAll(async () => {
  browser = await launchChromium();
});
afterAll(() => browser?.close());

test.each<[string, object, string[]]>([
  ['in the page', {}, []],
  ['in a worker', { worker: true }, []],
  ['in a worker, with links', { worker: true }, ['heed.min.js', 'worker.js']],
])('the model %s: at most 12 requests, each file once, none to another host', async (_, options, links) => {
  const served: string[] = [];
  const server = createServer((request, response) => {
    const path = new URL(request.url!, 'http://localhost').pathname;
    served.push(path);
    const file = join(dist, path.replace('/dist/', ''));
    const found = path.startsWith('/dist/') && statSync(file, { throwIfNoEntry: false })?.isFile();
    if (path !== '/' && !found) return void response.writeHead(404).end();
    const type = path === '/' ? 'text/html' : (types[extname(path)] ?? 'application/octet-stream');
    response.writeHead(200, { 'content-type': type, 'cache-control': 'max-age=600' });
    response.end(path === '/' ? pageOf(options, links) : readFileSync(file));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const context = await browser.newContext(); // with an empty cache
  try {
    const elsewhere: string[] = [];
    context.on('request', (request) => {
      if (!request.url().startsWith(origin) && !/^(data|blob):/.test(request.url())) elsewhere.push(request.url());
    });
    const page = await context.newPage();
    // Playwright misses workers whose script is in the cache.
    await page.addInitScript(() => {
      globalThis.Worker = class extends Worker {
        constructor(...args: ConstructorParameters<typeof Worker>) {
          super(...args);
          document.documentElement.dataset.workers = `${Number(document.documentElement.dataset.workers ?? 0) + 1}`;
        }
      };
    });
    const errors: string[] = [];
    page.on('pageerror', (error) => errors.push(String(error)));
    await page.goto(origin);
    await page.getByText('Fry the onions.').waitFor();
    console.log(`${served.length} requests: ${served.join(' ')}`);
    expect(served.length).toBeLessThanOrEqual(12);
    expect(new Set(served).size).toBe(served.length);
    const workers = await page.evaluate(() => Number(document.documentElement.dataset.workers ?? 0));
    expect(workers).toBe('worker' in options ? 1 : 0);
    expect([...elsewhere, ...errors]).toEqual([]);
  } finally {
    await context.close();
    server.closeAllConnections();
    server.close();
  }
});
