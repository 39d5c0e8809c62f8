/** The package in Firefox and WebKit: the same bits as in Node, in the page, in workers and on threads; training; the cache. */
import { load } from 'heed';
import * as training from 'heed/train';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bertFiles } from '../web/models/bert-files.js';
import { isolation, serveHeed } from '../web/models/site.js';
import { type Engine, engines } from './engines.mjs';

type Api = typeof import('heed');

const files = bertFiles({ width: 32, inner: 64, heads: 2, layers: 1, vocab: 50, positions: 64 });
const texts = ['The cat sat on the mat.', 'Winter is coming', 'naïve café 🙂 東京', ''];

/** Vectors of the shipped model in Node, in the SIMD128 build, whose results do not depend on the processor. */
async function vectorsInNode(dtype: 'fp32' | 'q8'): Promise<number[]> {
  using heed = await load({ build: 'simd128' });
  using model = await heed.fromPretrained(undefined, { dtype });
  return [...(await model.embed(texts)).data];
}

/** The losses of some epochs, in the thread that calls and in a worker. Runs in Node and in pages, where `training` is the module. */
async function train(): Promise<number[]> {
  const { training } = globalThis as unknown as { training: typeof import('heed/train') };
  const heed = await training.load({ build: 'simd128' });
  const measured: number[] = [];
  const inputs = Array.from({ length: 32 }, (_, i) => [i % 10, (3 * i) % 10, (7 * i + 1) % 10]);
  const labels = inputs.map((row) => [...row].reverse());
  for (const worker of [false, true]) {
    const model = new heed.Sequential(
      [
        new heed.Embedding({ numEmbeddings: 10, embedDim: 16 }),
        new heed.Encoder({ embedDim: 16, numHeads: 2, feedForwardDim: 32, numLayers: 1, dropout: 0.1 }),
        new heed.Linear({ inFeatures: 16, outFeatures: 10 }),
      ],
      { seed: 1 },
    );
    const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 5e-3 });
    const options = { loss: 'crossEntropy' as const, optimizer, epochs: 4, batchSize: 8, seed: 2, worker };
    const { loss } = await model.fit({ inputs, labels }, options);
    measured.push(...loss);
  }
  heed.dispose();
  return measured;
}

describe.each(Object.keys(engines) as (keyof typeof engines)[])('%s', (name) => {
  let engine: Engine;
  let plain: Awaited<ReturnType<typeof serveHeed>>;
  let isolated: typeof plain;
  beforeAll(async () => {
    engine = await engines[name]();
    plain = await serveHeed((path, _, response) => {
      const file = files[path.replace('bert/', '')];
      if (file) response.end(file);
      return file !== undefined;
    });
    isolated = await serveHeed(() => false, { headers: isolation });
  });
  afterAll(async () => {
    await engine?.close();
    plain?.close();
    isolated?.close();
  });

  /** Embeds the texts in a page. */
  const embed = async (origin: string, load: object, fromPretrained: object) => {
    await engine.goto(`${origin}/`);
    return engine.evaluate(
      async ({ load, fromPretrained, texts }) => {
        const { load: start } = (await import('/index.js' as string)) as Api;
        const heed = await start(load);
        const model = await heed.fromPretrained(undefined, fromPretrained);
        const vectors = [...(await model.embed(texts)).data];
        const { info } = heed;
        heed.dispose();
        return { vectors, info };
      },
      { load, fromPretrained, texts },
    );
  };

  test('says which build runs, and why', async () => {
    const { info } = await embed(plain.origin, {}, {});
    expect(info.reason).toBe(`the engine has ${info.build === 'simd128' ? 'no ' : ''}relaxed SIMD`);
    expect(info).toMatchObject({ threads: 1, threadsReason: 'the default' });
  });

  test.each(['fp32', 'q8'] as const)('has the same bits as Node (%s)', async (dtype) => {
    const expected = await vectorsInNode(dtype);
    for (const where of [{}, { worker: true }, { workers: 2 }]) {
      const { vectors } = await embed(plain.origin, { build: 'simd128' }, { dtype, ...where });
      expect(vectors).toEqual(expected);
    }
  });

  test('runs threads in an isolated page if it has shared memory, with the same bits', async () => {
    const expected = await vectorsInNode('fp32');
    await engine.goto(`${isolated.origin}/`);
    const shared = await engine.evaluate(async () => typeof SharedArrayBuffer === 'function', null); // not in WebKitGTK 2.50
    const threads = shared
      ? { threads: 2, threadsReason: 'asked for' }
      : { threads: 1, threadsReason: 'the engine has no SharedArrayBuffer' };
    for (const where of [{}, { worker: true }]) {
      const { vectors, info } = await embed(
        isolated.origin,
        { build: 'simd128', threads: 2 },
        { dtype: 'fp32', ...where },
      );
      expect(info).toMatchObject(threads);
      expect(vectors).toEqual(expected);
    }
  });

  test('runs one thread in a page that is not isolated, and says so', async () => {
    const { info } = await embed(plain.origin, { threads: 2 }, {});
    expect(info).toMatchObject({ threads: 1, threadsReason: 'the page is not cross-origin isolated' });
  });

  test('trains with the same bits as Node', async () => {
    Object.assign(globalThis, { training });
    const expected = await train();
    await engine.goto(`${plain.origin}/`);
    await engine.evaluate(async () => {
      Object.assign(globalThis, { training: await import('/train.js' as string) });
      return null;
    }, null);
    const measured = await engine.evaluate(train, null);
    expect(measured).toEqual(expected);
    expect(measured.at(-1)).toBeLessThan(measured[0]!);
  });

  test('keeps a model in the cache', async () => {
    await engine.goto(`${plain.origin}/`);
    const keys = await engine.evaluate(async (url) => {
      const { load } = (await import('/index.js' as string)) as Api;
      const heed = await load();
      const model = await heed.fromPretrained(url, { cache: true });
      model.dispose();
      const names = await caches.keys();
      const all = await Promise.all(names.map(async (name) => (await caches.open(name)).keys()));
      return all.flat().map((request) => request.url);
    }, `${plain.origin}/models/bert/`);
    expect(keys.join(' ')).toContain('/models/bert/model.safetensors');
  });
});
