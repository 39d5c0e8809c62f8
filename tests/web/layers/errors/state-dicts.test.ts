import { Tensor } from 'heed';
import { describe, expect, it } from 'vitest';
import { draw } from '../numbers.js';
import { type Anything, caught, heed, sizes, x } from './refusals.js';

describe('state dicts', () => {
  const state = () => new heed.EncoderLayer({ ...sizes, seed: 1 }).stateDict();
  const faults: [string, (s: Anything) => void, RegExp][] = [
    ['missing', (s) => delete s['norm2.bias'], /missing 'norm2\.bias' \[8\]/],
    ['unexpected', (s) => (s['norm3.bias'] = new Tensor(new Float32Array(8), [8])), /unexpected 'norm3\.bias'/],
    [
      'misshapen',
      (s) => (s['linear1.weight'] = draw(1, 8, 12)),
      /misshapen 'linear1\.weight' got \[8, 12\], expected \[12, 8\]/,
    ],
    ['no tensors', (s) => (s['norm2.weight'] = 'ones'), /'norm2\.weight': got 'ones'/],
    [
      'all at once',
      (s) => {
        s.extra = [1];
        delete s['norm1.weight'];
        s['linear2.bias'] = [1];
      },
      /missing 'norm1\.weight' \[8\]; unexpected 'extra'; misshapen 'linear2\.bias'/,
    ],
  ];

  it.each(faults)('that are wrong are refused and change nothing: %s', (_, spoil, message) => {
    const target = new heed.EncoderLayer({ ...sizes, seed: 2 });
    const [before, output] = [target.stateDict(), target.forward(x).output.data];
    const wrong = state();
    spoil(wrong);
    expect(caught(() => target.loadStateDict(wrong))).toMatchObject({ message: expect.stringMatching(message) });
    expect(target.stateDict()).toEqual(before);
    expect(target.forward(x).output.data).toEqual(output);
  });

  it('go from one layer to another', () => {
    const target = new heed.EncoderLayer({ ...sizes, seed: 2 });
    target.loadStateDict(state());
    expect(target.stateDict()).toEqual(state());
  });
});
