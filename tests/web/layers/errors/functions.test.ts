import { describe } from 'vitest';
import { draw } from '../numbers.js';
import { type Anything, heed, type Row, refuses, x } from './refusals.js';

describe('the functions', () => {
  const wrong: Row[] = [
    [
      'keys of another width',
      () => heed.attention(draw(1, 3, 4), draw(2, 3, 5), draw(3, 3, 4)),
      'SHAPE_MISMATCH',
      /key: got shape \[3, 5\]; expected .*4/,
    ],
    [
      'values of another length',
      () => heed.attention(draw(1, 3, 4), draw(2, 3, 4), draw(3, 2, 4)),
      'SHAPE_MISMATCH',
      /value: got shape \[2, 4\]; expected/,
    ],
    [
      'another batch',
      () => heed.attention(draw(1, 2, 3, 4), draw(2, 3, 3, 4), draw(3, 3, 3, 4)),
      'SHAPE_MISMATCH',
      /key: got shape \[3, 3, 4\]; expected/,
    ],
    [
      'a vector as query',
      () => heed.attention([1, 2], draw(2, 3, 2), draw(3, 3, 4)),
      'SHAPE_MISMATCH',
      /query: got shape \[2\]; expected/,
    ],
    [
      'a weight of another width',
      () => heed.linear(x, { weight: draw(1, 3, 7) }),
      'SHAPE_MISMATCH',
      /weight: got shape \[3, 7\]; expected .*8/,
    ],
    [
      'a bias of another width',
      () => heed.linear(x, { weight: draw(1, 3, 8), bias: [1, 2] }),
      'SHAPE_MISMATCH',
      /bias: got shape \[2\]; expected \[3\]/,
    ],
    [
      'a norm weight of another width',
      () => heed.layerNorm(x, { weight: [1, 2, 3] }),
      'SHAPE_MISMATCH',
      /weight: got shape \[3\]; expected \[8\]/,
    ],
    ['ragged arrays', () => heed.softmax([[1, 2], [3]]), 'SHAPE_MISMATCH', /x/],
    [
      'masks that do not broadcast',
      () => heed.masks.and([[1, 1]], [[1, 1, 1]]),
      'SHAPE_MISMATCH',
      /masks\.and: got shapes \[1, 2\] and \[1, 3\]/,
    ],
    [
      'a length over the padded size',
      () => heed.masks.padding([3, 5], 4),
      'INVALID_ARGUMENT',
      /lengths.*5.*; expected at most .*4/,
    ],
    ['a base of NaN', () => heed.positionalEncoding(3, 4, { base: Number.NaN }), 'INVALID_ARGUMENT', /base: got NaN/],
    ['a scale of NaN', () => heed.attention(x, x, x, { scale: Number.NaN }), 'INVALID_ARGUMENT', /scale: got NaN/],
    ['a window of NaN', () => heed.attention(x, x, x, { window: Number.NaN }), 'INVALID_ARGUMENT', /window: got NaN/],
    ['a length of -1', () => heed.positionalEncoding(-1, 4), 'INVALID_ARGUMENT', /length: got -1/],
    ...[2, 1.5, -0.1, Number.NaN, '0.5'].map(
      (p): Row => [
        `a rate of ${p}`,
        () => heed.dropout(x, { p: p as Anything }),
        'INVALID_ARGUMENT',
        /p: got .*; expected a number in \[0, 1\]/,
      ],
    ),
    [
      'a rate of 2 on the weights',
      () => heed.attention(x, x, x, { dropout: { p: 2 } }),
      'INVALID_ARGUMENT',
      /dropout\.p: got 2/,
    ],
    ['an odd rotary width', () => heed.rotary(draw(1, 5, 7)), 'INVALID_ARGUMENT', /dim/],
    ['a rotary width past the features', () => heed.rotary(x, { dim: 10 }), 'INVALID_ARGUMENT', /dim/],
    [
      'an unknown option of a function',
      () => heed.attention(x, x, x, { casual: true } as Anything),
      'INVALID_ARGUMENT',
      /unknown option 'casual'; expected 'causal'/,
    ],
    [
      'an unknown activation',
      () => heed.linear(x, { weight: draw(1, 3, 8), activation: 'rely' as Anything }),
      'INVALID_ARGUMENT',
      /activation: got 'rely'; expected .*'relu'/,
    ],
  ];

  refuses(wrong, () => heed.attention(x, x, x).output);
});
