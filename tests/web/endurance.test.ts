import { readFile } from 'node:fs/promises';
import { type Heed, HeedError, type Linear, load } from 'heed';
import { beforeAll, describe, expect, it } from 'vitest';

let bytes: Uint8Array<ArrayBuffer>;
beforeAll(async () => {
  bytes = new Uint8Array(await readFile(new URL('../../dist/heed-simd128.wasm', import.meta.url)));
});

/** A runtime that nothing else uses. */
function own(): Promise<Heed> {
  return load({ build: 'simd128', wasm: new Uint8Array(bytes) });
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
    for (let i = 0; i < 1000; i++) round(i); // 10 calls each
    expect(heed.info.memoryBytes).toBe(warm);
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

  it('that was refused leaves a working runtime', async () => {
    using heed = await own();
    using layer = new heed.Linear({ inFeatures: 4, outFeatures: 4 });
    const before = layer.forward([1, 2, 3, 4]).data;
    // Each fits 32-bit addresses alone; together they do not fit 4 GB.
    const held: Linear[] = [];
    expect(() => {
      for (let i = 0; i < 64; i++) held.push(new heed.Linear({ inFeatures: 16384, outFeatures: 16384, bias: false }));
    }).toThrow(expect.objectContaining({ name: 'HeedError', code: 'OUT_OF_MEMORY' }));
    expect(layer.forward([1, 2, 3, 4]).data).toEqual(before);
    for (const linear of held) linear.dispose();
    using again = new heed.Linear({ inFeatures: 1024, outFeatures: 1024 });
    expect(again.forward(zeros(1024)).shape).toEqual([1024]);
  }, 120_000);

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
    const before = process.memoryUsage().external;
    for (let i = 0; i < 50; i++) {
      const heed = await own();
      const layer = new heed.Encoder({ embedDim: 16, numHeads: 2, feedForwardDim: 32, numLayers: 2 });
      expect(layer.forward(zeros(2, 5, 16)).output.shape).toEqual([2, 5, 16]);
      heed.dispose();
    }
    // Fifty modules with their memories would be well over 50 MB; the collector need not have run for each, but it can.
    globalThis.gc?.();
    if (globalThis.gc) expect(process.memoryUsage().external - before).toBeLessThan(20e6);
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
