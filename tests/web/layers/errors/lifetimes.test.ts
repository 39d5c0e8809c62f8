import { load } from 'heed';
import { describe, expect, it } from 'vitest';
import { draw } from '../numbers.js';
import { type Anything, caught, heed, make, sizes, x } from './refusals.js';

describe('lifetimes', () => {
  it('end with dispose(), for every class', () => {
    const made = [
      make('Linear', { inFeatures: 8, outFeatures: 2 }),
      make('LayerNorm', { normalizedShape: 8 }),
      make('BatchNorm', { numFeatures: 8 }),
      make('Dropout', { p: 0.5 }),
      make('PositionalEncoding', { embedDim: 8 }),
      make('FeedForward', { embedDim: 8, feedForwardDim: 4 }),
      make('MultiHeadAttention', { embedDim: 8, numHeads: 2 }),
      make('EncoderLayer', sizes),
      make('Encoder', { ...sizes, numLayers: 1 }),
      make('DecoderLayer', sizes),
      make('Decoder', { ...sizes, numLayers: 1 }),
      make('Transformer', { ...sizes, numEncoderLayers: 1, numDecoderLayers: 1 }),
    ];
    for (const one of made) {
      one.dispose();
      one.dispose();
      const uses = [
        () => one.forward(x, x),
        () => one.stateDict(),
        () => one.loadStateDict({}),
        () => one.train(),
        () => one.parameterCount,
        () => one.summary(),
      ];
      for (const use of uses)
        expect(caught(use)).toMatchObject({ code: 'DISPOSED', message: expect.stringContaining('dispose()') });
    }
  });

  it('do not cross runtimes', async () => {
    const other = await load({
      wasm: await import('node:fs/promises').then((fs) =>
        fs.readFile(new URL(`../../../../dist/heed-${heed.info.build}.wasm`, import.meta.url)),
      ),
    });
    expect(other).not.toBe(heed);
    const options = { ...sizes, numLayers: 1 };
    const cache = new other.Decoder(options).makeCache(draw(1, 3, 8));
    const decoder = new heed.Decoder(options);
    expect(caught(() => decoder.step(draw(1, 1, 8), cache))).toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/cache: got another layer's; expected/),
    });
    expect(caught(() => decoder.step(draw(1, 1, 8), {} as Anything))).toMatchObject({ code: 'INVALID_ARGUMENT' });
    const sibling = new heed.Decoder({ ...options, embedDim: 16 });
    expect(caught(() => decoder.step(draw(1, 1, 8), sibling.makeCache(draw(1, 3, 16))))).toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    const layerOfOther = new other.EncoderLayer(sizes);
    other.dispose();
    expect(caught(() => layerOfOther.forward(x))).toMatchObject({ code: 'DISPOSED' });
    expect(caught(() => new other.EncoderLayer(sizes))).toMatchObject({ code: 'DISPOSED' });
    expect(new heed.EncoderLayer(sizes).forward(x).output.shape).toEqual([2, 5, 8]);
  });
});
