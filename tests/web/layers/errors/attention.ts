import { draw } from '../numbers.js';
import { type Anything, heed, make, type Row, x } from './refusals.js';

// Shared by all tests, because undisposed layers stay in memory until garbage collection.
const attention = new heed.MultiHeadAttention({ embedDim: 8, numHeads: 2 });
const mha = (call: object, query: Anything = x) => attention.forward(query, call);

export const rows: Row[] = [
  [
    'averaged weights that are not returned',
    () => mha({ returnWeights: false, averageWeights: true }),
    'INVALID_ARGUMENT',
    /MultiHeadAttention\.forward\.averageWeights: expected false with `returnWeights: false`, got true/,
  ],
  ['a query of rank 1', () => mha({}, draw(1, 8)), 'SHAPE_MISMATCH', /query: expected .*, got shape \[8\]/],
  [
    'keys of another batch',
    () => mha({ key: draw(1, 3, 5, 8) }),
    'SHAPE_MISMATCH',
    /key: expected .*, got (shape \[3, 5, 8\]|a batch of 3)/,
  ],
  [
    'values longer than keys',
    () => mha({ key: draw(1, 2, 5, 8), value: draw(1, 2, 6, 8) }),
    'SHAPE_MISMATCH',
    /value: expected .*, got (shape \[2, 6, 8\]|6$)/,
  ],
  [
    'an unbatched key',
    () => mha({ key: draw(1, 5, 8) }),
    'SHAPE_MISMATCH',
    /key: expected .*, got (shape \[5, 8\]|no batch axis)/,
  ],
  [
    'a mask of the wrong width',
    () => mha({ mask: [[1, 1]] }),
    'SHAPE_MISMATCH',
    /mask: expected .*\[2, 2, 5, 5\], got shape \[1, 2\]/,
  ],
  [
    'a mask of rank 5',
    () => mha({ mask: draw(1, 1, 1, 1, 5, 5) }),
    'SHAPE_MISMATCH',
    /mask: expected .*, got shape \[1, 1, 1, 5, 5\]/,
  ],
  [
    'a mask for three heads of two',
    () => mha({ mask: draw(1, 3, 5, 5) }),
    'SHAPE_MISMATCH',
    /mask: expected .*, got shape \[3, 5, 5\]/,
  ],
  [
    'a key mask of rank 1 beside a batch',
    () => mha({ keyMask: [1, 1, 1, 1, 1] }),
    'SHAPE_MISMATCH',
    /keyMask: expected \[2, 5\], got shape \[5\]/,
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
    /keyMask: expected \[2, 5\], got shape \[2, 2\]/,
  ],
  [
    'a head mask for three heads of two',
    () => mha({ headMask: [1, 1, 1] }),
    'SHAPE_MISMATCH',
    /headMask: expected .*2\], got shape \[3\]/,
  ],
  [
    'a head mask of NaN',
    () => mha({ headMask: [1, Number.NaN] }),
    'INVALID_ARGUMENT',
    /headMask: expected finite factors, got NaN at entry 1/,
  ],
  [
    'a head mask of infinity',
    () => mha({ headMask: { data: Float32Array.of(Number.POSITIVE_INFINITY, 1), shape: [2] } }),
    'INVALID_ARGUMENT',
    /headMask: expected finite factors, got Infinity at entry 0/,
  ],
  [
    'a mask of booleans and scores',
    () => mha({ mask: [[true, 0.5]] }),
    'INVALID_ARGUMENT',
    /mask\[0\]\[1\]: expected booleans, or numbers .*, got 0\.5/,
  ],
  [
    'a byte mask of 255s',
    () => mha({ mask: { data: Uint8Array.of(255), shape: [1] } }),
    'INVALID_ARGUMENT',
    /mask.*expected 0 or 1, got 255/,
  ],
  [
    'a mask over Int32Array',
    () => mha({ mask: { data: Int32Array.of(1), shape: [1] } }),
    'INVALID_ARGUMENT',
    /mask\.data: expected .*, got .*Int32Array/,
  ],
  [
    'heads that do not divide the width',
    () => make('MultiHeadAttention', { embedDim: 8, numHeads: 3 }),
    'INVALID_ARGUMENT',
    /numHeads: expected .*8.*, got 3/,
  ],
  [
    'no heads',
    () => make('MultiHeadAttention', { embedDim: 8, numHeads: 0 }),
    'INVALID_ARGUMENT',
    /numHeads: expected an integer from 1 .*, got 0/,
  ],
  [
    'half a head',
    () => make('MultiHeadAttention', { embedDim: 8, numHeads: 0.5 }),
    'INVALID_ARGUMENT',
    /numHeads: expected .*, got 0\.5/,
  ],
  [
    'a width of NaN',
    () => make('MultiHeadAttention', { embedDim: Number.NaN, numHeads: 2 }),
    'INVALID_ARGUMENT',
    /embedDim: expected an integer .*, got NaN/,
  ],
  ['a window of -1', () => mha({ window: -1 }), 'INVALID_ARGUMENT', /window: expected an integer from 0 .*, got -1/],
  ['pruning all heads', () => attention.prune([0, 1]), 'INVALID_ARGUMENT', /heads: expected .*, got all 2 heads/],
  [
    'an unknown option of a call',
    () => mha({ keymask: [[1]] }),
    'INVALID_ARGUMENT',
    /expected 'keyMask' .*, got the unknown option 'keymask'/,
  ],
  ['a boolean as text', () => mha({ causal: 'yes' }), 'INVALID_ARGUMENT', /causal: expected true or false, got 'yes'/],
  [
    'a query of rank 4',
    () => mha({}, draw(1, 1, 1, 2, 8)),
    'SHAPE_MISMATCH',
    /^query: expected .*, got shape \[1, 1, 2, 8\]/,
  ],
  [
    'a query of another width',
    () => mha({}, draw(1, 1, 2, 5)),
    'SHAPE_MISMATCH',
    /^query: expected \[N, L, 8\] or \[L, 8\], got shape \[1, 2, 5\]/,
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
    /expected 'numHeads' .*, got the unknown option 'num_heads'/,
  ],
  [
    'a state dict of null',
    () => attention.loadStateDict(null as Anything),
    'INVALID_ARGUMENT',
    /loadStateDict: expected a record of tensors .*, got null/,
  ],
  [
    'a state dict of a number',
    () => attention.loadStateDict({ in_proj_weight: 3 } as Anything),
    'INVALID_ARGUMENT',
    /'in_proj_weight': expected .*, got 3/,
  ],
  [
    'an empty state dict',
    () => attention.loadStateDict({}),
    'INVALID_ARGUMENT',
    /missing 'in_proj_weight' \[24, 8\], 'in_proj_bias' \[24\], 'out_proj.weight'/,
  ],
];

export const works = () => mha({}).output;
