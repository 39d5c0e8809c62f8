// Training retains no more memory than a step needs, even if objects are not disposed of. Runs with --expose-gc.
import { readFile } from 'node:fs/promises';
import { setImmediate as turn } from 'node:timers/promises';
import { load, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw } from '../layers/numbers.js';
import { bertFiles } from '../models/bert-files.js';

let bytes: Uint8Array<ArrayBuffer>;
beforeAll(async () => {
  bytes = new Uint8Array(await readFile(new URL('../../../dist/heed-train-simd128.wasm', import.meta.url)));
});

/** A runtime whose memory nothing else uses. */
const own = (): Promise<TrainingHeed> => load({ build: 'simd128', wasm: new Uint8Array(bytes) });

/** Bytes of JavaScript objects and buffers after garbage collection. Finalizers run between turns of the event loop. */
async function heap(): Promise<number> {
  for (let i = 0; i < 5; i++) {
    globalThis.gc!();
    await turn();
  }
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  return heapUsed + external + arrayBuffers;
}

const makeModel = (heed: TrainingHeed) =>
  new heed.Sequential(
    [
      new heed.Embedding({ numEmbeddings: 50, embedDim: 16 }),
      new heed.Encoder({ embedDim: 16, numHeads: 2, feedForwardDim: 32, numLayers: 2 }),
      new heed.Linear({ inFeatures: 16, outFeatures: 50 }),
    ],
    { seed: 1 },
  ).train();

const idsOf = (i: number) =>
  Array.from({ length: 4 }, (_, n) => Array.from({ length: 3 + (i % 6) }, (_, j) => (7 * n + j * i) % 50));

describe('memory', () => {
  it('is flat over hundreds of steps, losses that are never backed and errors among them', async () => {
    using heed = await own();
    const model = makeModel(heed);
    const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 1e-3 });
    const nothing = heed.custom({ forward: (x) => x, backward: (dy) => dy });
    const round = (i: number) => {
      const ids = idsOf(i);
      optimizer.zeroGrad();
      const logits = model.forward(ids);
      const loss = heed.losses.crossEntropy(i % 3 === 0 ? nothing(logits) : logits, ids);
      if (i % 5 === 1) heed.losses.mse(logits, logits.slice());
      if (i % 7 === 2) expect(() => heed.losses.mse(logits, [1])).toThrow();
      loss.backward();
      expect(() => loss.backward()).toThrow();
      heed.optim.clipGradNorm(model.parameters(), 1);
      optimizer.step();
      model.forward(ids, { backward: true }).backward(logits);
    };
    for (let i = 0; i < 200; i++) round(i);
    const warm = heed.info.memoryBytes;
    const before = await heap();
    for (let i = 0; i < 400; i++) round(i);
    expect(heed.info.memoryBytes).toBe(warm);
    expect((await heap()) - before).toBeLessThan(1e6);
  });

  it('does not grow with the rotary options that have occurred', async () => {
    using heed = await own();
    const layer = new heed.Linear({ inFeatures: 64, outFeatures: 64, seed: 1 }).train();
    const x = draw(1, 1000, 64);
    const rotate = (base: number) => heed.losses.mse(heed.rotary(layer.forward(x), { base }), x).backward();
    for (let i = 0; i < 10; i++) rotate(100 + i);
    const warm = heed.info.memoryBytes;
    for (let i = 0; i < 200; i++) rotate(1000 + i); // the tables of all take 52 MB
    expect(heed.info.memoryBytes - warm).toBeLessThan(5e6);
  });

  it('does not grow by passes that are never backed, once their tensors are collected', async () => {
    using heed = await own();
    const model = makeModel(heed);
    const x = idsOf(5);
    const forget = () => {
      for (let i = 0; i < 50; i++) {
        heed.losses.crossEntropy(model.forward(x), x);
        model.forward(x, { backward: true });
      }
    };
    for (let i = 0; i < 3; i++) {
      forget();
      await heap();
    }
    const warm = heed.info.memoryBytes;
    for (let i = 0; i < 10; i++) {
      forget();
      await heap();
    }
    expect(heed.info.memoryBytes).toBe(warm);
  });

  it('holds the arguments of activations and norms until the backward pass, and not their results', async () => {
    using heed = await own();
    const [rows, width] = [256, 256];
    const layer = new heed.EncoderLayer({
      embedDim: width,
      numHeads: 4,
      feedForwardDim: 4 * width,
      dropout: 0,
    }).train();
    const x = draw(1, 4, rows, width);
    const passes = [layer.forward(x, { backward: true }), layer.forward(x, { backward: true })];
    const before = heed.info.memoryBytes;
    for (let i = 0; i < 8; i++) passes.push(layer.forward(x, { backward: true }));
    // The input, q, k, v, the heads' results, the arguments of both norms, that of the activation (4), and the output.
    // Retaining the results of the first norm and of the activation would add 5. Memory may grow by a fifth more than
    // needed.
    const kept = 12 * 4 * 4 * rows * width;
    expect(heed.info.memoryBytes - before).toBeLessThan(1.2 * 8 * kept + 8e6);
    for (const { output, backward } of passes.reverse()) backward(output);
  });

  // 3 layers of width 256, stored in 11.6 MB, and 1024 tokens: one vector of this width per token takes 1.05 MB. All
  // weights have two moments in the optimizer, 19 MB, and a forward pass
  // retains 10 vectors per layer, 31.5 MB, which the backward pass frees while it allocates 9.5 MB of gradients; with
  // `recompute`, it retains one per layer, and one layer is computed again.
  // While a layer runs, it takes about 12 further vectors.
  it.each([
    { mode: 'all weights', lora: false, recompute: false, most: 87 },
    { mode: 'all weights with recompute', lora: false, recompute: true, most: 73 },
    { mode: 'low-rank updates', lora: true, recompute: false, most: 56 },
    { mode: 'low-rank updates with recompute', lora: true, recompute: true, most: 40 },
  ])('of two steps on $mode of an encoder is at most $most MB', async ({ lora, recompute, most }) => {
    using heed = await own();
    const files = bertFiles({ width: 256, inner: 1024, heads: 8, layers: 3, vocab: 2000, positions: 64 });
    const model = await heed.fromPretrained(files, { trainable: true, dropout: 0, seed: 1, recompute });
    if (lora) model.addLora({ seed: 1 });
    const optimizer = new heed.optim.AdamW(model.parameters());
    const inputIds = Array.from({ length: 16 }, (_, n) =>
      Array.from({ length: 64 }, (_, i) => (7 * i + 64 * n) % 2000),
    );
    model.train();
    for (let step = 0; step < 2; step++) {
      optimizer.zeroGrad();
      const vectors = model.sentenceVectors({ inputIds });
      const { shape } = vectors;
      heed.losses.mse(vectors, { data: new Float32Array(vectors.data.length), shape }).backward();
      optimizer.step();
    }
    expect(heed.info.memoryBytes).toBeLessThan(1e6 * most);
  });

  it('keeps layers alive as long as a loss needs them', async () => {
    using heed = await own();
    const output = (() => {
      const layer = new heed.Linear({ inFeatures: 3, outFeatures: 3, seed: 1 }).train();
      const head = new heed.Linear({ inFeatures: 3, outFeatures: 2, seed: 2 }).train();
      const loss = heed.losses.mse(head.forward(layer.forward(draw(1, 4, 3))), draw(2, 4, 2));
      const { backward } = new heed.Linear({ inFeatures: 3, outFeatures: 2 }).forward(draw(1, 4, 3), {
        backward: true,
      });
      return { loss, backward };
    })();
    await heap();
    output.loss.backward();
    expect(output.backward(draw(2, 4, 2)).inputs.x.shape).toEqual([4, 3]);
  });

  it('is given back by dispose() of layers, optimizers and passes', async () => {
    using heed = await own();
    const round = () => {
      const model = makeModel(heed);
      const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 1e-3 });
      const ids = idsOf(3);
      heed.losses.crossEntropy(model.forward(ids), ids).backward();
      optimizer.step();
      heed.losses.crossEntropy(model.forward(ids), ids);
      optimizer.dispose();
      model.dispose();
      optimizer.dispose();
    };
    for (let i = 0; i < 5; i++) round();
    await heap();
    const warm = heed.info.memoryBytes;
    for (let i = 0; i < 40; i++) {
      round();
      if (i % 10 === 9) await heap();
    }
    expect(heed.info.memoryBytes).toBe(warm);
  });
});

describe('the end of a runtime', () => {
  it('frees everything, and every later use is an error', async () => {
    const heed = await own();
    const model = makeModel(heed);
    const optimizer = new heed.optim.SGD(model.parameters());
    const ids = idsOf(1);
    const loss = heed.losses.crossEntropy(model.forward(ids), ids);
    const { backward } = model.forward(ids, { backward: true });
    const [parameter] = model.parameters();
    heed.dispose();
    heed.dispose();
    const uses = [
      () => model.forward(ids),
      () => loss.backward(),
      () => backward(draw(1, 4, 4, 50)),
      () => optimizer.step(),
      () => optimizer.zeroGrad(),
      () => parameter!.value,
      () => parameter!.grad,
      () => heed.losses.mse([1], [2]),
      () => heed.add([1], [2]),
      () => new heed.Embedding({ numEmbeddings: 2, embedDim: 2 }),
    ];
    for (const use of uses) expect(use).toThrow(expect.objectContaining({ name: 'HeedError', code: 'DISPOSED' }));
  });
});
