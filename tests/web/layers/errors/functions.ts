import { draw } from '../numbers.js';
import { type Anything, heed, type Row, x } from './refusals.js';

/** An endless sequence of entries. */
const endless = (): Anything =>
  new Proxy([1], {
    get: (target, key) => (key === 'length' ? 2 ** 40 : typeof key === 'symbol' ? Reflect.get(target, key) : 1),
  });

/** A tensor whose data are allocated on access. */
const made = (length: number) => ({
  shape: [1, 2],
  get data() {
    return new Float32Array(length);
  },
});

export const rows: Row[] = [
  [
    'keys of another width',
    () => heed.attention(draw(1, 3, 4), draw(2, 3, 5), draw(3, 3, 4)),
    'SHAPE_MISMATCH',
    /key: expected .*4.*, got shape \[3, 5\]/,
  ],
  [
    'values of another length',
    () => heed.attention(draw(1, 3, 4), draw(2, 3, 4), draw(3, 2, 4)),
    'SHAPE_MISMATCH',
    /value: expected .*, got shape \[2, 4\]/,
  ],
  [
    'another batch',
    () => heed.attention(draw(1, 2, 3, 4), draw(2, 3, 3, 4), draw(3, 3, 3, 4)),
    'SHAPE_MISMATCH',
    /key: expected .*, got shape \[3, 3, 4\]/,
  ],
  [
    'a vector as query',
    () => heed.attention([1, 2], draw(2, 3, 2), draw(3, 3, 4)),
    'SHAPE_MISMATCH',
    /^query: expected \[\.\.\., L, Dk\], got shape \[2\]/,
  ],
  [
    'a weight of another width',
    () => heed.linear(x, { weight: draw(1, 3, 7) }),
    'SHAPE_MISMATCH',
    /weight: expected .*8.*, got shape \[3, 7\]/,
  ],
  [
    'a bias of another width',
    () => heed.linear(x, { weight: draw(1, 3, 8), bias: [1, 2] }),
    'SHAPE_MISMATCH',
    /bias: expected \[3\], got shape \[2\]/,
  ],
  [
    'a norm weight of another width',
    () => heed.layerNorm(x, { weight: [1, 2, 3] }),
    'SHAPE_MISMATCH',
    /weight: expected \[8\], got shape \[3\]/,
  ],
  ['ragged arrays', () => heed.softmax([[1, 2], [3]]), 'SHAPE_MISMATCH', /x/],
  [
    'masks that do not broadcast',
    () => heed.masks.and([[1, 1]], [[1, 1, 1]]),
    'SHAPE_MISMATCH',
    /masks\.and: b: expected a shape that broadcasts against a, \[1, 2\], got \[1, 3\]/,
  ],
  [
    'a length over the padded size',
    () => heed.masks.padding([3, 5], 4),
    'INVALID_ARGUMENT',
    /lengths.*expected .*at most 4, .*got 5/,
  ],
  [
    'a base of NaN',
    () => heed.positionalEncoding(3, 4, { base: Number.NaN }),
    'INVALID_ARGUMENT',
    /base: expected .*, got NaN/,
  ],
  [
    'a scale of NaN',
    () => heed.attention(x, x, x, { scale: Number.NaN }),
    'INVALID_ARGUMENT',
    /attention\.scale: expected .*, got NaN/,
  ],
  [
    'a window of NaN',
    () => heed.attention(x, x, x, { window: Number.NaN }),
    'INVALID_ARGUMENT',
    /window: expected .*, got NaN/,
  ],
  ['a length of -1', () => heed.positionalEncoding(-1, 4), 'INVALID_ARGUMENT', /length: expected .*, got -1/],
  ...[2, 1.5, -0.1, Number.NaN, '0.5'].map(
    (p): Row => [
      `a rate of ${p}`,
      () => heed.dropout(x, { p: p as Anything }),
      'INVALID_ARGUMENT',
      /p: expected a number in \[0, 1\], got .*/,
    ],
  ),
  [
    'a rate of 2 on the weights',
    () => heed.attention(x, x, x, { dropout: { p: 2 } }),
    'INVALID_ARGUMENT',
    /dropout\.p: expected .*, got 2/,
  ],
  [
    'an odd rotary width',
    () => heed.rotary(draw(1, 5, 7)),
    'INVALID_ARGUMENT',
    /rotary\.dim: expected an even number .*, got 7/,
  ],
  [
    'a rotary width past the features',
    () => heed.rotary(x, { dim: 10 }),
    'INVALID_ARGUMENT',
    /rotary\.dim: expected .*, got 10/,
  ],
  [
    'an unknown option of a function',
    () => heed.attention(x, x, x, { casual: true } as Anything),
    'INVALID_ARGUMENT',
    /expected 'causal' .*, got the unknown option 'casual'/,
  ],
  [
    'an unknown activation',
    () => heed.linear(x, { weight: draw(1, 3, 8), activation: 'rely' as Anything }),
    'INVALID_ARGUMENT',
    /activation: expected .*nearest: 'relu'\), got 'rely'/,
  ],
  [
    'no tensors',
    () => (heed as Anything).attention(),
    'INVALID_ARGUMENT',
    /^attention: query: expected a \{ data.*, got undefined/,
  ],
  [
    'an attention mask of another shape',
    () => heed.attention([[1]], [[1]], [[1]], { mask: [[1, 1]] }),
    'SHAPE_MISMATCH',
    /^mask: expected .*\[1, 1\], got shape \[1, 2\]/,
  ],
  [
    'an attention mask of rank 3',
    () => heed.attention([[1]], [[1]], [[1]], { mask: [[[1]]] }),
    'SHAPE_MISMATCH',
    /^mask: expected .*, got shape \[1, 1, 1\]/,
  ],
  [
    'an attention mask of texts',
    () => heed.attention([[1]], [[1]], [[1]], { mask: [['1']] as never }),
    'INVALID_ARGUMENT',
    /mask\[0\]\[0\]: expected booleans, or numbers that are added to the scores, got '1'/,
  ],
  [
    'a window of -1',
    () => heed.attention(x, x, x, { window: -1 }),
    'INVALID_ARGUMENT',
    /attention\.window: expected .*, got -1/,
  ],
  [
    'a rate in place of its options',
    () => heed.attention(x, x, x, { dropout: 0.1 as Anything }),
    'INVALID_ARGUMENT',
    /attention\.dropout: expected an options object, got 0\.1/,
  ],
  ['a number', () => heed.softmax(3 as Anything), 'INVALID_ARGUMENT', /^softmax: x: expected .*, got 3/],
  [
    'a tensor without axes',
    () => heed.softmax({ data: new Float32Array(1), shape: [] }),
    'SHAPE_MISMATCH',
    /^x: expected at least one axis, got shape \[\]/,
  ],
  ['no weight', () => (heed as Anything).linear([1]), 'INVALID_ARGUMENT', /linear\.weight: expected .*, got undefined/],
  [
    'an eps of 0',
    () => heed.layerNorm(x, { eps: 0 }),
    'INVALID_ARGUMENT',
    /layerNorm\.eps: expected a positive number, got 0/,
  ],
  [
    'an unknown scaling',
    () => heed.dropout(x, { scaling: 'half' as Anything }),
    'INVALID_ARGUMENT',
    /dropout\.scaling: expected .*, got 'half'/,
  ],
  [
    'a length of 1.5',
    () => heed.positionalEncoding(1.5, 2),
    'INVALID_ARGUMENT',
    /positionalEncoding: length: expected .*, got 1\.5/,
  ],
  [
    'a width of 0',
    () => heed.positionalEncoding(1, 0),
    'INVALID_ARGUMENT',
    /positionalEncoding: dim: expected .*, got 0/,
  ],
  ['more positions than memory', () => heed.positionalEncoding(2 ** 31 - 1, 2), 'OUT_OF_MEMORY', /2147483647/],
  [
    'a rotary position past 32 bits',
    () => heed.rotary([[1, 2]], { firstPosition: 2 ** 31 - 1 }),
    'INVALID_ARGUMENT',
    /^firstPosition: expected an integer from 0 to 2147483646, got 2147483647$/,
  ],
  [
    'an endless list',
    () => heed.masks.padding(endless()),
    'OUT_OF_MEMORY',
    /^masks\.padding: lengths: expected at most \d+ entries, got 1099511627776$/,
  ],
  [
    'an endless shape',
    () => heed.softmax({ data: new Float32Array(1), shape: endless() }),
    'INVALID_ARGUMENT',
    /shape: expected at most \d+ axes, got 1099511627776/,
  ],
  ['endless rows', () => heed.softmax(endless()), 'OUT_OF_MEMORY', /./],
  [
    'a tensor whose memory the engine refuses',
    () => heed.softmax(made(2 ** 53)),
    'OUT_OF_MEMORY',
    /: out of memory \(/,
  ],
];

export const works = () => heed.attention(x, x, x).output;
