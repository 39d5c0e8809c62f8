// Properties over thousands of calls and tens of runtimes: memory does not grow, undisposed objects are collected,
// rejected calls leave a working runtime, and concurrent calls, also during disposal, settle correctly. Runs with --expose-gc.
import { readFile } from 'node:fs/promises';
import { setImmediate as turn } from 'node:timers/promises';
import { type Heed, HeedError, load, type PretrainedModel } from 'heed';
import { beforeAll, describe, expect, it } from 'vitest';
import { tinyModel } from './models/tiny.js';

let bytes: Uint8Array<ArrayBuffer>;
beforeAll(async () => {
  bytes = new Uint8Array(await readFile(new URL('../../dist/heed-simd128.wasm', import.meta.url)));
});

/** A runtime that nothing else uses. */
function own(): Promise<Heed> {
  return load({ build: 'simd128', wasm: new Uint8Array(bytes) });
}

/** Bytes of JavaScript objects and buffers after garbage collection. Finalizers run between turns of the event loop. */
async function heap(): Promise<number> {
  for (let i = 0; i < 5; i++) {
    globalThis.gc!();
    await turn();
  }
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  return heapUsed + external + arrayBuffers;
}

const zeros = (...shape: number[]) => ({ data: new Float32Array(shape.reduce((a, b) => a * b, 1)), shape });

describe('memory', () => {
  it('is flat over 10,000 calls of mixed sizes, failures among them', async () => {
    using heed = await own();
    using mha = new heed.MultiHeadAttention({ embedDim: 32, numHeads: 4 });
    const round = (i: number) => {
      const [n, l] = [1 + (i % 3), 1 + ((i * 7) % 40)];
      mha.forward(zeros(n, l, 32), { returnWeights: i % 2 === 0, causal: i % 5 === 0 });
      heed.attention(zeros(l, 8), zeros(l + 3, 8), zeros(l + 3, 5));
      heed.softmax(zeros(l, 16));
      using layer = new heed.EncoderLayer({ embedDim: 32, numHeads: 2, feedForwardDim: 64 });
      layer.loadStateDict(layer.stateDict());
      layer.forward(zeros(n, l, 32));
      expect(() => mha.forward(zeros(n, l, 31))).toThrow(HeedError);
      expect(() => new heed.MultiHeadAttention({ embedDim: 32, numHeads: 5 })).toThrow(HeedError);
      expect(() => heed.positionalEncoding(2 ** 28, 7)).toThrow(HeedError);
    };
    for (let i = 0; i < 120; i++) round(i);
    const warm = heed.info.memoryBytes;
    const before = await heap();
    for (let i = 0; i < 1000; i++) round(i); // 10 calls each
    expect(heed.info.memoryBytes).toBe(warm);
    expect((await heap()) - before).toBeLessThan(1e6); // 100 bytes per call
  });

  it('is flat over 10,000 calls of a model', async () => {
    using heed = await own();
    using model = await heed.fromPretrained(tinyModel());
    const texts = ['the quick fox', 'x', '0123 , the '.repeat(5), ''];
    const round = async (i: number) => {
      await model.encode(texts.slice(0, 1 + (i % 4)), { outputAttentions: i % 3 === 0 });
      await model.embed(texts[i % 4]!);
      await model.tokenize(texts);
      // Not with expect(), which retains its argument.
      const refused = await model.embed('the '.repeat(99), { truncation: false }).catch((error: unknown) => error);
      if (!(refused instanceof HeedError)) throw refused;
    };
    for (let i = 0; i < 100; i++) await round(i);
    const warm = heed.info.memoryBytes;
    const before = await heap();
    for (let i = 0; i < 2500; i++) await round(i); // 4 calls each
    expect(heed.info.memoryBytes).toBe(warm);
    expect((await heap()) - before).toBeLessThan(1e6);
  });

  it('of layers and models that nobody disposed of comes back through the collector', async () => {
    using heed = await own();
    const files = tinyModel();
    const forget = async () => {
      new heed.Linear({ inFeatures: 1024, outFeatures: 1024 }).forward(zeros(1024)); // 4 MB
      await (await heed.fromPretrained(files)).embed('x');
    };
    for (let i = 0; i < 3; i++) await forget();
    await heap();
    const warm = heed.info.memoryBytes;
    for (let i = 0; i < 20; i++) {
      await forget();
      await heap();
    }
    // Without garbage collection, 20 layers would take 80 MB.
    expect(heed.info.memoryBytes - warm).toBeLessThan(10e6);
  });

  it('of the stack is given back by errors', async () => {
    using heed = await own();
    const message = 'expected a divisor';
    for (let i = 0; i < 20_000; i++) {
      try {
        if (i % 2) heed.attention([[1]], [[1, 2]], [[1]]);
        else new heed.MultiHeadAttention({ embedDim: 5, numHeads: 2 });
      } catch (error) {
        if ((error as HeedError).code === 'INTERNAL') throw error;
      }
    }
    expect(() => new heed.MultiHeadAttention({ embedDim: 5, numHeads: 2 })).toThrow(message);
    expect(heed.softmax([0, 0]).toArray()).toEqual([0.5, 0.5]);
  });

  it('of a large call serves the next layer', async () => {
    using heed = await own();
    heed.softmax(zeros(64, 1 << 20)); // 256 MB
    const peak = heed.info.memoryBytes;
    using layer = new heed.Linear({ inFeatures: 4096, outFeatures: 8192 }); // 128 MB
    expect(layer.parameterCount).toBe(4096 * 8192 + 8192);
    expect(heed.info.memoryBytes).toBe(peak);
  });
});

describe('runtimes', () => {
  it('come and go 50 times', async () => {
    const before = await heap();
    for (let i = 0; i < 50; i++) {
      const heed = await own();
      const layer = new heed.Encoder({ embedDim: 16, numHeads: 2, feedForwardDim: 32, numLayers: 2 });
      expect(layer.forward(zeros(2, 5, 16)).output.shape).toEqual([2, 5, 16]);
      heed.dispose();
    }
    // Fifty WebAssembly instances with their memories would take well over 50 MB.
    expect((await heap()) - before).toBeLessThan(5e6);
  });

  it('load and dispose of a model 50 times', async () => {
    using heed = await own();
    const files = tinyModel();
    const cycle = async (dtype: 'fp32' | 'q8') => {
      using model = await heed.fromPretrained(files, { dtype });
      expect((await model.embed('the fox')).shape).toEqual([1, 24]);
    };
    for (let i = 0; i < 5; i++) await cycle(i % 2 ? 'q8' : 'fp32');
    const warm = heed.info.memoryBytes;
    const before = await heap();
    for (let i = 0; i < 50; i++) await cycle(i % 2 ? 'q8' : 'fp32');
    expect(heed.info.memoryBytes).toBe(warm);
    expect((await heap()) - before).toBeLessThan(2e6);
  });

  it('load and dispose of a model in a worker 10 times', async () => {
    using heed = await own();
    const files = tinyModel();
    const cycle = async () => {
      using model = await heed.fromPretrained(files, { worker: true });
      expect((await model.embed('the fox')).shape).toEqual([1, 24]);
    };
    await cycle();
    const before = await heap();
    const threads = process.memoryUsage.rss();
    for (let i = 0; i < 10; i++) await cycle();
    expect((await heap()) - before).toBeLessThan(5e6);
    // Each worker that was not terminated would take some 35 MB.
    await expect.poll(() => process.memoryUsage.rss() - threads).toBeLessThan(150e6);
  });

  it('live side by side', async () => {
    using a = await own();
    using b = await own();
    const options = { embedDim: 8, numHeads: 2, seed: 1 };
    using first = new a.MultiHeadAttention(options);
    using second = new b.MultiHeadAttention(options);
    const x = { data: Float32Array.from({ length: 24 }, (_, i) => Math.sin(i)), shape: [3, 8] };
    expect(first.forward(x).output.data).toEqual(second.forward(x).output.data);
    first.dispose();
    expect(second.forward(x).output.shape).toEqual([3, 8]);
  });
});

describe('calls', () => {
  const many = Array.from({ length: 64 }, (_, i) => 'the quick brown fox '.repeat(1 + (i % 5)));

  async function eachPlace(body: (model: PretrainedModel, heed: Heed) => Promise<void>): Promise<void> {
    using heed = await own();
    for (const options of [{}, { worker: true }, { workers: 2 }]) {
      using model = await heed.fromPretrained(tinyModel(), options);
      await body(model, heed);
    }
  }

  it('at the same time get their own answers', () =>
    eachPlace(async (model) => {
      const alone: Float32Array[] = [];
      for (const text of many) alone.push((await model.embed(text)).data);
      const together = await Promise.all([
        ...many.map((text) => model.embed(text)),
        model.embed(many),
        model.encode(many.slice(0, 9), { outputAttentions: true }),
      ]);
      expect(together.slice(0, many.length).map((vector) => (vector as { data: Float32Array }).data)).toEqual(alone);
      expect((together[many.length] as { data: Float32Array }).data).toEqual(
        Float32Array.from(alone.flatMap((vector) => [...vector])),
      );
    }));

  it('that meet dispose() are refused, and others go on', () =>
    eachPlace(async (model, heed) => {
      using other = await heed.fromPretrained(tinyModel());
      const expected = (await other.embed(many)).data;
      const refused = expect.objectContaining({ name: 'HeedError', code: 'DISPOSED' });
      const pending = [model.embed(many), model.encode(many), model.tokenize(many)].map((call) =>
        call.then(
          () => 'answered',
          (error) => error as unknown,
        ),
      );
      const beside = other.embed(many);
      await turn();
      model.dispose();
      // Finished calls may have been answered. No call hangs, and no other error is thrown.
      for (const outcome of await Promise.all(pending)) if (outcome !== 'answered') expect(outcome).toEqual(refused);
      await expect(model.embed('x')).rejects.toEqual(refused);
      expect((await beside).data).toEqual(expected);
    }));

  it('that meet the end of their runtime are refused', async () => {
    const heed = await own();
    const model = await heed.fromPretrained(tinyModel());
    const pending = model.embed('the quick brown fox '.repeat(8).split('  '), {
      onProgress: () => heed.dispose(),
    });
    await pending.catch((error: unknown) => expect(error).toMatchObject({ code: 'DISPOSED' }));
    await expect(model.embed('x')).rejects.toMatchObject({ code: 'DISPOSED' });
    model.dispose();
  });
});
