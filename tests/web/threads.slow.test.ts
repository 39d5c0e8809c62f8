/** Shared-memory threads in Node: the same bits for any number of them, and what happens when they cannot start or end. */

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import * as workerThreads from 'node:worker_threads';
import { type Heed, type LoadOptions, load } from 'heed';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { bertFiles, idsOf } from './models/bert-files.js';
import { tinyModel } from './models/tiny.js';

const bytes = readFileSync(new URL('../../dist/heed-simd128.wasm', import.meta.url));
const threadBytes = readFileSync(new URL('../../dist/heed-threads-simd128.wasm', import.meta.url));
/**
 * The module from which heed gets Node's workers, as a mutable object; the namespace of an import cannot be modified.
 */
const host = process.getBuiltinModule('node:worker_threads');
const { Worker } = workerThreads;

const restore: (() => void)[] = [];
afterEach(() => {
  vi.unstubAllGlobals();
  for (const each of restore.splice(0).reverse()) each();
});

/** Replaces a property until the end of the test. */
function replace<T extends object>(owner: T, key: keyof T, value: unknown): void {
  const before = owner[key];
  owner[key] = value as T[keyof T];
  restore.push(() => {
    owner[key] = before;
  });
}

/** A runtime that nothing else uses. */
const own = (threads: number | 'auto', options: LoadOptions = {}) =>
  load({ build: 'simd128', wasm: new Uint8Array(threadBytes), threads, ...options });

/** Lets all of 16 threads take part in calls on any machine; otherwise only as many threads as cores do. */
const pretendCores = () => replace(process.getBuiltinModule('node:os'), 'availableParallelism', () => 16);

/** Collects the workers that are started from here on. */
function watchWorkers(): workerThreads.Worker[] {
  const started: workerThreads.Worker[] = [];
  replace(
    host,
    'Worker',
    class extends Worker {
      constructor(...given: ConstructorParameters<typeof Worker>) {
        super(...given);
        started.push(this);
      }
    },
  );
  return started;
}

const wave = (...shape: number[]) => ({
  data: Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => Math.sin(1 + i * i)),
  shape,
});

/** A digest of all tensors in a result, because comparing them number by number takes minutes. */
function digest(value: unknown): string {
  const hash = createHash('sha256');
  const add = (each: unknown): void => {
    if (each instanceof Float32Array) hash.update(each);
    else if (typeof each === 'object' && each !== null) for (const part of Object.values(each)) add(part);
    else hash.update(String(each));
  };
  add(value);
  return hash.digest('hex');
}

const sizes = { width: 192, inner: 400, heads: 6, layers: 2, vocab: 50, positions: 300 };
const files = bertFiles(sizes);
const batches = [[1], [16], [128], [3, 90, 1, 41], [300, 7, 64, 150, 2]].map((lengths) => idsOf(lengths, sizes.vocab));

describe('results', () => {
  for (const build of ['simd128', 'relaxed-simd'] as const) {
    test.each(['fp32', 'q8'] as const)(`are the same bits for any number of threads (${build}, %s)`, async (dtype) => {
      pretendCores();
      const run = async (threads: number) => {
        using heed = await load({ build, threads });
        expect(heed.info.threads).toBe(threads);
        const model = await heed.fromPretrained(files, { dtype });
        const digests = [];
        for (const inputIds of batches)
          digests.push(digest(await model.encode({ inputIds }, { outputAttentions: true })));
        return digests;
      };
      const expected = await run(1);
      for (const threads of [2, 3, 4, 8, 16]) expect(await run(threads)).toEqual(expected);
    });
  }

  test('of layers and functions are the same bits for any number of threads', async () => {
    pretendCores();
    const run = async (threads: number) => {
      using heed = await own(threads);
      const options = { embedDim: 128, numHeads: 2, feedForwardDim: 256, dropout: 0.1, seed: 5 };
      const encoder = new heed.Encoder({ ...options, numLayers: 2 });
      const transformer = new heed.Transformer({ ...options, numEncoderLayers: 1, numDecoderLayers: 1 });
      const linear = new heed.Linear({ inFeatures: 128, outFeatures: 600, activation: 'gelu', seed: 1 });
      for (const layer of [encoder, transformer]) layer.train();
      const x = wave(2, 77, 128);
      return [
        encoder.forward(x, { returnWeights: true }),
        transformer.forward(x, wave(2, 60, 128), { causal: true }),
        linear.forward(x),
        linear.forward(wave(9, 128)),
        heed.attention(wave(500, 24), wave(301, 24), wave(301, 40), { returnWeights: true }),
        heed.linear(x, { weight: wave(500, 128) }),
      ].map(digest);
    };
    const expected = await run(1);
    for (const threads of [2, 3, 4, 8]) expect(await run(threads)).toEqual(expected);
  });

  test('are right over thousands of calls, with more threads than cores', async () => {
    for (const [threads, pretends] of [
      [2, false],
      [16, false],
      [16, true],
    ] as const) {
      if (pretends) pretendCores();
      using heed = await own(threads);
      const linear = new heed.Linear({ inFeatures: 256, outFeatures: 256, seed: 2 });
      const mha = new heed.MultiHeadAttention({ embedDim: 32, numHeads: 4, seed: 3 });
      const inputs = [wave(8, 256), wave(40, 256), wave(2, 20, 32)] as const;
      const call = (i: number) =>
        i % 3 < 2 ? linear.forward(inputs[i % 3]!).data : mha.forward(inputs[2]).output.data;
      const expected = [0, 1, 2].map(call);
      for (let i = 0; i < 5000; i++) {
        const got = call(i);
        if (i % 100 < 3) expect(digest(got)).toBe(digest(expected[i % 3]));
      }
    }
  });
});

describe('info', () => {
  test('says how many threads run, and why', async () => {
    const info = async (options: LoadOptions) => {
      using heed = await load(options);
      return [heed.info.threads, heed.info.threadsReason];
    };
    expect(await info({})).toEqual([1, 'the default']);
    expect(await info({ threads: 1 })).toEqual([1, 'asked for']);
    expect(await info({ threads: 3 })).toEqual([3, 'asked for']);
    const [auto, reason] = await info({ threads: 'auto' });
    expect(auto).toBeGreaterThanOrEqual(1);
    expect(auto).toBeLessThanOrEqual(4);
    expect(reason).toMatch(/^\d+ cores/);
  });

  test.each([0, -1, 1.5, 17, Number.NaN, '2', true, {}])('refuses %o', async (threads) => {
    await expect(load({ threads } as object)).rejects.toMatchObject({
      name: 'HeedError',
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/^load\.threads: expected 'auto' or an integer from 1 to 16, got /),
    });
  });

  test('shares an instance only among calls with as many threads', async () => {
    using one = await load({ build: 'simd128' });
    using two = await load({ build: 'simd128', threads: 2 });
    using again = await load({ build: 'simd128', threads: 2 });
    const before = [one, two, again].map(({ info }) => info.memoryBytes);
    new two.Linear({ inFeatures: 2048, outFeatures: 2048 });
    expect([one, two, again].map(({ info }, i) => info.memoryBytes > before[i]!)).toEqual([false, true, true]);
  });
});

/** Checks that the runtime computes. */
function works(heed: Heed): void {
  const linear = new heed.Linear({ inFeatures: 64, outFeatures: 64, seed: 1 });
  expect(linear.forward(wave(200, 64)).shape).toEqual([200, 64]);
}

describe('one thread runs, and info says why', () => {
  const alone = async (reason: string | RegExp, options: LoadOptions = {}) => {
    using heed = await load({ threads: 2, ...options });
    expect(heed.info.threads).toBe(1);
    expect(heed.info.threadsReason).toMatch(reason);
    works(heed);
  };

  test('in a page that is not isolated', async () => {
    vi.stubGlobal('crossOriginIsolated', false);
    await alone('the page is not cross-origin isolated');
  });

  test('without SharedArrayBuffer', async () => {
    vi.stubGlobal('SharedArrayBuffer', undefined);
    await alone('the engine has no SharedArrayBuffer');
  });

  test('where the engine does not allow shared memory', async () => {
    const { Memory } = WebAssembly;
    replace(
      WebAssembly,
      'Memory',
      class extends Memory {
        constructor(descriptor: WebAssembly.MemoryDescriptor) {
          if (descriptor.shared) throw new RangeError('could not allocate memory');
          super(descriptor);
        }
      },
    );
    await alone('the engine does not allow shared memory');
  });

  test('with a module for one thread', async () => {
    await alone('the given module is a build without threads', { build: 'simd128', wasm: bytes });
  });

  test('where threads cannot start', async () => {
    replace(
      host,
      'Worker',
      class {
        constructor() {
          throw new Error('no more workers');
        }
      },
    );
    await alone(/^a thread could not start \(.*no more workers/, {
      wasm: new Uint8Array(threadBytes),
      build: 'simd128',
    });
    replace(
      host,
      'Worker',
      class extends Worker {
        constructor() {
          super('process.exit(3)', { eval: true });
        }
      },
    );
    await alone(/^a thread could not start \(.*exit code 3/, { wasm: new Uint8Array(threadBytes), build: 'simd128' });
  });
});

describe('threads', () => {
  test('end when the last user disposes', async () => {
    const workers = watchWorkers();
    const wasm = new Uint8Array(threadBytes);
    const [first, second] = [await own(3, { wasm }), await own(3, { wasm })];
    expect(workers).toHaveLength(2);
    const ended = Promise.all(workers.map((worker) => once(worker, 'exit')));
    first.dispose();
    works(second);
    second.dispose();
    await ended;
  });

  test('that end are replaced, and calls go on meanwhile', async () => {
    const workers = watchWorkers();
    using heed = await own(3);
    const linear = new heed.Linear({ inFeatures: 256, outFeatures: 256, seed: 2 });
    const x = wave(60, 256);
    const expected = digest(linear.forward(x));
    for (const all of [false, true]) {
      const before = workers.length;
      const ending = all ? workers.slice(-2) : [workers[0]!];
      await Promise.all(ending.map((worker) => worker.terminate()));
      expect(digest(linear.forward(x))).toBe(expected);
      await expect.poll(() => [workers.length - before, heed.info.threads]).toEqual([ending.length, 3]);
      for (let i = 0; i < 200; i++) expect(digest(linear.forward(x))).toBe(expected);
    }
  });

  test('do not keep the process alive', async () => {
    const script = `
      const { load } = await import(${JSON.stringify(import.meta.resolve('heed'))});
      const heed = await load({ threads: 2 });
      console.log(heed.info.threads);`;
    const { execFile } = await import('node:child_process');
    const { promisify } = await import('node:util');
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
    expect(stdout.trim()).toBe('2');
  });

  test('belong to the worker of a model', async () => {
    const workers = watchWorkers();
    using heed = await own(2);
    using alone = await own(1);
    const here = await alone.fromPretrained(files);
    const there = await heed.fromPretrained(files, { worker: true });
    expect(workers).toHaveLength(2); // the thread here, and the worker, which starts its own
    const inputIds = batches[3]!;
    expect(digest(await there.encode({ inputIds }))).toBe(digest(await here.encode({ inputIds })));
    const pool = await heed.fromPretrained(tinyModel(), { workers: 2 });
    expect((await pool.embed(['the fox', 'a'])).shape).toEqual([2, 24]);
  });

  test('leave a usable runtime after a call that memory does not suffice for', async () => {
    using heed = await own(2);
    const before = heed.info.memoryBytes;
    const refused = expect.objectContaining({ code: 'OUT_OF_MEMORY' });
    expect(() => heed.attention(wave(40_000, 1), wave(40_000, 1), wave(40_000, 1), { returnWeights: true })).toThrow(
      refused,
    );
    works(heed);
    const linear = new heed.Linear({ inFeatures: 1024, outFeatures: 4096, seed: 1 });
    expect(linear.forward(wave(2000, 1024)).shape).toEqual([2000, 4096]);
    expect(heed.info.memoryBytes).toBeGreaterThan(before);
  });
});
