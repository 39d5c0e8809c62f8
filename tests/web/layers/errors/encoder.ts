import { draw } from '../numbers.js';
import { type Anything, heed, make, type Row, sizes, x } from './refusals.js';

// Shared by all tests, because undisposed layers stay in memory until garbage collection.
const encoder = new heed.Encoder({ ...sizes, numLayers: 1 });
const encoderLayer = new heed.EncoderLayer(sizes);
const encode = (call: object, input: Anything = x) => encoderLayer.forward(input, call);

export const rows: Row[] = [
  [
    'an input of another width',
    () => encode({}, draw(1, 2, 5, 7)),
    'SHAPE_MISMATCH',
    /x: expected .*8\], got shape \[2, 5, 7\]/,
  ],
  [
    'an input of rank 4',
    () => encode({}, draw(1, 1, 2, 5, 8)),
    'SHAPE_MISMATCH',
    /x: expected .*, got shape \[1, 2, 5, 8\]/,
  ],
  [
    'heads that do not divide, in a stack',
    () => make('Encoder', { ...sizes, numHeads: 5, numLayers: 1 }),
    'INVALID_ARGUMENT',
    /numHeads: expected .*, got 5/,
  ],
  ['an eps of -1', () => make('EncoderLayer', { ...sizes, eps: -1 }), 'INVALID_ARGUMENT', /eps: expected .*, got -1/],
  [
    'a rate of 2 in an encoder',
    () => make('Encoder', { ...sizes, numLayers: 1, dropout: 2 }),
    'INVALID_ARGUMENT',
    /dropout: expected a number in \[0, 1\], got 2/,
  ],
  [
    'pruning a head that is not there',
    () => encoderLayer.prune([2]),
    'INVALID_ARGUMENT',
    /heads\[0\]: expected an integer from 0 to 1, got 2/,
  ],
  ['flops of no length', () => encoderLayer.flops(0), 'INVALID_ARGUMENT', /flops: length: expected .*, got 0/],
  [
    'an unknown option',
    () => make('EncoderLayer', { ...sizes, nhead: 2 }),
    'INVALID_ARGUMENT',
    /expected 'numHeads' .*, got the unknown option 'nhead'/,
  ],
  ['an input that is no tensor', () => encode({}, 'words'), 'INVALID_ARGUMENT', /x: expected .*, got 'words'/],
  ['an input of texts', () => encode({}, [['a', 'b']]), 'INVALID_ARGUMENT', /x.*expected .*, got .*'a'/],
  [
    'doubles',
    () => encode({}, { data: new Float64Array(8), shape: [1, 8] }),
    'INVALID_ARGUMENT',
    /x\.data: expected a Float32Array, got a Float64Array/,
  ],
  [
    'a shape that does not hold its data',
    () => encode({}, { data: new Float32Array(7), shape: [1, 8] }),
    'SHAPE_MISMATCH',
    /x.*\[1, 8\].*7|x.*7.*\[1, 8\]/,
  ],
  [
    'too many layers',
    () => make('Encoder', { ...sizes, numLayers: 1e9 }),
    'INVALID_ARGUMENT',
    /Encoder\.numLayers: expected .*, got 1000000000/,
  ],
  [
    'a head mask without layers',
    () => encoder.forward(x, { headMask: [1, 1] }),
    'SHAPE_MISMATCH',
    /^headMask: expected \[1, 2\], got shape \[2\]/,
  ],
  [
    'a list whose length is made up',
    () => encoder.prune(Object.assign([[0]], { length: 2 ** 32 - 1 })),
    'OUT_OF_MEMORY',
    /^Encoder\.prune: heads: expected at most 33554432 entries, got 4294967295/,
  ],
  [
    'heads that are in no lists',
    () => encoder.prune([0] as Anything),
    'INVALID_ARGUMENT',
    /^Encoder\.prune: heads\[0\]: expected an array of head indices, got 0/,
  ],
];

export const works = () => encode({}).output;
