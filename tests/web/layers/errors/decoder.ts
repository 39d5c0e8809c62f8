import { draw } from '../numbers.js';
import { type Anything, heed, type Row, sizes, x } from './refusals.js';

// Shared by all tests, because undisposed layers stay in memory until garbage collection.
const decoder = new heed.Decoder({ ...sizes, numLayers: 1 });
const transformer = new heed.Transformer({ ...sizes, numEncoderLayers: 1, numDecoderLayers: 1 });
const decoderLayer = new heed.DecoderLayer(sizes);
const decode = (call: object, target: Anything = x, memory: Anything = x) => decoderLayer.forward(target, memory, call);

const step = (memory: Anything, target: Anything) => {
  using cache = decoderLayer.makeCache(memory);
  return decoderLayer.step(target, cache);
};

export const rows: Row[] = [
  [
    'a memory of another width',
    () => decode({}, x, draw(1, 2, 5, 7)),
    'SHAPE_MISMATCH',
    /memory: expected .*, got shape \[2, 5, 7\]/,
  ],
  [
    'a memory of another batch',
    () => decode({}, x, draw(1, 3, 5, 8)),
    'SHAPE_MISMATCH',
    /memory: expected .*, got (shape \[3, 5, 8\]|a batch of 3)/,
  ],
  [
    'a memory key mask of another length',
    () => decode({ memoryKeyMask: [[1], [1]] }),
    'SHAPE_MISMATCH',
    /memoryKeyMask: expected \[2, 5\], got shape \[2, 1\]/,
  ],
  [
    'a memory mask of another width',
    () => decode({ memoryMask: [[1, 1]] }),
    'SHAPE_MISMATCH',
    /memoryMask: expected .*, got shape \[1, 2\]/,
  ],
  [
    'a cache of no sequence',
    () => decoderLayer.makeCache(draw(1, 0, 5, 8)),
    'INVALID_ARGUMENT',
    /memory: expected at least 1 sequence, got 0/,
  ],
  [
    'a key mask of another length for a cache',
    () => decoderLayer.makeCache(x, { keyMask: [[1, 1]] }),
    'SHAPE_MISMATCH',
    /keyMask: expected \[2, 5\], got shape \[1, 2\]/,
  ],
  [
    'a step of another batch',
    () => step(x, draw(1, 3, 1, 8)),
    'SHAPE_MISMATCH',
    /target: expected \[2, L, 8\], like the memory of the cache, got shape \[3, 1, 8\]/,
  ],
  [
    'a step of one sequence after a batch',
    () => step(x, draw(1, 1, 8)),
    'SHAPE_MISMATCH',
    /target: expected \[2, L, 8\], like the memory of the cache, got shape \[1, 8\]/,
  ],
  [
    'a step of a batch after one sequence',
    () => step(draw(1, 5, 8), draw(1, 1, 1, 8)),
    'SHAPE_MISMATCH',
    /target: expected \[L, 8\], like the memory of the cache, got shape \[1, 1, 8\]/,
  ],
  ['no memory', () => (decoder as Anything).forward(x), 'INVALID_ARGUMENT', /memory: expected .*, got undefined/],
  [
    'a target of another width',
    () => transformer.forward(x, draw(1, 2, 5, 3)),
    'SHAPE_MISMATCH',
    /^target: expected .*, got shape \[2, 5, 3\]/,
  ],
];

export const works = () => decode({}).output;
