import { make, once, type Row } from './refusals.js';

export const rows: Row[] = [
  [
    'the base of a learned table',
    () => make('PositionalEncoding', { embedDim: 8, base: 100, learned: true }),
    'INVALID_ARGUMENT',
    /PositionalEncoding\.base: expected undefined with `learned: true` .*, got/,
  ],
  [
    'more rows than positions',
    () => once('PositionalEncoding', { embedDim: 8, maxLength: 4 }),
    'SHAPE_MISMATCH',
    /x: expected .*4.*, got 5$/,
  ],
  [
    'positions of another width',
    () => once('PositionalEncoding', { embedDim: 6 }),
    'SHAPE_MISMATCH',
    /x: expected width 6 \(embedDim\), got width 8/,
  ],
  [
    'features of another count',
    () => once('BatchNorm', { numFeatures: 3 }),
    'SHAPE_MISMATCH',
    /x: expected .*3\], got shape \[2, 5, 8\]/,
  ],
  [
    'a width as text',
    () => make('Linear', { inFeatures: '8', outFeatures: 2 }),
    'INVALID_ARGUMENT',
    /inFeatures: expected an integer .*, got '8'/,
  ],
  [
    'a width left out',
    () => make('Linear', { inFeatures: 8 }),
    'INVALID_ARGUMENT',
    /outFeatures: expected .*, got undefined/,
  ],
  [
    'an infinite width',
    () => make('LayerNorm', { normalizedShape: Infinity }),
    'INVALID_ARGUMENT',
    /normalizedShape: expected .*, got Infinity/,
  ],
  [
    'an eps of NaN',
    () => make('LayerNorm', { normalizedShape: 8, eps: Number.NaN }),
    'INVALID_ARGUMENT',
    /eps: expected a positive number, got NaN/,
  ],
  [
    'a rate of 2 in a layer',
    () => make('Dropout', { p: 2 }),
    'INVALID_ARGUMENT',
    /p: expected a number in \[0, 1\], got 2/,
  ],
  [
    'options that are no object',
    () => make('Linear', 8),
    'INVALID_ARGUMENT',
    /Linear: expected an options object, got 8/,
  ],
  ['no options', () => make('Linear', undefined), 'INVALID_ARGUMENT', /Linear\.inFeatures: expected .*, got undefined/],
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
    /^x: expected \[\.\.\., 2\], got shape \[3\]/,
  ],
  [
    "PyTorch's name of an option",
    () => make('LayerNorm', { normalized_shape: 3 }),
    'INVALID_ARGUMENT',
    /expected 'normalizedShape' .*, got the unknown option 'normalized_shape'/,
  ],
  [
    'an unknown mode',
    () => make('PositionalEncoding', { embedDim: 2, mode: 'mul' }),
    'INVALID_ARGUMENT',
    /PositionalEncoding\.mode: expected .*, got 'mul'/,
  ],
  [
    'a feed-forward input of another width',
    () => once('FeedForward', { embedDim: 2, feedForwardDim: 4 }, [[1]]),
    'SHAPE_MISMATCH',
    /^x: expected .*, got shape \[1, 1\]/,
  ],
];

export const works = () => once('LayerNorm', { normalizedShape: 8 });
