/** heed/util in a page: under a strict content security policy, without workers, and with products in WebAssembly. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSite, type Site } from '../models/site.js';

let site: Site;
beforeAll(async () => {
  site = await openSite(() => false);
});
afterAll(() => site?.close());

declare const heed: typeof import('heed');
declare const util: typeof import('heed/util');

test('clusters and near pairs are the same with and without the core', async () => {
  const [script, core] = await site.page.evaluate(async () => {
    const runtime = await heed.load();
    const rows = Array.from({ length: 60 }, (_, n) => [n % 3, (n % 3) ** 2, 1 + Math.sin(n) / 50]);
    const find = async (options: object) => ({
      labels: (await util.kMeans(rows, { numClusters: 3, seed: 1, ...options })).labels,
      communities: (await util.communityDetection(rows, { threshold: 0.99, ...options })).map((of) => of.sort()),
      kept: (await util.deduplicate(rows, { threshold: 0.99, ...options })).kept,
      pairs: (await util.paraphraseMining(rows, { topK: 1, ...options })).length,
      negatives: (await util.mineHardNegatives(rows, rows, { numNegatives: 1, ...options })).length,
    });
    const found = [await find({}), await find({ heed: runtime })];
    runtime.dispose();
    return found;
  });
  expect(core).toEqual(script);
  expect(script.kept).toEqual([0, 1, 2]);
  expect(script.communities.map((rows) => rows.length)).toEqual([20, 20, 20]);
  expect(new Set(script.labels.map((label, n) => `${label} ${n % 3}`)).size).toBe(3);
});

test('the page handles events during a long call, and can abort it', async () => {
  const turns = await site.page.evaluate(async () => {
    const rows = Array.from({ length: 3000 }, (_, n) => Array.from({ length: 64 }, (_, k) => Math.sin(n * 64 + k)));
    const stop = new AbortController();
    let turns = 0;
    const timer = setInterval(() => {
      if (++turns === 3) stop.abort();
    });
    const outcome = await util.paraphraseMining(rows, { topK: 1, signal: stop.signal }).catch((error) => error.name);
    clearInterval(timer);
    return [turns, outcome];
  });
  expect(turns).toEqual([3, 'AbortError']);
});
