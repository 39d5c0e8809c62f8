/**
 * The limits on WebAssembly memory in docs/loading.md, in bytes, which do not depend on the machine; and that attention
 * weights take no memory unless requested.
 */
import { readFile } from 'node:fs/promises';
import { type Heed, load, type Tensor } from 'heed';
import { beforeAll, describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../web/src/io/safetensors.js';

let bytes: Uint8Array<ArrayBuffer>;
beforeAll(async () => {
  bytes = new Uint8Array(await readFile(new URL('../../dist/heed-simd128.wasm', import.meta.url)));
});

/** A runtime whose memory nothing else has used. */
function own(): Promise<Heed> {
  return load({ build: 'simd128', wasm: new Uint8Array(bytes) });
}

interface Size {
  width: number;
  layers: number;
  heads: number;
  words: number;
  positions: number;
}

/** Pseudorandom numbers from -0.1 to 0.1, the same on every machine. */
function draws(count: number, seed: number): Float32Array {
  const drawn = new Float32Array(count);
  let state = seed;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    drawn[i] = (state / 2 ** 32 - 0.5) / 5;
  }
  return drawn;
}

/** A BERT of this size in fp32. */
function bert({ width, layers, heads, words, positions }: Size): Record<string, string | Uint8Array> {
  const tensors: { name: string; dtype: 'F32'; shape: number[]; data: Float32Array }[] = [];
  const add = (name: string, ...shape: number[]) => {
    const data = draws(
      shape.reduce((a, b) => a * b, 1),
      tensors.length,
    );
    tensors.push({ name, dtype: 'F32', shape, data });
  };
  const dense = (name: string, out: number, inner: number) => {
    add(`${name}.weight`, out, inner);
    add(`${name}.bias`, out);
  };
  const norm = (name: string) => {
    add(`${name}.weight`, width);
    add(`${name}.bias`, width);
  };
  add('embeddings.word_embeddings.weight', words, width);
  add('embeddings.position_embeddings.weight', positions, width);
  add('embeddings.token_type_embeddings.weight', 2, width);
  norm('embeddings.LayerNorm');
  for (let i = 0; i < layers; i++) {
    const layer = `encoder.layer.${i}`;
    for (const part of ['self.query', 'self.key', 'self.value', 'output.dense'])
      dense(`${layer}.attention.${part}`, width, width);
    norm(`${layer}.attention.output.LayerNorm`);
    dense(`${layer}.intermediate.dense`, 4 * width, width);
    dense(`${layer}.output.dense`, width, 4 * width);
    norm(`${layer}.output.LayerNorm`);
  }
  const config = {
    model_type: 'bert',
    vocab_size: words,
    hidden_size: width,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    intermediate_size: 4 * width,
    max_position_embeddings: positions,
    type_vocab_size: 2,
    hidden_act: 'gelu',
    layer_norm_eps: 1e-12,
  };
  return { 'config.json': JSON.stringify(config), 'model.safetensors': writeSafetensors(tensors) };
}

const texts = (count: number, length: number) => ({
  inputIds: Array.from({ length: count }, (_, n) => Array.from({ length }, (_, i) => (7 * i + n) % 100)),
});

test('memory grows by at most 2 MB more than is needed', async () => {
  using heed = await own();
  const start = heed.info.memoryBytes;
  const bytesOf = 4 * 512 * 513;
  const layers = [];
  for (let count = 1; count <= 100; count++) {
    layers.push(new heed.Linear({ inFeatures: 512, outFeatures: 512 }));
    expect(heed.info.memoryBytes - start).toBeLessThan(1.01 * count * bytesOf + 3 * 2 ** 20);
  }
});

describe('memory', () => {
  const sizes: [string, Size][] = [
    ['4 layers of width 256', { width: 256, layers: 4, heads: 8, words: 8000, positions: 512 }],
    ['3 layers of width 384', { width: 384, layers: 3, heads: 12, words: 9000, positions: 512 }],
    ['1 layer of width 768', { width: 768, layers: 1, heads: 12, words: 10_000, positions: 512 }],
  ];
  const MB = 1e6;

  describe.each(sizes)('%s', (_, size) => {
    const files = bert(size);
    const stored = files['model.safetensors']!.length;

    test.each([
      ['fp32', 1.25],
      ['q8', 0.35],
    ] as const)(
      '%s: at most %d of what is stored in fp32, and 64 bytes a token and unit of width',
      async (dtype, factor) => {
        using heed = await own();
        // Read while the file arrives in chunks. A temporary second copy would be visible, because the memory never
        // shrinks.
        const sizes = new Set<number>();
        const onProgress = ({ file }: { file: { name: string } }) => {
          if (file.name === 'model.safetensors') sizes.add(heed.info.memoryBytes);
        };
        using model = await heed.fromPretrained(files, { dtype, onProgress });
        const loaded = heed.info.memoryBytes;
        expect(loaded).toBeLessThan(factor * stored + 64 * 512 * size.width);
        // The memory has this size before the first weights arrive, and does not grow.
        expect([...sizes]).toEqual([loaded]);
        for (const [count, length] of [
          [1, 16],
          [3, 128],
          [1, 512],
          [200, 7],
        ] as const)
          await model.encode(texts(count, length), { outputHiddenStates: true });
        await model.embed(texts(4, 512));
        const used = heed.info.memoryBytes;
        expect(used).toBe(loaded);
        // The memory suffices for loading the model again and for other texts.
        model.dispose();
        using again = await heed.fromPretrained(files, { dtype });
        await again.embed(texts(2, 512));
        expect(heed.info.memoryBytes).toBe(used);
      },
    );
  });

  test('of an empty runtime is 1 MB', async () => {
    using heed = await own();
    expect(heed.info.memoryBytes).toBeLessThanOrEqual(1.1 * MB);
  });
});

describe('attention weights that nobody asked for take no memory, and nothing else differs', () => {
  const [heads, length] = [8, 1536];
  const taken = 4 * heads * length * length; // [H, L, L] of one text and one layer: 75 MB

  /** Runs `call` without and with the weights, each in a separate instance. */
  async function expectFree(
    call: (heed: Heed, weights: boolean) => Promise<{ output: Tensor; weights: Tensor | undefined }>,
  ) {
    using without = await own();
    const start = without.info.memoryBytes;
    const off = await call(without, false);
    expect(off.weights).toBeUndefined();
    expect(without.info.memoryBytes - start).toBeLessThan(taken / 4);
    using within = await own();
    const on = await call(within, true);
    expect(on.weights!.data.length).toBe(taken / 4);
    expect(within.info.memoryBytes - start).toBeGreaterThan(taken); // the measurement would detect it
    expect(off.output).toEqual(on.output);
  }
  const rows = (width: number) => ({ data: draws(length * width, 3), shape: [length, width] });

  test('attention', () =>
    expectFree(async (heed, returnWeights) => {
      const x = { data: draws(heads * length * 8, 3), shape: [heads, length, 8] };
      const { output, weights } = heed.attention(x, x, x, { returnWeights });
      return { output, weights };
    }));

  test('MultiHeadAttention', () =>
    expectFree(async (heed, returnWeights) => {
      const layer = new heed.MultiHeadAttention({ embedDim: 64, numHeads: heads, seed: 1 });
      const { output, weights } = layer.forward(rows(64), { returnWeights });
      return { output, weights };
    }));

  test('Encoder', () =>
    expectFree(async (heed, returnWeights) => {
      const options = { embedDim: 64, numHeads: heads, feedForwardDim: 64, numLayers: 1, seed: 1 };
      const { output, weights } = new heed.Encoder(options).eval().forward(rows(64), { returnWeights });
      return { output, weights: weights?.[0] };
    }));

  test.each(['fp32', 'q8'] as const)('any checkpoint, %s', (dtype) => {
    const files = bert({ width: 64, layers: 1, heads, words: 100, positions: length });
    return expectFree(async (heed, outputAttentions) => {
      const model = await heed.fromPretrained(files, { dtype });
      const { lastHiddenState, attentions } = await model.encode(texts(1, length), { outputAttentions });
      return { output: lastHiddenState, weights: attentions?.[0] };
    });
  });
});
