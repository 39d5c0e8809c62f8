import { make, once, type Row } from './refusals.js';

export const rows: Row[] = [
  [
    'the base of a learned table',
    () => make('PositionalEncoding', { embedDim: 8, base: 100, learned: true }),
    'INVALID_ARGUMENT',
    /PositionalEncoding\.base: got it together with `learned: true`; expected one of the two/,
  ],
  [
    'more rows than positions',
    () => once('PositionalEncoding', { embedDim: 8, maxLength: 4 }),
    'SHAPE_MISMATCH',
    /x: got .*5.*; expected .*4/,
  ],
  [
    'positions of another width',
    () => once('PositionalEncoding', { embedDim: 6 }),
    'SHAPE_MISMATCH',
    /x: got width 8; expected embedDim, 6/,
  ],
  [
    'features of another count',
    () => once('BatchNorm', { numFeatures: 3 }),
    'SHAPE_MISMATCH',
    /x: got shape \[2, 5, 8\]; expected .*3/,
  ],
  [
    'a width as text',
    () => make('Linear', { inFeatures: '8', outFeatures: 2 }),
    'INVALID_ARGUMENT',
    /inFeatures: got '8'; expected an integer/,
  ],
  [
    'a width left out',
    () => make('Linear', { inFeatures: 8 }),
    'INVALID_ARGUMENT',
    /outFeatures: got undefined; expected/,
  ],
  [
    'an infinite width',
    () => make('LayerNorm', { normalizedShape: Infinity }),
    'INVALID_ARGUMENT',
    /normalizedShape: got Infinity/,
  ],
  [
    'an eps of NaN',
    () => make('LayerNorm', { normalizedShape: 8, eps: Number.NaN }),
    'INVALID_ARGUMENT',
    /eps: got NaN; expected a positive number/,
  ],
  [
    'a rate of 2 in a layer',
    () => make('Dropout', { p: 2 }),
    'INVALID_ARGUMENT',
    /p: got 2; expected a number in \[0, 1\]/,
  ],
  [
    'options that are no object',
    () => make('Linear', 8),
    'INVALID_ARGUMENT',
    /Linear: got 8; expected an options object/,
  ],
  ['no options', () => make('Linear', undefined), 'INVALID_ARGUMENT', /Linear\.inFeatures: got undefined/],
  [
    'more weights than memory',
    () => make('Linear', { inFeatures: 2 ** 20, outFeatures: 2 ** 20 }),
    'OUT_OF_MEMORY',
    /1048576/,
  ],
  [
    'features of another width',
    () => once('Linear', { inFeatures: 2, outFeatures: 1 }, [1, 2, 3]),
    'SHAPE_MISMATCH',
    /^x: got shape \[3\]; expected \[\.\.\., 2\]/,
  ],
  [
    "PyTorch's name of an option",
    () => make('LayerNorm', { normalized_shape: 3 }),
    'INVALID_ARGUMENT',
    /unknown option 'normalized_shape'; expected 'normalizedShape'/,
  ],
  [
    'an unknown mode',
    () => make('PositionalEncoding', { embedDim: 2, mode: 'mul' }),
    'INVALID_ARGUMENT',
    /PositionalEncoding\.mode: got 'mul'/,
  ],
  [
    'a feed-forward input of another width',
    () => once('FeedForward', { embedDim: 2, feedForwardDim: 4 }, [[1]]),
    'SHAPE_MISMATCH',
    /^x: got shape \[1, 1\]/,
  ],
];

export const works = () => once('LayerNorm', { normalizedShape: 8 });
