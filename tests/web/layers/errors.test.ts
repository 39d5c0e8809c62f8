/** What cannot be: each wrong call is a HeedError that names the argument, what it got and what is legal, and leaves everything as it was. */
import { type Heed, HeedError, load, Tensor } from 'heed';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw } from './numbers.js';

let heed: Heed;
// Shared: what a test makes and drops stays until the garbage collector comes by.
let attention: InstanceType<Heed['MultiHeadAttention']>;
let encoderLayer: InstanceType<Heed['EncoderLayer']>;
let decoderLayer: InstanceType<Heed['DecoderLayer']>;
beforeAll(async () => {
  heed = await load();
  attention = new heed.MultiHeadAttention({ embedDim: 8, numHeads: 2 });
  encoderLayer = new heed.EncoderLayer(layer);
  decoderLayer = new heed.DecoderLayer(layer);
});

/** Calls that TypeScript would not let pass. */
// biome-ignore lint/suspicious/noExplicitAny: wrong on purpose
type Anything = any;

const x = draw(1, 2, 5, 8);
const layer = { embedDim: 8, numHeads: 2, feedForwardDim: 12 };
const mha = (call: object, query: Anything = x) => attention.forward(query, call);
const encode = (call: object, input: Anything = x) => encoderLayer.forward(input, call);
const decode = (call: object, target: Anything = x, memory: Anything = x) => decoderLayer.forward(target, memory, call);
const make = (name: string, options: Anything) => new (heed as Anything)[name](options);
/** Makes a layer for one call. */
const once = (name: string, options: Anything, input: Anything = x) => {
  const made = make(name, options);
  try {
    return made.forward(input);
  } finally {
    made.dispose();
  }
};

type Row = [what: string, call: () => unknown, code: string, message: RegExp];

const wrongShapes: Row[] = [
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
    'a memory of another width',
    () => decode({}, x, draw(1, 2, 5, 7)),
    'SHAPE_MISMATCH',
    /memory: got shape \[2, 5, 7\]; expected/,
  ],
  [
    'a memory of another batch',
    () => decode({}, x, draw(1, 3, 5, 8)),
    'SHAPE_MISMATCH',
    /memory: got (shape \[3, 5, 8\]|a batch of 3); expected/,
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
    /x: got shape \[2, 5, 8\]; expected .*6/,
  ],
  [
    'features of another count',
    () => once('BatchNorm', { numFeatures: 3 }),
    'SHAPE_MISMATCH',
    /x: got shape \[2, 5, 8\]; expected .*3/,
  ],
];

const wrongMasks: Row[] = [
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
    'a memory key mask of another length',
    () => decode({ memoryKeyMask: [[1], [1]] }),
    'SHAPE_MISMATCH',
    /memoryKeyMask: got shape \[2, 1\]; expected \[2, 5\]/,
  ],
  [
    'a memory mask of another width',
    () => decode({ memoryMask: [[1, 1]] }),
    'SHAPE_MISMATCH',
    /memoryMask: got shape \[1, 2\]; expected/,
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
];

const wrongNumbers: Row[] = [
  [
    'heads that do not divide the width',
    () => make('MultiHeadAttention', { embedDim: 8, numHeads: 3 }),
    'INVALID_ARGUMENT',
    /numHeads: got 3.*; expected .*8/,
  ],
  [
    'heads that do not divide, in a stack',
    () => make('Encoder', { ...layer, numHeads: 5, numLayers: 1 }),
    'INVALID_ARGUMENT',
    /numHeads: got 5/,
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
  ['an eps of -1', () => make('EncoderLayer', { ...layer, eps: -1 }), 'INVALID_ARGUMENT', /eps: got -1/],
  ['a base of NaN', () => heed.positionalEncoding(3, 4, { base: Number.NaN }), 'INVALID_ARGUMENT', /base: got NaN/],
  ['a scale of NaN', () => heed.attention(x, x, x, { scale: Number.NaN }), 'INVALID_ARGUMENT', /scale: got NaN/],
  ['a window of NaN', () => heed.attention(x, x, x, { window: Number.NaN }), 'INVALID_ARGUMENT', /window: got NaN/],
  ['a window of -1', () => mha({ window: -1 }), 'INVALID_ARGUMENT', /window: got -1; expected an integer from 0/],
  ['a length of -1', () => heed.positionalEncoding(-1, 4), 'INVALID_ARGUMENT', /length: got -1/],
  ...[1, 1.5, -0.1, Number.NaN, '0.5'].map(
    (p): Row => [
      `a rate of ${p}`,
      () => heed.dropout(x, { p: p as Anything }),
      'INVALID_ARGUMENT',
      /p: got .*; expected a number in \[0, 1\)/,
    ],
  ),
  [
    'a rate of 1 in a layer',
    () => make('Dropout', { p: 1 }),
    'INVALID_ARGUMENT',
    /p: got 1; expected a number in \[0, 1\)/,
  ],
  [
    'a rate of 1 in an encoder',
    () => make('Encoder', { ...layer, numLayers: 1, dropout: 1 }),
    'INVALID_ARGUMENT',
    /dropout: got 1; expected a number in \[0, 1\)/,
  ],
  [
    'a rate of 2 on the weights',
    () => heed.attention(x, x, x, { dropout: { p: 2 } }),
    'INVALID_ARGUMENT',
    /dropout\.p: got 2/,
  ],
  ['an odd rotary width', () => heed.rotary(draw(1, 5, 7)), 'INVALID_ARGUMENT', /dim/],
  ['a rotary width past the features', () => heed.rotary(x, { dim: 10 }), 'INVALID_ARGUMENT', /dim/],
  ['pruning all heads', () => attention.prune([0, 1]), 'INVALID_ARGUMENT', /heads: got all 2 heads; expected/],
  [
    'pruning a head that is not there',
    () => encoderLayer.prune([2]),
    'INVALID_ARGUMENT',
    /heads\[0\]: got 2; expected an integer from 0 to 1/,
  ],
  ['flops of no length', () => encoderLayer.flops(0), 'INVALID_ARGUMENT', /flops: length: got 0/],
];

const wrongOptions: Row[] = [
  [
    'an unknown option',
    () => make('EncoderLayer', { ...layer, nhead: 2 }),
    'INVALID_ARGUMENT',
    /unknown option 'nhead'; expected 'numHeads'/,
  ],
  [
    'an unknown option of a call',
    () => mha({ keymask: [[1]] }),
    'INVALID_ARGUMENT',
    /unknown option 'keymask'; expected 'keyMask'/,
  ],
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
  [
    'options that are no object',
    () => make('Linear', 8),
    'INVALID_ARGUMENT',
    /Linear: got 8; expected an options object/,
  ],
  ['a boolean as text', () => mha({ causal: 'yes' }), 'INVALID_ARGUMENT', /causal: got 'yes'; expected true or false/],
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
];

describe.each([
  ['shapes that do not fit', wrongShapes],
  ['masks', wrongMasks],
  ['numbers', wrongNumbers],
  ['options', wrongOptions],
])('%s', (_, table) => {
  it.each(table)('%s', (_what, call, code, message) => {
    const thrown = caught(call);
    expect(thrown).toBeInstanceOf(HeedError);
    expect(thrown).toMatchObject({ code, message: expect.stringMatching(message) });
    expect((thrown as Error).message).toMatch(/got .*; expected .+/);
  });
});

describe('state dicts', () => {
  const state = () => new heed.EncoderLayer({ ...layer, seed: 1 }).stateDict();
  const faults: [string, (s: Anything) => void, RegExp][] = [
    ['missing', (s) => delete s['norm2.bias'], /missing 'norm2\.bias' \[8\]/],
    ['unexpected', (s) => (s['norm3.bias'] = new Tensor(new Float32Array(8), [8])), /unexpected 'norm3\.bias'/],
    [
      'misshapen',
      (s) => (s['linear1.weight'] = draw(1, 8, 12)),
      /misshapen 'linear1\.weight' got \[8, 12\], expected \[12, 8\]/,
    ],
    ['no tensors', (s) => (s['norm2.weight'] = 'ones'), /'norm2\.weight': got 'ones'/],
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

  it.each(faults)('that are wrong are refused and change nothing: %s', (_, spoil, message) => {
    const target = new heed.EncoderLayer({ ...layer, seed: 2 });
    const [before, output] = [target.stateDict(), target.forward(x).output.data];
    const wrong = state();
    spoil(wrong);
    expect(caught(() => target.loadStateDict(wrong))).toMatchObject({ message: expect.stringMatching(message) });
    expect(target.stateDict()).toEqual(before);
    expect(target.forward(x).output.data).toEqual(output);
  });

  it('go from one layer to another', () => {
    const target = new heed.EncoderLayer({ ...layer, seed: 2 });
    target.loadStateDict(state());
    expect(target.stateDict()).toEqual(state());
  });
});

describe('lifetimes', () => {
  it('end with dispose(), for every class', () => {
    const made = [
      make('Linear', { inFeatures: 8, outFeatures: 2 }),
      make('LayerNorm', { normalizedShape: 8 }),
      make('BatchNorm', { numFeatures: 8 }),
      make('Dropout', { p: 0.5 }),
      make('PositionalEncoding', { embedDim: 8 }),
      make('FeedForward', { embedDim: 8, feedForwardDim: 4 }),
      make('MultiHeadAttention', { embedDim: 8, numHeads: 2 }),
      make('EncoderLayer', layer),
      make('Encoder', { ...layer, numLayers: 1 }),
      make('DecoderLayer', layer),
      make('Decoder', { ...layer, numLayers: 1 }),
      make('Transformer', { ...layer, numEncoderLayers: 1, numDecoderLayers: 1 }),
    ];
    for (const one of made) {
      one.dispose();
      one.dispose();
      const uses = [
        () => one.forward(x, x),
        () => one.stateDict(),
        () => one.loadStateDict({}),
        () => one.train(),
        () => one.parameterCount,
        () => one.summary(),
      ];
      for (const use of uses)
        expect(caught(use)).toMatchObject({ code: 'DISPOSED', message: expect.stringContaining('dispose()') });
    }
  });

  it('do not cross runtimes', async () => {
    const other = await load({
      wasm: await import('node:fs/promises').then((fs) =>
        fs.readFile(new URL(`../../../dist/heed-${heed.info.build}.wasm`, import.meta.url)),
      ),
    });
    expect(other).not.toBe(heed);
    const options = { ...layer, numLayers: 1 };
    const cache = new other.Decoder(options).makeCache(draw(1, 3, 8));
    const decoder = new heed.Decoder(options);
    expect(caught(() => decoder.step(draw(1, 1, 8), cache))).toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(/cache: got another layer's; expected/),
    });
    expect(caught(() => decoder.step(draw(1, 1, 8), {} as Anything))).toMatchObject({ code: 'INVALID_ARGUMENT' });
    const sibling = new heed.Decoder({ ...options, embedDim: 16 });
    expect(caught(() => decoder.step(draw(1, 1, 8), sibling.makeCache(draw(1, 3, 16))))).toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    const layerOfOther = new other.EncoderLayer(layer);
    other.dispose();
    expect(caught(() => layerOfOther.forward(x))).toMatchObject({ code: 'DISPOSED' });
    expect(caught(() => new other.EncoderLayer(layer))).toMatchObject({ code: 'DISPOSED' });
    expect(encode({}).output.shape).toEqual([2, 5, 8]);
  });

  it('leave no memory behind when calls fail', () => {
    const tables = [wrongShapes, wrongMasks, wrongNumbers, wrongOptions];
    const all = () => {
      for (const table of tables) for (const [, call] of table) caught(call);
    };
    for (let i = 0; i < 20; i++) all();
    const before = heed.info.memoryBytes;
    for (let i = 0; i < 200; i++) all();
    expect(heed.info.memoryBytes).toBe(before);
    expect(encode({}).output.data.every(Number.isFinite)).toBe(true);
  });
});

function caught(call: () => unknown): unknown {
  try {
    const made = call();
    if (typeof (made as { dispose?: unknown })?.dispose === 'function') (made as { dispose(): void }).dispose();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}
