/** heed/train in a real page, and its workers, with the files of dist/ under a strict content security policy. */

import type { Sequential } from 'heed/train';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSite, type Site } from '../models/site.js';

type HeedTrain = typeof import('heed/train');

let site: Site;
let page: Page;
const requests: string[] = [];

beforeAll(async () => {
  site = await openSite(() => false, { entry: 'train.js' });
  page = site.page;
  page.on('request', (request) => requests.push(request.url()));
  await page.evaluate(async () => {
    const { load } = (globalThis as unknown as { heed: HeedTrain }).heed;
    const heed = await load({ build: 'simd128' });
    const inputs = Array.from({ length: 12 }, (_, n) => Array.from({ length: 4 }, (_, i) => (n * 3 + i * i) % 7));
    const data = { inputs, labels: inputs.map((row) => row.map((id) => (id + 1) % 7)) };
    const make = () => {
      const model = new heed.Sequential(
        [
          new heed.Embedding({ numEmbeddings: 7, embedDim: 8 }),
          new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 12, dropout: 0.2 }),
          new heed.Linear({ inFeatures: 8, outFeatures: 7 }),
        ],
        { seed: 1 },
      );
      return { model, optimizer: new heed.optim.AdamW(model.parameters(), { lr: 0.01 }) };
    };
    Object.assign(globalThis, { training: { heed, data, make } });
  });
});
afterAll(() => site.close());

/** Values that the page stores for the tests. */
interface Kept {
  heed: Awaited<ReturnType<HeedTrain['load']>>;
  data: { inputs: number[][]; labels: number[][] };
  make(): {
    model: Sequential;
    optimizer: InstanceType<Kept['heed']['optim']['AdamW']>;
  };
}

/** Trains in the page; returns the losses and the bytes of a checkpoint. */
const trained = (how: { worker?: boolean; workers?: number; own?: number }) =>
  page.evaluate(async ({ own, ...given }) => {
    const { heed, data, make } = (globalThis as unknown as { training: Kept }).training;
    const { model, optimizer } = make();
    const started = () => new Worker('/train-worker.js', { type: 'module' }) as never;
    const options = own ? { workers: Array.from({ length: own }, started) } : given;
    const { loss } = await model.fit(data, {
      ...{ loss: 'crossEntropy', optimizer, epochs: 3, batchSize: 5, seed: 2 },
      ...options,
    });
    return { loss, state: [...heed.saveCheckpoint({ model, optimizer })] };
  }, how);

test('fit in a worker has the result of the page, bit for bit', async () => {
  const [here, there] = [await trained({}), await trained({ worker: true })];
  expect(here.loss).toHaveLength(3);
  expect(here.loss[2]).toBeLessThan(here.loss[0]!);
  expect(there).toEqual(here);
});

test('fit has the same bits on one, two and four workers, and on those of the page', async () => {
  const one = await trained({ workers: 1 });
  expect(await trained({ workers: 2 })).toEqual(one);
  expect(await trained({ workers: 4 })).toEqual(one);
  expect(await trained({ own: 2 })).toEqual(one);
});

test.each([{ worker: true }, { workers: 2 }])('can be stopped: %o', async (how) => {
  const seen = await page.evaluate(async (how) => {
    const { data, make } = (globalThis as unknown as { training: Kept }).training;
    const { model, optimizer } = make();
    const before = JSON.stringify(model.stateDict());
    const stop = new AbortController();
    const options = { loss: 'crossEntropy', optimizer, epochs: 2 ** 20, ...how, signal: stop.signal } as const;
    const onStep = ({ step }: { step: number }) => step === 3 && stop.abort(new Error('enough'));
    const message = await model.fit(data, { ...options, onStep }).catch((error: Error) => error.message);
    const changed = JSON.stringify(model.stateDict()) !== before;
    const { loss } = await model.fit(data, { loss: 'crossEntropy', optimizer });
    return { message, changed, again: loss.length };
  }, how);
  expect(seen).toEqual({ message: 'enough', changed: true, again: 1 });
});

test('a worker that ends is one error, and the model stays as it was', async () => {
  const seen = await page.evaluate(async () => {
    const { data, make } = (globalThis as unknown as { training: Kept }).training;
    const { model, optimizer } = make();
    const before = JSON.stringify(model.stateDict());
    const workers = ['/train-worker.js', '/missing.js'].map((path) => new Worker(path, { type: 'module' }) as never);
    const code = await model
      .fit(data, { loss: 'crossEntropy', optimizer, epochs: 2 ** 20, workers })
      .catch((error: { code: string }) => error.code);
    return { code, same: JSON.stringify(model.stateDict()) === before };
  });
  expect(seen).toEqual({ code: 'WORKER_FAILED', same: true });
});

test('only the files of dist/ with training are loaded', () => {
  const paths = requests.map((url) => new URL(url));
  expect(paths.every(({ origin }) => origin === site.origin)).toBe(true);
  expect(paths.filter(({ pathname }) => pathname.endsWith('.wasm')).map(({ pathname }) => pathname)).toContain(
    '/heed-train-simd128.wasm',
  );
  expect(paths.some(({ pathname }) => ['/index.js', '/worker.js', '/heed-simd128.wasm'].includes(pathname))).toBe(
    false,
  );
});
