/**
 * Pools of workers: files are read once for all workers, dead workers are replaced, and failed loads and disposed pools
 * leave no worker running.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import threads, { Worker } from 'node:worker_threads';
import { type FromPretrainedOptions, type HeedError, type LoadProgress, load } from 'heed';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { tinyModel } from './tiny.js';

const heed = await load();
const texts = Array.from({ length: 200 }, (_, i) => `the quick brown fox ${i}`);
const many = Array.from({ length: 20_000 }, (_, i) => `the quick brown fox ${i}`);
const original = Worker.prototype.postMessage;

/** The workers that heed started in this test. */
let started: Worker[] = [];
/** Scripts that replace heed's, by the index of the started worker. */
let scripts: Record<number, string> = {};
beforeEach(() => {
  started = [];
  scripts = {};
  vi.spyOn(threads, 'Worker').mockImplementation(function (this: unknown, ...given: unknown[]) {
    const script = scripts[started.length];
    const made =
      script === undefined
        ? new Worker(...(given as ConstructorParameters<typeof Worker>))
        : new Worker(script, { eval: true });
    started.push(made);
    return made;
  } as never);
});
afterEach(() => vi.restoreAllMocks());

const idle = 'setInterval(() => {}, 1000)';
/** Resolves when all workers of this test have ended. */
const allEnded = () =>
  Promise.all(started.map((worker) => (worker.threadId === -1 ? undefined : once(worker, 'exit'))));

describe('a worker of a pool that dies', () => {
  test('is replaced, and gets no calls until then', async () => {
    using here = await heed.fromPretrained(tinyModel());
    using pool = await heed.fromPretrained(tinyModel(), { workers: 2 });
    const expected = await here.embed(texts);
    await started[0]!.terminate();
    for (let i = 0; i < 4; i++) expect(await pool.embed('the fox')).toEqual(await here.embed('the fox'));
    expect(started).toHaveLength(3);
    // The new worker gives the same results; the old one has ended.
    await started[1]!.terminate();
    expect(await pool.embed(texts)).toEqual(expected);
    expect(await pool.embed(texts)).toEqual(expected);
    expect(started).toHaveLength(4);
    expect(pool.workers.count).toBe(2);
  });

  test('is replaced before the next call runs if it was the last one', async () => {
    using pool = await heed.fromPretrained(tinyModel(), { workers: 2 });
    const expected = await pool.embed(texts);
    await Promise.all(started.map((worker) => worker.terminate()));
    expect(await Promise.all([pool.embed(texts), pool.embed(texts)])).toEqual([expected, expected]);
    expect(started).toHaveLength(4);
  });

  test('rejects its pending calls, and no others', async () => {
    using pool = await heed.fromPretrained(tinyModel(), { workers: 2 });
    const [first, second] = [pool.tokenize(many), pool.tokenize(many)];
    await started[0]!.terminate();
    await expect(first).rejects.toMatchObject({ code: 'WORKER_FAILED' });
    expect((await second).inputIds).toHaveLength(many.length);
  });

  test('is not replaced if the files have changed', async () => {
    const files = tinyModel();
    const weights = files['model.safetensors'] as Uint8Array;
    const before = weights.slice();
    using pool = await heed.fromPretrained(files, { workers: 2 });
    const expected = await pool.embed(texts);
    weights.fill(0x3c, weights.length - 1000);
    await Promise.all(started.map((worker) => worker.terminate()));
    const message = expect.stringMatching(/source: the files have changed, .*\. Load the model again/);
    await expect(pool.embed('a')).rejects.toMatchObject({ code: 'INVALID_FILE', message });
    weights.set(before);
    expect(await pool.embed(texts)).toEqual(expected);
  });

  test('rejects calls with the reason if it cannot be replaced', async () => {
    using pool = await heed.fromPretrained(tinyModel(), { workers: 1 });
    scripts = { 1: 'process.exit(3)' };
    await started[0]!.terminate();
    await expect(pool.embed('a')).rejects.toMatchObject({
      code: 'WORKER_FAILED',
      message: expect.stringContaining('exit code 3'),
    });
    expect((await pool.embed('a')).shape).toEqual([1, 24]);
  });
});

describe('dispose()', () => {
  test('stops a replacement that is loading', async () => {
    const pool = await heed.fromPretrained(tinyModel(), { workers: 1 });
    await started[0]!.terminate();
    const pending = pool.embed('a');
    await expect.poll(() => started.length).toBe(2);
    pool.dispose();
    await expect(pending).rejects.toMatchObject({ code: 'DISPOSED' });
    expect(pool.disposed).toBe(true);
    await expect(pool.embed('a')).rejects.toMatchObject({ code: 'DISPOSED' });
    await allEnded();
    expect(started).toHaveLength(2);
  });

  test('in the turn in which a replacement has loaded ends its worker', async () => {
    const pool = await heed.fromPretrained(tinyModel(), { workers: 1 });
    await started[0]!.terminate();
    const pending = pool.embed('a').catch((error: unknown) => error);
    await expect.poll(() => started.length).toBe(2);
    // Called after heed's own listener, before what its promises lead to.
    started[1]!.on('message', ({ type, value }: { type: string; value?: unknown }) => {
      if (type === 'result' && !Array.isArray(value)) pool.dispose();
    });
    expect(await pending).toMatchObject({ code: 'DISPOSED' });
    expect(pool.disposed).toBe(true);
    await allEnded();
  });

  test.each([[{ worker: true }], [{ workers: 2 }]])(
    'of the runtime disposes of models with %o, loading or loaded',
    async (options) => {
      const own = await load();
      const loading = own.fromPretrained(tinyModel(), options);
      await expect.poll(() => started.length).toBeGreaterThan(0);
      own.dispose();
      await expect(loading).rejects.toMatchObject({ code: 'DISPOSED' });
      const other = await load();
      const model = await other.fromPretrained(tinyModel(), options);
      other.dispose();
      expect(model.disposed).toBe(true);
      await expect(model.embed('a')).rejects.toMatchObject({ code: 'DISPOSED' });
      await expect(other.fromPretrained(tinyModel(), options)).rejects.toMatchObject({ code: 'DISPOSED' });
      await allEnded();
    },
  );
});

describe('a load of a pool', () => {
  test('stops all workers if one fails', async () => {
    scripts = { 0: idle, 1: 'process.exit(3)' };
    await expect(heed.fromPretrained(tinyModel(), { workers: 3 })).rejects.toMatchObject({
      code: 'WORKER_FAILED',
      message: expect.stringContaining('exit code 3'),
    });
    await allEnded();
    expect(started).toHaveLength(3);
  });

  test('stops all workers when it is cancelled', async () => {
    scripts = { 1: idle };
    const stop = new AbortController();
    const loading = heed.fromPretrained(tinyModel(), { workers: 2, signal: stop.signal });
    await expect.poll(() => started.length).toBe(2);
    stop.abort(new Error('enough'));
    await expect(loading).rejects.toThrow('enough');
    await allEnded();
  });

  describe('from a server', () => {
    const files = tinyModel();
    let server: Server;
    let base: string;
    let requests: string[] = [];
    let broken = '';
    beforeAll(async () => {
      server = createServer((request, response) => {
        const name = request.url!.slice('/model/'.length);
        requests.push(name);
        const file = files[name];
        if (name === broken) response.writeHead(500).end();
        else if (file === undefined) response.writeHead(404).end();
        else response.end(typeof file === 'string' ? file : Buffer.from(file));
      });
      await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
      base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/model/`;
    });
    beforeEach(() => {
      requests = [];
      broken = '';
    });
    afterAll(() => server.close());

    test('fetches each file once and reports its progress once', async () => {
      using here = await heed.fromPretrained(files);
      const alone: LoadProgress[] = [];
      using _ = await heed.fromPretrained(base, { onProgress: (progress) => alone.push(progress) });
      const fetched = [...requests].sort();
      requests = [];
      const seen: LoadProgress[] = [];
      using pool = await heed.fromPretrained(base, { workers: 3, onProgress: (progress) => seen.push(progress) });
      expect([...requests].sort()).toEqual(fetched);
      expect(await pool.embed(texts)).toEqual(await here.embed(texts));
      const done = seen.map((progress) => progress.done);
      expect(done).toEqual([...new Set(done)].sort((a, b) => a - b));
      expect(seen.at(-1)).toEqual(alone.at(-1));
      expect(seen.at(-1)!.done).toBe(seen[0]!.total);
      // Replacements read the files again.
      await started[0]!.terminate();
      await started[1]!.terminate();
      await started[2]!.terminate();
      expect(await pool.embed(texts)).toEqual(await here.embed(texts));
    });

    test('checks integrity', async () => {
      const digest = createHash('sha256')
        .update(files['model.safetensors'] as Uint8Array)
        .digest('hex');
      const open = (integrity: Record<string, string>) => heed.fromPretrained(base, { workers: 2, integrity });
      using pool = await open({ 'model.safetensors': `sha256-${digest}` });
      expect((await pool.embed('a')).shape).toEqual([1, 24]);
      await expect(open({ 'model.safetensors': `sha256-${'0'.repeat(64)}` })).rejects.toMatchObject({
        code: 'INVALID_FILE',
      });
      await expect(open({ 'model.safetensor': `sha256-${digest}` })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
      });
    });

    test('rejects with the first error', async () => {
      broken = 'model.safetensors';
      await expect(heed.fromPretrained(base, { workers: 2 })).rejects.toMatchObject({ code: 'NETWORK' });
      await expect(heed.fromPretrained(`${base}none/`, { workers: 2 })).rejects.toMatchObject({
        code: 'NOT_FOUND',
        message: expect.stringContaining('none/config.json'),
      });
      const onProgress = () => {
        throw new Error('enough of it');
      };
      broken = '';
      await expect(heed.fromPretrained(base, { workers: 2, onProgress })).rejects.toThrow('enough of it');
      await allEnded();
    });
  });

  test('copies large files chunk by chunk', async () => {
    // A view of a larger buffer, which a structured clone would copy completely.
    const files = tinyModel();
    const weights = files['model.safetensors'] as Uint8Array;
    const large = new Uint8Array(2 ** 26);
    large.set(weights, 100);
    const source = { ...files, 'model.safetensors': large.subarray(100, 100 + weights.length) };
    let most = 0;
    const post = vi.spyOn(Worker.prototype, 'postMessage').mockImplementation(function (this: Worker, ...given) {
      const { value } = given[0] as { value?: unknown };
      if (value instanceof Uint8Array) most = Math.max(most, value.buffer.byteLength);
      return original.apply(this, given);
    });
    using pool = await heed.fromPretrained(source, { workers: 2 });
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(2 ** 20);
    post.mockRestore();
    expect((await pool.embed('a')).shape).toEqual([1, 24]);
  });
});

describe('options', () => {
  const worker = new Worker(idle, { eval: true });
  afterAll(() => worker.terminate());
  const cases: [string, object, RegExp][] = [
    ['threads', { threads: 2 }, /expected one of .*\bworkers\b.*, got the unknown option 'threads'/],
    ['no workers', { workers: 0 }, /workers: expected 'auto' or an integer from 1 to 64, got 0/],
    ['too many workers', { workers: 65 }, /workers: expected .*, got 65/],
    ['a string', { workers: 'all' }, /workers: expected .*, got 'all'/],
    [
      'workers beside worker: false',
      { workers: 2, worker: false },
      /worker: expected true or undefined with `workers`, got false/,
    ],
    [
      'workers beside a Worker',
      { workers: 2, worker },
      /worker: expected true or undefined with `workers`, got a Worker/,
    ],
    [
      'an object that is not a Worker',
      { worker: { postMessage() {} } },
      /worker: expected true, false or a Worker, got an object/,
    ],
  ];
  test.each(cases)('%s', async (_, options, message) => {
    await expect(heed.fromPretrained(tinyModel(), options as FromPretrainedOptions)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(message),
    });
    expect(started).toHaveLength(0);
  });

  test('workers with worker: true is a pool', async () => {
    using pool = await heed.fromPretrained(tinyModel(), { workers: 2, worker: true });
    expect(pool.workers).toEqual({ count: 2, reason: 'asked for' });
  });

  test('errors have the index of the text in the call', async () => {
    using pool = await heed.fromPretrained(tinyModel(), { workers: 2 });
    const list = texts.map((text, i) => (i === 150 ? 'a '.repeat(99) : text));
    await expect(pool.embed(list, { truncation: false })).rejects.toMatchObject({
      code: 'TOO_LONG',
      message: expect.stringMatching(/^texts\[150\]: expected at most \d+ tokens, got 101/),
    });
  });

  test('textPairs that are no texts are refused as by a model in the page', async () => {
    using pool = await heed.fromPretrained(tinyModel(), { workers: 2 });
    const hostile = new Proxy(['a', 'b'], {
      get: () => {
        throw new TypeError('hostile');
      },
    });
    for (const textPairs of [hostile, [1, 2]] as unknown as string[][])
      await expect(pool.embed(texts, { textPairs })).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: expect.stringMatching(/^embed\.textPairs/),
      });
  });

  test('textPairs and masks must be as long as the texts', async () => {
    using pool = await heed.fromPretrained(tinyModel(), { workers: 2 });
    await expect(pool.embed(texts, { textPairs: [...texts, 'a'] })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    const inputIds = texts.map(() => [2, 5, 3]);
    const attentionMask = [...inputIds, [1, 1, 1]].map(() => [1, 1, 1]);
    await expect(pool.embed({ inputIds, attentionMask })).rejects.toMatchObject({ code: 'SHAPE_MISMATCH' });
  });
});

describe('a Worker of the caller', () => {
  const script = new URL('./worker.js', import.meta.resolve('heed'));

  test('runs one model', async () => {
    const worker = new Worker(script);
    using model = await heed.fromPretrained(tinyModel(), { worker });
    await expect(heed.fromPretrained(tinyModel(), { worker })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(
        'expected a Worker that runs no other model, got a Worker that was given before',
      ),
    });
    expect((await model.embed('a')).shape).toEqual([1, 24]);
  });

  test('that has ended is rejected', async () => {
    const worker = new Worker(script);
    await worker.terminate();
    await expect(heed.fromPretrained(tinyModel(), { worker })).rejects.toMatchObject({ code: 'WORKER_FAILED' });
  });

  test('that runs out of memory rejects the load with the reason', async () => {
    const worker = new Worker(
      `require('node:worker_threads').parentPort.once('message', () => { const all = []; for (;;) all.push(new Array(1e5).fill(0.5)); })`,
      { eval: true, resourceLimits: { maxOldGenerationSizeMb: 16 } },
    );
    const error = (await heed.fromPretrained(tinyModel(), { worker }).catch((e) => e)) as HeedError;
    expect(error).toMatchObject({ code: 'WORKER_FAILED', message: expect.stringContaining('memory limit') });
    expect(error.cause).toMatchObject({ code: 'ERR_WORKER_OUT_OF_MEMORY' });
  });
});

test('errors keep their cause and stack', async () => {
  const files = {
    ...tinyModel(),
    'tokenizer.json': '{ "model": { "type": "WordLevel", "vocab": { "a": 0 } }, "added_tokens": [null] }',
  };
  const caught = async (options: object) => (await heed.fromPretrained(files, options).catch((e) => e)) as HeedError;
  const here = await caught({});
  expect(here.cause).toBeInstanceOf(Error);
  for (const options of [{ worker: true }, { workers: 2 }]) {
    const there = await caught(options);
    expect(there).toMatchObject({ name: 'HeedError', code: 'INVALID_FILE', message: here.message });
    expect(there.cause).toBeInstanceOf(Error);
    expect((there.cause as Error).message).toBe((here.cause as Error).message);
    expect((there.cause as Error).stack).toMatch(/dist\/[\w-]+\.js/);
    expect(there.stack).toMatch(/dist\/[\w-]+\.js/);
  }
});
