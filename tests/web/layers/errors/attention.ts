import { draw } from '../numbers.js';
import { type Anything, heed, make, type Row, x } from './refusals.js';

// Shared: what a test makes and drops stays until the garbage collector comes by.
const attention = new heed.MultiHeadAttention({ embedDim: 8, numHeads: 2 });
const mha = (call: object, query: Anything = x) => attention.forward(query, call);

export const rows: Row[] = [
  [
    'averaged weights that are not returned',
    () => mha({ returnWeights: false, averageWeights: true }),
    'INVALID_ARGUMENT',
    /MultiHeadAttention\.forward\.averageWeights: got true together with `returnWeights: false`; expected one/,
  ],
  ['a query of rank 1', () => mha({}, draw(1, 8)), 'SHAPE_MISMATCH', /query: got shape \[8\]; expected/],
  [
    'keys of another batch',
    () => mha({ key: draw(1, 3, 5, 8) }),
    'SHAPE_MISMATCH',
    /key: got (shape \[3, 5, 8\]|a batch of 3); expected/,
  ],
  [
    'values longer than keys',
    () => mha({ key: draw(1, 2, 5, 8), value: draw(1, 2, 6, 8) }),
    'SHAPE_MISMATCH',
    /value: got (shape \[2, 6, 8\]|6 rows); expected/,
  ],
  [
    'an unbatched key',
    () => mha({ key: draw(1, 5, 8) }),
    'SHAPE_MISMATCH',
    /key: got (shape \[5, 8\]|a batch of 1); expected/,
  ],
  [
    'a mask of the wrong width',
    () => mha({ mask: [[1, 1]] }),
    'SHAPE_MISMATCH',
    /mask: got shape \[1, 2\]; expected .*\[2, 2, 5, 5\]/,
  ],
  [
    'a mask of rank 5',
    () => mha({ mask: draw(1, 1, 1, 1, 5, 5) }),
    'SHAPE_MISMATCH',
    /mask: got shape \[1, 1, 1, 5, 5\]; expected/,
  ],
  [
    'a mask for three heads of two',
    () => mha({ mask: draw(1, 3, 5, 5) }),
    'SHAPE_MISMATCH',
    /mask: got shape \[3, 5, 5\]; expected/,
  ],
  [
    'a key mask of rank 1 beside a batch',
    () => mha({ keyMask: [1, 1, 1, 1, 1] }),
    'SHAPE_MISMATCH',
    /keyMask: got shape \[5\]; expected \[2, 5\]/,
  ],
  [
    'a key mask of another length',
    () =>
      mha({
        keyMask: [
          [1, 1],
          [1, 1],
        ],
      }),
    'SHAPE_MISMATCH',
    /keyMask: got shape \[2, 2\]; expected \[2, 5\]/,
  ],
  [
    'a head mask for three heads of two',
    () => mha({ headMask: [1, 1, 1] }),
    'SHAPE_MISMATCH',
    /headMask: got shape \[3\]; expected .*2/,
  ],
  [
    'a head mask of NaN',
    () => mha({ headMask: [1, Number.NaN] }),
    'INVALID_ARGUMENT',
    /headMask: got NaN at entry 1; expected finite factors/,
  ],
  [
    'a head mask of infinity',
    () => mha({ headMask: { data: Float32Array.of(Number.POSITIVE_INFINITY, 1), shape: [2] } }),
    'INVALID_ARGUMENT',
    /headMask: got Infinity at entry 0; expected finite factors/,
  ],
  ['a mask of 2s', () => mha({ mask: [[2]] }), 'INVALID_ARGUMENT', /mask.*2.*; expected .*0/],
  ['a mask of fractions', () => mha({ mask: [[0.5]] }), 'INVALID_ARGUMENT', /mask.*0\.5/],
  [
    'a byte mask of 255s',
    () => mha({ mask: { data: Uint8Array.of(255), shape: [1] } }),
    'INVALID_ARGUMENT',
    /mask.*255.*; expected 0 or 1/,
  ],
  [
    'a mask over Int32Array',
    () => mha({ mask: { data: Int32Array.of(1), shape: [1] } }),
    'INVALID_ARGUMENT',
    /mask\.data.*Int32Array.*; expected/,
  ],
  [
    'heads that do not divide the width',
    () => make('MultiHeadAttention', { embedDim: 8, numHeads: 3 }),
    'INVALID_ARGUMENT',
    /numHeads: got 3.*; expected .*8/,
  ],
  [
    'no heads',
    () => make('MultiHeadAttention', { embedDim: 8, numHeads: 0 }),
    'INVALID_ARGUMENT',
    /numHeads: got 0; expected an integer from 1/,
  ],
  [
    'half a head',
    () => make('MultiHeadAttention', { embedDim: 8, numHeads: 0.5 }),
    'INVALID_ARGUMENT',
    /numHeads: got 0\.5/,
  ],
  [
    'a width of NaN',
    () => make('MultiHeadAttention', { embedDim: Number.NaN, numHeads: 2 }),
    'INVALID_ARGUMENT',
    /embedDim: got NaN; expected an integer/,
  ],
  ['a window of -1', () => mha({ window: -1 }), 'INVALID_ARGUMENT', /window: got -1; expected an integer from 0/],
  ['pruning all heads', () => attention.prune([0, 1]), 'INVALID_ARGUMENT', /heads: got all 2 heads; expected/],
  [
    'an unknown option of a call',
    () => mha({ keymask: [[1]] }),
    'INVALID_ARGUMENT',
    /unknown option 'keymask'; expected 'keyMask'/,
  ],
  ['a boolean as text', () => mha({ causal: 'yes' }), 'INVALID_ARGUMENT', /causal: got 'yes'; expected true or false/],
  ['a query of rank 4', () => mha({}, draw(1, 1, 1, 2, 8)), 'SHAPE_MISMATCH', /^query: got shape \[1, 1, 2, 8\]/],
  [
    'a query of another width',
    () => mha({}, draw(1, 1, 2, 5)),
    'SHAPE_MISMATCH',
    /^query: got shape \[1, 2, 5\]; expected \[N, L, 8\] or \[L, 8\]/,
  ],
  [
    'a product of sizes that overflows',
    () => make('MultiHeadAttention', { embedDim: 4, numHeads: 2 ** 31 - 1, keyDim: 2 ** 31 - 1, valueDim: 1 }),
    'OUT_OF_MEMORY',
    /2147483647/,
  ],
  [
    "transformers.js's name of an option",
    () => make('MultiHeadAttention', { embedDim: 4, num_heads: 2 }),
    'INVALID_ARGUMENT',
    /unknown option 'num_heads'; expected 'numHeads'/,
  ],
  [
    'a state dict of null',
    () => attention.loadStateDict(null as Anything),
    'INVALID_ARGUMENT',
    /loadStateDict: got null; expected a record of tensors/,
  ],
  [
    'a state dict of a number',
    () => attention.loadStateDict({ in_proj_weight: 3 } as Anything),
    'INVALID_ARGUMENT',
    /'in_proj_weight': got 3/,
  ],
  [
    'an empty state dict',
    () => attention.loadStateDict({}),
    'INVALID_ARGUMENT',
    /missing 'in_proj_weight' \[24, 8\], 'in_proj_bias' \[24\], 'out_proj.weight'/,
  ],
];

export const works = () => mha({}).output;
