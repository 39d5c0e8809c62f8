import { draw } from '../numbers.js';
import { type Anything, heed, make, type Row, sizes, x } from './refusals.js';

// Shared: what a test makes and drops stays until the garbage collector comes by.
const encoder = new heed.Encoder({ ...sizes, numLayers: 1 });
const encoderLayer = new heed.EncoderLayer(sizes);
const encode = (call: object, input: Anything = x) => encoderLayer.forward(input, call);

export const rows: Row[] = [
  [
    'an input of another width',
    () => encode({}, draw(1, 2, 5, 7)),
    'SHAPE_MISMATCH',
    /x: got shape \[2, 5, 7\]; expected .*8/,
  ],
  [
    'an input of rank 4',
    () => encode({}, draw(1, 1, 2, 5, 8)),
    'SHAPE_MISMATCH',
    /x: got shape \[1, 2, 5, 8\]; expected/,
  ],
  [
    'heads that do not divide, in a stack',
    () => make('Encoder', { ...sizes, numHeads: 5, numLayers: 1 }),
    'INVALID_ARGUMENT',
    /numHeads: got 5/,
  ],
  ['an eps of -1', () => make('EncoderLayer', { ...sizes, eps: -1 }), 'INVALID_ARGUMENT', /eps: got -1/],
  [
    'a rate of 2 in an encoder',
    () => make('Encoder', { ...sizes, numLayers: 1, dropout: 2 }),
    'INVALID_ARGUMENT',
    /dropout: got 2; expected a number in \[0, 1\]/,
  ],
  [
    'pruning a head that is not there',
    () => encoderLayer.prune([2]),
    'INVALID_ARGUMENT',
    /heads\[0\]: got 2; expected an integer from 0 to 1/,
  ],
  ['flops of no length', () => encoderLayer.flops(0), 'INVALID_ARGUMENT', /flops: length: got 0/],
  [
    'an unknown option',
    () => make('EncoderLayer', { ...sizes, nhead: 2 }),
    'INVALID_ARGUMENT',
    /unknown option 'nhead'; expected 'numHeads'/,
  ],
  ['an input that is no tensor', () => encode({}, 'words'), 'INVALID_ARGUMENT', /x: got 'words'; expected/],
  ['an input of texts', () => encode({}, [['a', 'b']]), 'INVALID_ARGUMENT', /x.*'a'.*; expected/],
  [
    'doubles',
    () => encode({}, { data: new Float64Array(8), shape: [1, 8] }),
    'INVALID_ARGUMENT',
    /x\.data: got a Float64Array; expected a Float32Array/,
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
    /Encoder\.numLayers: got 1000000000/,
  ],
  [
    'a head mask without layers',
    () => encoder.forward(x, { headMask: [1, 1] }),
    'SHAPE_MISMATCH',
    /^headMask: got shape \[2\]; expected \[1, 2\]/,
  ],
  [
    'a list whose length is made up',
    () => encoder.prune(Object.assign([[0]], { length: 2 ** 32 - 1 })),
    'OUT_OF_MEMORY',
    /^Encoder\.prune: heads: got 4294967295 entries; expected at most 33554432/,
  ],
  [
    'heads that are in no lists',
    () => encoder.prune([0] as Anything),
    'INVALID_ARGUMENT',
    /^Encoder\.prune: heads\[0\]: got 0; expected an array of head indices/,
  ],
];

export const works = () => encode({}).output;
