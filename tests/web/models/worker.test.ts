import { readFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { HeedError, load } from 'heed';
import { load as loadTraining } from 'heed/train';
import { describe, expect, test, vi } from 'vitest';
import { fixtures } from './fixtures.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const texts = ['the quick brown fox', 'a', ''];
const many = Array.from({ length: 20_000 }, (_, i) => `the quick brown fox ${i}`);
const script = new URL('./worker.js', import.meta.resolve('heed'));

describe('a model in a worker', () => {
  test('returns the same as in this thread', async () => {
    using here = await heed.fromPretrained(tinyModel());
    using there = await heed.fromPretrained(tinyModel(), { worker: true });
    expect(there.config).toEqual(here.config);
    const options = { outputAttentions: true, outputHiddenStates: true, outputProjections: true } as const;
    const [a, b] = [await here.encode(texts, options), await there.encode(texts, options)];
    expect(b).toEqual(a);
    expect(b.projections.keys[0]!.toString()).toBe(a.projections.keys[0]!.toString());
    expect(b.lastHiddenState.toArray()).toEqual(a.lastHiddenState.toArray());
    expect(await there.embed(texts, { normalize: true })).toEqual(await here.embed(texts, { normalize: true }));
    expect(await there.tokenize(texts)).toEqual(await here.tokenize(texts));
    expect(await there.predict('sequence-classification', texts)).toEqual(
      await here.predict('sequence-classification', texts),
    );
    expect(await there.decode([9, 10])).toBe(await here.decode([9, 10]));
  });

  test('loads from a folder', async () => {
    using model = await heed.fromPretrained(`${fixtures}bert`, { worker: true });
    expect((await model.embed({ inputIds: [[5, 6]] })).shape).toEqual([1, 24]);
  });

  test('rejects with the same errors', async () => {
    await expect(heed.fromPretrained({ 'config.json': '{}' }, { worker: true })).rejects.toMatchObject({
      name: 'HeedError',
      code: 'UNSUPPORTED',
    });
    await expect(heed.fromPretrained(tinyModel(), { worker: true, dtype: 'q4' } as object)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    await expect(heed.fromPretrained(tinyModel(), { worker: 3 } as object)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    using model = await heed.fromPretrained(tinyModel(), { worker: true });
    const error = await model.encode(['a '.repeat(99)], { truncation: false }).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(HeedError);
    expect((error as HeedError).code).toBe('TOO_LONG');
    await expect(model.embed([(() => 1) as unknown as string])).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect((await model.embed('the fox')).shape).toEqual([1, 24]);
  });

  test('reports progress of loads and calls', async () => {
    const loading: number[] = [];
    using model = await heed.fromPretrained(`${fixtures}bert`, {
      worker: true,
      onProgress: ({ done }) => loading.push(done),
    });
    expect(loading.length).toBeGreaterThan(1);
    const done: number[] = [];
    using tiny = await heed.fromPretrained(tinyModel(), { worker: true });
    await tiny.embed(many.slice(0, 2000), { onProgress: (progress) => done.push(progress.done) });
    expect(done.at(-1)).toBe(2000);
    expect(model.config.family).toBe('bert');
  });

  test('rejects with the error that onProgress throws, and continues to work', async () => {
    using model = await heed.fromPretrained(tinyModel(), { worker: true });
    const onProgress = () => {
      throw new Error('enough of it');
    };
    await expect(model.embed(many, { onProgress })).rejects.toThrow('enough of it');
    expect((await model.embed('the fox')).shape).toEqual([1, 24]);
    await expect(heed.fromPretrained(`${fixtures}bert`, { worker: true, onProgress })).rejects.toThrow('enough of it');
  });

  test('stops when the signal fires, rejects at once, and continues to work', async () => {
    const worker = new Worker(script);
    using model = await heed.fromPretrained(tinyModel(), { worker });
    const before = await model.embed(texts);
    const stop = new AbortController();
    // The worker answers the abandoned call with an error: it stopped computing.
    const ended = new Promise((resolve) =>
      worker.on('message', ({ type }) => {
        if (type !== 'progress') resolve(type);
      }),
    );
    const onProgress = () => stop.abort(new Error('enough'));
    await expect(model.embed(many, { signal: stop.signal, onProgress })).rejects.toThrow('enough');
    expect(await ended).toBe('error');
    await expect(model.embed('a', { signal: AbortSignal.abort(new Error('at once')) })).rejects.toThrow('at once');
    expect(await model.embed(texts)).toEqual(before);
  });

  test('computes nothing in this thread', async () => {
    const wasm = readFileSync(new URL('./heed-simd128.wasm', import.meta.resolve('heed')));
    using own = await load({ build: 'simd128', wasm: new Uint8Array(wasm) });
    const before = own.info.memoryBytes;
    using there = await own.fromPretrained(`${fixtures}bert`, { worker: true });
    const ids = { inputIds: Array.from({ length: 200 }, () => Array.from({ length: 30 }, (_, i) => i)) };
    await there.encode(ids);
    expect(own.info.memoryBytes).toBe(before);
    using here = await own.fromPretrained(`${fixtures}bert`);
    await here.encode(ids);
    expect(own.info.memoryBytes).toBeGreaterThan(before); // so memoryBytes shows computations in this thread
  });

  test('rejects pending calls when it is disposed of', async () => {
    const model = await heed.fromPretrained(tinyModel(), { worker: true });
    const pending = [model.embed(many), model.embed(many)];
    model.dispose();
    model.dispose();
    await Promise.all(pending.map((call) => expect(call).rejects.toMatchObject({ code: 'DISPOSED' })));
    await expect(model.embed('a')).rejects.toMatchObject({ code: 'DISPOSED' });
    expect(model.disposed).toBe(true);
  });

  test('rejects pending calls when its worker dies', async () => {
    const worker = new Worker(script);
    const model = await heed.fromPretrained(tinyModel(), { worker });
    const pending = [model.embed(many, { onProgress: () => void worker.terminate() }), model.embed(many)];
    await Promise.all(pending.map((call) => expect(call).rejects.toMatchObject({ code: 'WORKER_FAILED' })));
    await expect(model.embed('a')).rejects.toMatchObject({ code: 'WORKER_FAILED' });
    model.dispose();
  });

  test('rejects if its worker cannot start', async () => {
    await expect(
      heed.fromPretrained(tinyModel(), { worker: new Worker(new URL('file:///no/such/worker.js')) }),
    ).rejects.toMatchObject({ code: 'WORKER_FAILED' });
    await expect(
      heed.fromPretrained(tinyModel(), { worker: new Worker('process.exit(3)', { eval: true }) }),
    ).rejects.toMatchObject({ code: 'WORKER_FAILED' });
  });
});

describe('a worker that runs another script', () => {
  const rejected = {
    code: 'WORKER_FAILED',
    message: expect.stringMatching(/the worker does not run heed's worker\.js/),
  };

  test.each([
    [
      'echoes',
      "const { parentPort } = require('worker_threads'); parentPort.on('message', (m) => parentPort.postMessage(m))",
    ],
    [
      'answers in its own way',
      "const { parentPort } = require('worker_threads'); parentPort.on('message', ({ id }) => parentPort.postMessage({ type: 'result', id, value: 1 }))",
    ],
  ])('is rejected: one that %s', async (_, script) => {
    const worker = new Worker(script, { eval: true });
    await expect(heed.fromPretrained(tinyModel(), { worker })).rejects.toMatchObject(rejected);
  });

  test('is rejected: one that never answers', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const worker = new Worker('setInterval(() => {}, 1000)', { eval: true });
      const loading = expect(heed.fromPretrained(tinyModel(), { worker })).rejects.toMatchObject(rejected);
      await vi.waitFor(() => expect(vi.getTimerCount()).toBeGreaterThan(0), { timeout: 120_000 });
      await vi.advanceTimersByTimeAsync(30_000);
      await loading;
    } finally {
      vi.useRealTimers();
    }
  });

  test('is rejected by fit, also if it is a script of heed that cannot train', async () => {
    const training = await loadTraining();
    const model = new training.Sequential([new training.Linear({ inFeatures: 1, outFeatures: 1 })]);
    const optimizer = new training.optim.SGD(model.parameters(), { lr: 0.1 });
    const worker = new Worker(script);
    const fit = model.fit({ inputs: [[1]], labels: [[1]] }, { loss: 'mse', optimizer, epochs: 1, worker });
    await expect(fit).rejects.toMatchObject({ code: 'WORKER_FAILED', cause: { code: 'WORKER_FAILED' } });
    await worker.terminate();
  });
});

describe('a model in several workers', () => {
  test('divides long lists and returns the same', async () => {
    using here = await heed.fromPretrained(tinyModel());
    using pool = await heed.fromPretrained(tinyModel(), { workers: 2 });
    expect(pool.workers).toEqual({ count: 2, reason: 'asked for' });
    expect(here.workers.count).toBe(0);
    const list = many.slice(0, 500);
    const done: number[] = [];
    const vectors = await pool.embed(list, { normalize: true, onProgress: (progress) => done.push(progress.done) });
    expect(vectors).toEqual(await here.embed(list, { normalize: true }));
    expect(done.at(-1)).toBe(500);
    expect(await pool.embed(list, { textPairs: list })).toEqual(await here.embed(list, { textPairs: list }));
    const ids = { inputIds: list.map((_, i) => [2, 5 + (i % 9), 3]) };
    const long = texts.concat(Array.from({ length: 20 }, (_, i) => 'a '.repeat(10 * i)));
    expect((await pool.embed(long)).truncated).toEqual((await here.embed(long)).truncated);
    expect(await pool.embed(ids)).toEqual(await here.embed(ids));
    expect(await pool.encode(texts)).toEqual(await here.encode(texts));
    expect((await pool.embed([])).shape).toEqual([0, 24]);
  });

  test('returns vectors in the order of the texts, whatever their lengths, and names the text that fails', async () => {
    using here = await heed.fromPretrained(tinyModel());
    using pool = await heed.fromPretrained(tinyModel(), { workers: 3 });
    const mixed = Array.from({ length: 300 }, (_, i) => 'the fox '.repeat((i * 7) % 11).trim());
    const pairs = [...mixed].reverse();
    expect(await pool.embed(mixed)).toEqual(await here.embed(mixed));
    expect(await pool.embed(mixed, { textPairs: pairs })).toEqual(await here.embed(mixed, { textPairs: pairs }));
    const inputIds = mixed.map((text) => [2, ...text.split(' ').map(() => 5), 3]);
    const attentionMask = inputIds.map((ids, i) => ids.map((_, k) => Number(k < 1 + (i % 4))));
    const tokenTypeIds = inputIds.map((ids, i) => ids.map(() => i % 2));
    const ids = { inputIds, attentionMask, tokenTypeIds };
    expect(await pool.embed(ids)).toEqual(await here.embed(ids));
    expect(await pool.embed(Array(100).fill(''))).toEqual(await here.embed(Array(100).fill('')));
    const tooLong = mixed.map((text, i) => (i === 217 ? 'the fox '.repeat(99) : text));
    await expect(pool.embed(tooLong, { truncation: false })).rejects.toThrow(/^texts\[217\]/);
    expect((await pool.embed(mixed)).shape).toEqual([300, 24]);
  });

  test('stops, fails and is disposed of as one model', async () => {
    using pool = await heed.fromPretrained(tinyModel(), { workers: 2 });
    const stop = new AbortController();
    const onProgress = () => stop.abort(new Error('enough'));
    await expect(pool.embed(many, { signal: stop.signal, onProgress })).rejects.toThrow('enough');
    await expect(pool.embed(many, { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'AbortError' });
    await expect(pool.embed([...many.slice(0, 900), null as unknown as string])).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    expect((await pool.embed(texts)).shape).toEqual([3, 24]);
    expect(pool.disposed).toBe(false);
    pool.dispose();
    expect(pool.disposed).toBe(true);
    await expect(pool.embed(texts)).rejects.toMatchObject({ code: 'DISPOSED' });
    await expect(heed.fromPretrained({ 'config.json': '{}' }, { workers: 2 })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
    });
    await expect(heed.fromPretrained(tinyModel(), { workers: 0 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });
});
