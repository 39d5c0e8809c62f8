/** Errors of `heed` for features of heed/train, and that heed/train includes all features of heed. */
import { type Heed, load } from 'heed';
import { load as loadTraining } from 'heed/train';
import { describe, expect, it } from 'vitest';
import { draw } from '../layers/numbers.js';

const needsTraining = expect.objectContaining({
  name: 'HeedError',
  code: 'UNSUPPORTED',
  message: expect.stringContaining('heed/train'),
});

describe('heed', () => {
  it.each(['losses', 'optim', 'saveCheckpoint', 'trainClassifier', 'trainEmbedding', 'custom'])(
    'names heed/train for %s',
    async (name) => {
      using heed = await load();
      expect(() => heed[name as keyof Heed]).toThrow(needsTraining);
    },
  );

  it('names heed/train for the options backward and trainable', async () => {
    using heed = await load();
    const x = draw(1, 2, 4);
    const layer = new heed.Linear({ inFeatures: 4, outFeatures: 2 });
    const attention = new heed.MultiHeadAttention({ embedDim: 4, numHeads: 2 });
    const calls = [
      () => (layer.forward as (...given: unknown[]) => unknown)(x, { backward: true }),
      () => layer.forward(x, ...([{ backward: true }] as unknown as [])),
      () => attention.forward(x, { backward: true } as object),
      () => heed.softmax(x, ...([{ backward: true }] as unknown as [])),
      () => heed.linear(x, { weight: draw(2, 2, 4), backward: true } as never),
    ];
    for (const call of calls.slice(1)) expect(call).toThrow(needsTraining);
    await expect(heed.fromPretrained(undefined, { trainable: true } as object)).rejects.toThrow(needsTraining);
  });
});

describe('heed/train', () => {
  it('computes in evaluation mode what heed does, with modules of its own', async () => {
    using heed = await load({ build: 'simd128' });
    using training = await loadTraining({ build: 'simd128' });
    const x = draw(1, 2, 5, 8);
    const options = { embedDim: 8, numHeads: 2, feedForwardDim: 8, numLayers: 2, seed: 3 };
    const call = { causal: true, returnWeights: true } as const;
    const plain = (result: object) => JSON.stringify(result); // the two entries have different classes
    expect(plain(new training.Encoder(options).forward(x, call))).toBe(
      plain(new heed.Encoder(options).forward(x, call)),
    );
    expect(plain(training.attention(x, x, x, call))).toBe(plain(heed.attention(x, x, x, call)));
    const decoder = new training.Decoder(options);
    const cache = decoder.makeCache(x);
    expect(decoder.step(x, cache)).toEqual(decoder.forward(x, x, { causal: true }).output);
    expect(training.info.build).toBe('simd128');
    expect(plain(training.masks.alibi(2, 3))).toBe(plain(heed.masks.alibi(2, 3)));
  });

  it('runs pretrained models, here and in a worker', async () => {
    using training = await loadTraining();
    using model = await training.fromPretrained();
    const vectors = await model.embed(['a cat']);
    using remote = await training.fromPretrained(undefined, { worker: true });
    expect(await remote.embed(['a cat'])).toEqual(vectors);
  });
});
