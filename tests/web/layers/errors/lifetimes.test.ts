import { load } from 'heed';
import { describe, expect, it } from 'vitest';
import { layerExamples } from '../examples.js';
import { draw } from '../numbers.js';
import { type Anything, caught, heed, make, sizes, x } from './refusals.js';

describe('lifetimes', () => {
  it('end with dispose(), for every class', () => {
    for (const [name, { options }] of Object.entries(layerExamples)) {
      const one = make(name as 'Linear', options);
      one.dispose();
      one.dispose();
      const uses = [
        () => one.forward(x, x),
        () => one.stateDict(),
        () => one.loadStateDict({}),
        () => one.train(),
        () => one.eval(),
        () => one.parameterCount,
        () => one.summary(),
      ];
      for (const use of uses)
        expect(caught(use)).toMatchObject({
          code: 'DISPOSED',
          message: expect.stringContaining(`${name}: used after dispose()`),
        });
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
      message: expect.stringMatching(/cache: expected .*, got another layer's/),
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
