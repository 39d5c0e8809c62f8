/** Shared-memory threads in pages of Chromium: with and without cross-origin isolation, in the page and in its worker. */
import { load } from 'heed';
import { afterEach, describe, expect, test } from 'vitest';
import { bertFiles, idsOf } from './models/bert-files.js';
import { isolation, openSite, type Site } from './models/site.js';

const sizes = { width: 96, inner: 200, heads: 4, layers: 2, vocab: 50, positions: 200 };
const files = bertFiles(sizes);
const inputIds = idsOf([150, 3, 64], sizes.vocab);

const sites: Site[] = [];
afterEach(async () => {
  for (const site of sites.splice(0)) await site.close();
});

async function open(options?: Parameters<typeof openSite>[1]): Promise<Site> {
  const site = await openSite((path, _, response) => {
    const file = files[path.replace('bert/', '')];
    if (file) response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(file);
    return file !== undefined;
  }, options);
  sites.push(site);
  return site;
}

/** Computes in the page with `threads`, and returns the results and `info`. */
function run({ page }: Site, threads: number, worker: boolean, calls = 1) {
  return page.evaluate(
    async ({ threads, worker, calls, inputIds }) => {
      const { load } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
      const heed = await load({ build: 'simd128', threads });
      const model = await heed.fromPretrained('/models/bert', { worker });
      let vectors = await model.embed({ inputIds });
      for (let i = 1; i < calls; i++) vectors = await model.embed({ inputIds });
      const { info } = heed;
      heed.dispose();
      return { vectors: [...vectors.data], threads: info.threads, reason: info.threadsReason };
    },
    { threads, worker, calls, inputIds },
  );
}

/** The expected results, computed in Node on one thread. */
async function expected(): Promise<number[]> {
  const heed = await load({ build: 'simd128' });
  using model = await heed.fromPretrained(files);
  return [...(await model.embed({ inputIds })).data];
}

describe('in a page that is cross-origin isolated', () => {
  test.each([false, true])('threads give the same bits as one thread (worker: %s)', async (worker) => {
    const site = await open({ headers: isolation });
    expect(await site.page.evaluate('crossOriginIsolated')).toBe(true);
    const vectors = await expected();
    for (const threads of [1, 2, 4]) expect(await run(site, threads, worker, 200)).toMatchObject({ vectors, threads });
  });

  test('the worker of a model starts threads of its own', async () => {
    const site = await open({ headers: isolation });
    const scripts: string[] = [];
    site.page.on('request', (request) => scripts.push(new URL(request.url()).pathname));
    await run(site, 3, true);
    await expect.poll(() => scripts.filter((path) => path === '/thread.js').length).toBe(4);
  });

  test('one thread runs where a policy forbids workers, and info says why', async () => {
    const policy = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'none'";
    const site = await open({ headers: isolation, policy });
    const { threads, reason, vectors } = await run(site, 2, false);
    expect(threads).toBe(1);
    expect(reason).toMatch(/^a thread could not start/);
    expect(vectors).toEqual(await expected());
  });

  test('threads end with dispose()', async () => {
    const site = await open({ headers: isolation });
    const { page } = site;
    await page.evaluate(async () => {
      const heed = await (globalThis as unknown as { heed: typeof import('heed') }).heed.load({ threads: 4 });
      Object.assign(globalThis, { runtime: heed });
    });
    expect(page.workers()).toHaveLength(3);
    await page.evaluate(() => (globalThis as unknown as { runtime: { dispose(): void } }).runtime.dispose());
    await expect.poll(() => page.workers().length).toBe(0);
  });
});

test('one thread runs in a page that is not isolated, and info says why', async () => {
  const site = await open();
  const result = await run(site, 2, false);
  expect(result).toEqual({ vectors: await expected(), threads: 1, reason: 'the page is not cross-origin isolated' });
});
