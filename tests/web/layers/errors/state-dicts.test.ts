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
      /misshapen 'linear1\.weight' \(expected \[12, 8\], got \[8, 12\]\)/,
    ],
    ['no tensors', (s) => (s['norm2.weight'] = 'ones'), /'norm2\.weight': expected .*, got 'ones'/],
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

  it('with projections both packed and apart are refused', () => {
    const options = { embedDim: 8, numHeads: 2, seed: 1 };
    using together = new heed.MultiHeadAttention(options);
    using square = new heed.MultiHeadAttention({ ...options, keyDim: 8, valueDim: 8 });
    const separate = square.stateDict();
    const packed = draw(2, 48, 8);
    const both = { ...separate, in_proj_weight: packed };
    const refused = (layer: typeof square, given: Anything, message: RegExp) => {
      const before = layer.stateDict();
      expect(caught(() => layer.loadStateDict(given))).toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: expect.stringMatching(message),
      });
      expect(layer.stateDict()).toEqual(before);
    };
    refused(
      square,
      both,
      /expected exactly this layer's parameters, got a state dict that does not fit: unexpected 'in_proj_weight'$/,
    );
    // Other errors are still listed.
    const { 'out_proj.weight': _, ...incomplete } = both as Anything;
    refused(square, incomplete, /missing 'out_proj\.weight' \[8, 16\]; unexpected 'in_proj_weight'$/);
    const { k_proj_weight: __, ...two } = both as Anything;
    refused(square, two, /missing 'k_proj_weight' \[16, 8\]; unexpected 'in_proj_weight'$/);
    refused(
      together,
      { ...together.stateDict(), q_proj_weight: packed, k_proj_weight: packed, v_proj_weight: packed },
      /unexpected 'q_proj_weight', 'k_proj_weight', 'v_proj_weight'$/,
    );
    // Either of both forms is accepted.
    const { q_proj_weight: q, k_proj_weight: k, v_proj_weight: v, ...rest } = separate;
    expect([q, k, v].map((weight) => weight!.shape)).toEqual([
      [16, 8],
      [16, 8],
      [16, 8],
    ]);
    square.loadStateDict({ ...rest, in_proj_weight: packed });
    square.loadStateDict(separate);
    expect(square.stateDict()).toEqual(separate);
  });

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
