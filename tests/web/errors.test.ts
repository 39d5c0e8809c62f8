// For every call: what a person may get wrong, and what the error then says.
import { type Heed, type HeedError, load } from 'heed';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';

let heed: Heed;
beforeAll(async () => {
  heed = await load();
});

// Whatever went wrong, the runtime works afterwards.
afterEach(() => expect(heed.softmax([0, 0]).toArray()).toEqual([0.5, 0.5]));

const zeros = (...shape: number[]) => ({ data: new Float32Array(shape.reduce((a, b) => a * b, 1)), shape });
// biome-ignore lint/suspicious/noExplicitAny: the types forbid most of these calls, that is the point
type Loose = any;

const cases: [string, (h: Loose) => unknown, string, RegExp][] = [
  [
    'attention without tensors',
    (h) => h.attention(),
    'INVALID_ARGUMENT',
    /^attention: query: got undefined; expected a \{ data/,
  ],
  [
    'attention of vectors',
    (h) => h.attention([1], [1], [1]),
    'SHAPE_MISMATCH',
    /^query: got shape \[1\]; expected \[\.\.\., L, Dk\]/,
  ],
  [
    'attention, key width',
    (h) => h.attention([[1, 2]], [[1]], [[1]]),
    'SHAPE_MISMATCH',
    /^key: got shape \[1, 1\]; expected .*\[\.\.\., S, 2\]/,
  ],
  [
    'attention, leading axes',
    (h) => h.attention(zeros(2, 3, 4), zeros(3, 3, 4), zeros(3, 3, 4)),
    'SHAPE_MISMATCH',
    /^key: got shape \[3, 3, 4\]/,
  ],
  [
    'attention, value length',
    (h) => h.attention([[1]], [[1]], [[1], [2]]),
    'SHAPE_MISMATCH',
    /^value: got shape \[2, 1\]; expected .*\[\.\.\., 1, Dv\]/,
  ],
  [
    'attention, mask shape',
    (h) => h.attention([[1]], [[1]], [[1]], { mask: [[1, 1]] }),
    'SHAPE_MISMATCH',
    /^mask: got shape \[1, 2\]; expected .*\[1, 1\]/,
  ],
  [
    'attention, mask rank',
    (h) => h.attention([[1]], [[1]], [[1]], { mask: [[[1]]] }),
    'SHAPE_MISMATCH',
    /^mask: got shape \[1, 1, 1\]/,
  ],
  [
    'attention, mask entry',
    (h) => h.attention([[1]], [[1]], [[1]], { mask: [[2]] }),
    'INVALID_ARGUMENT',
    /mask\[0\]\[0\]: got 2; expected true, false, 1 or 0/,
  ],
  [
    'attention, negative window',
    (h) => h.attention([[1]], [[1]], [[1]], { window: -1 }),
    'INVALID_ARGUMENT',
    /attention\.window: got -1/,
  ],
  [
    'attention, scale',
    (h) => h.attention([[1]], [[1]], [[1]], { scale: NaN }),
    'INVALID_ARGUMENT',
    /attention\.scale: got NaN/,
  ],
  [
    'attention, dropout',
    (h) => h.attention([[1]], [[1]], [[1]], { dropout: { p: 1.5 } }),
    'INVALID_ARGUMENT',
    /attention\.dropout\.p: got 1\.5; expected a number in \[0, 1\]/,
  ],
  [
    'attention, dropout as a number',
    (h) => h.attention([[1]], [[1]], [[1]], { dropout: 0.1 }),
    'INVALID_ARGUMENT',
    /attention\.dropout: got 0\.1; expected an options object/,
  ],
  [
    'attention, unknown option',
    (h) => h.attention([[1]], [[1]], [[1]], { casual: true }),
    'INVALID_ARGUMENT',
    /unknown option 'casual'; expected 'causal'/,
  ],
  ['softmax of a number', (h) => h.softmax(3), 'INVALID_ARGUMENT', /^softmax: x: got 3/],
  [
    'softmax without axes',
    (h) => h.softmax(zeros()),
    'SHAPE_MISMATCH',
    /^x: got shape \[\]; expected at least one axis/,
  ],
  ['linear without weight', (h) => h.linear([1]), 'INVALID_ARGUMENT', /linear\.weight: got undefined/],
  [
    'linear, weight shape',
    (h) => h.linear([1], { weight: [[1, 2]] }),
    'SHAPE_MISMATCH',
    /^weight: got shape \[1, 2\]; expected \[out, 1\]/,
  ],
  [
    'linear, bias',
    (h) => h.linear([1], { weight: [[1]], bias: [1, 2] }),
    'SHAPE_MISMATCH',
    /^bias: got shape \[2\]; expected \[1\]/,
  ],
  [
    'linear, activation',
    (h) => h.linear([1], { weight: [[1]], activation: 'rleu' }),
    'INVALID_ARGUMENT',
    /got 'rleu'; .*nearest: 'relu'/,
  ],
  [
    'layerNorm, weight',
    (h) => h.layerNorm([1, 2], { weight: [1] }),
    'SHAPE_MISMATCH',
    /^weight: got shape \[1\]; expected \[2\]/,
  ],
  [
    'layerNorm, eps',
    (h) => h.layerNorm([1, 2], { eps: 0 }),
    'INVALID_ARGUMENT',
    /layerNorm\.eps: got 0; expected a positive number/,
  ],
  ['dropout, rate', (h) => h.dropout([1], { p: -0.1 }), 'INVALID_ARGUMENT', /dropout\.p: got -0\.1/],
  ['dropout, scaling', (h) => h.dropout([1], { scaling: 'half' }), 'INVALID_ARGUMENT', /dropout\.scaling: got 'half'/],
  [
    'positionalEncoding, length',
    (h) => h.positionalEncoding(1.5, 2),
    'INVALID_ARGUMENT',
    /positionalEncoding: length: got 1\.5/,
  ],
  ['positionalEncoding, dim', (h) => h.positionalEncoding(1, 0), 'INVALID_ARGUMENT', /positionalEncoding: dim: got 0/],
  ['positionalEncoding, huge', (h) => h.positionalEncoding(2 ** 31 - 1, 2), 'OUT_OF_MEMORY', /2147483647/],
  ['rotary, odd', (h) => h.rotary([[1, 2, 3]]), 'INVALID_ARGUMENT', /rotary\.dim: got 3; expected an even number/],
  ['rotary, too wide', (h) => h.rotary([[1, 2]], { dim: 4 }), 'INVALID_ARGUMENT', /rotary\.dim: got 4/],
  ['rotary, far away', (h) => h.rotary([[1, 2]], { firstPosition: 2 ** 31 - 1 }), 'OUT_OF_MEMORY', /./],
  ['Linear without options', (h) => new h.Linear(), 'INVALID_ARGUMENT', /Linear\.inFeatures: got undefined/],
  [
    'Linear, NaN',
    (h) => new h.Linear({ inFeatures: NaN, outFeatures: 1 }),
    'INVALID_ARGUMENT',
    /Linear\.inFeatures: got NaN/,
  ],
  ['Linear, huge', (h) => new h.Linear({ inFeatures: 2 ** 20, outFeatures: 2 ** 20 }), 'OUT_OF_MEMORY', /1048576/],
  [
    'Linear, input',
    (h) => new h.Linear({ inFeatures: 2, outFeatures: 1 }).forward([1, 2, 3]),
    'SHAPE_MISMATCH',
    /^x: got shape \[3\]; expected \[\.\.\., 2\]/,
  ],
  [
    'LayerNorm, options of PyTorch',
    (h) => new h.LayerNorm({ normalized_shape: 3 }),
    'INVALID_ARGUMENT',
    /unknown option 'normalized_shape'; expected 'normalizedShape'/,
  ],
  ['Dropout, rate', (h) => new h.Dropout({ p: 2 }), 'INVALID_ARGUMENT', /Dropout\.p: got 2/],
  [
    'PositionalEncoding, mode',
    (h) => new h.PositionalEncoding({ embedDim: 2, mode: 'mul' }),
    'INVALID_ARGUMENT',
    /PositionalEncoding\.mode: got 'mul'/,
  ],
  [
    'FeedForward, input',
    (h) => new h.FeedForward({ embedDim: 2, feedForwardDim: 4 }).forward([[1]]),
    'SHAPE_MISMATCH',
    /^x: got shape \[1, 1\]/,
  ],
  [
    'MHA, heads that do not divide',
    (h) => new h.MultiHeadAttention({ embedDim: 10, numHeads: 3 }),
    'INVALID_ARGUMENT',
    /numHeads: got 3; expected a divisor of embedDim, 10/,
  ],
  [
    'MHA, overflow',
    (h) => new h.MultiHeadAttention({ embedDim: 4, numHeads: 2 ** 31 - 1, keyDim: 2 ** 31 - 1, valueDim: 1 }),
    'OUT_OF_MEMORY',
    /2147483647/,
  ],
  [
    'MHA, transformers.js spelling',
    (h) => new h.MultiHeadAttention({ embedDim: 4, num_heads: 2 }),
    'INVALID_ARGUMENT',
    /unknown option 'num_heads'; expected 'numHeads'/,
  ],
  [
    'MHA, width',
    (h) => mha(h).forward(zeros(1, 2, 5)),
    'SHAPE_MISMATCH',
    /^query: got shape \[1, 2, 5\]; expected \[N, L, 4\] or \[L, 4\]/,
  ],
  ['MHA, rank', (h) => mha(h).forward(zeros(1, 1, 2, 4)), 'SHAPE_MISMATCH', /^query: got shape \[1, 1, 2, 4\]/],
  [
    'MHA, batches',
    (h) => mha(h).forward(zeros(2, 2, 4), { key: zeros(3, 2, 4) }),
    'SHAPE_MISMATCH',
    /^key: got a batch of 3; expected 2/,
  ],
  ['MHA, batched and not', (h) => mha(h).forward(zeros(1, 2, 4), { key: zeros(2, 4) }), 'SHAPE_MISMATCH', /^key: got/],
  [
    'MHA, value length',
    (h) => mha(h).forward(zeros(1, 2, 4), { key: zeros(1, 3, 4), value: zeros(1, 2, 4) }),
    'SHAPE_MISMATCH',
    /^value: got 2 rows; expected 3/,
  ],
  [
    'MHA, key mask',
    (h) => mha(h).forward(zeros(1, 2, 4), { keyMask: [[1, 1, 1]] }),
    'SHAPE_MISMATCH',
    /^keyMask: got shape \[1, 3\]; expected \[1, 2\]/,
  ],
  [
    'MHA, key mask rank',
    (h) => mha(h).forward(zeros(2, 2, 4), { keyMask: [1, 1] }),
    'SHAPE_MISMATCH',
    /^keyMask: got shape \[2\]; expected \[2, 2\]/,
  ],
  [
    'MHA, mask rank',
    (h) => mha(h).forward(zeros(1, 2, 4), { mask: zeros(1, 1, 1, 2, 2) }),
    'SHAPE_MISMATCH',
    /^mask: got shape \[1, 1, 1, 2, 2\]/,
  ],
  [
    'MHA, head mask',
    (h) => mha(h).forward(zeros(1, 2, 4), { headMask: [1, 1, 1] }),
    'SHAPE_MISMATCH',
    /^headMask: got shape \[3\]; expected \[2\] or \[1, 2\]/,
  ],
  [
    'MHA, to come',
    (h) => mha(h).forward(zeros(1, 2, 4), { backward: true }),
    'INVALID_ARGUMENT',
    /unknown option 'backward'/,
  ],
  [
    'MHA, state dict of nothing',
    (h) => mha(h).loadStateDict(null),
    'INVALID_ARGUMENT',
    /loadStateDict: got null; expected a record of tensors/,
  ],
  [
    'MHA, state dict of numbers',
    (h) => mha(h).loadStateDict({ in_proj_weight: 3 }),
    'INVALID_ARGUMENT',
    /'in_proj_weight': got 3/,
  ],
  [
    'MHA, state dict in part',
    (h) => mha(h).loadStateDict({}),
    'INVALID_ARGUMENT',
    /missing 'in_proj_weight' \[12, 4\], 'in_proj_bias' \[12\], 'out_proj.weight'/,
  ],
  [
    'Encoder, layers',
    (h) => new h.Encoder({ embedDim: 4, numHeads: 2, feedForwardDim: 4, numLayers: 1e9 }),
    'INVALID_ARGUMENT',
    /Encoder\.numLayers: got 1000000000/,
  ],
  [
    'Encoder, head mask',
    (h) => encoder(h).forward(zeros(2, 4), { headMask: [1, 1] }),
    'SHAPE_MISMATCH',
    /^headMask: got shape \[2\]; expected \[1, 2\]/,
  ],
  [
    'Decoder without memory',
    (h) => new h.Decoder({ embedDim: 4, numHeads: 2, feedForwardDim: 4, numLayers: 1 }).forward(zeros(2, 4)),
    'INVALID_ARGUMENT',
    /memory: got undefined/,
  ],
  [
    'a list whose length is made up',
    (h) => encoder(h).prune(Object.assign([[0]], { length: 2 ** 32 - 1 })),
    'OUT_OF_MEMORY',
    /^Encoder\.prune: heads: got 4294967295 entries; expected at most 33554432/,
  ],
  [
    'a list of heads that is none',
    (h) => encoder(h).prune([0]),
    'INVALID_ARGUMENT',
    /^Encoder\.prune: heads\[0\]: got 0; expected an array of head indices/,
  ],
  [
    'an endless list',
    (h) => h.masks.padding(endless()),
    'OUT_OF_MEMORY',
    /^masks\.padding: lengths: got 1099511627776 /,
  ],
  [
    'an endless shape',
    (h) => h.softmax({ data: new Float32Array(1), shape: endless() }),
    'INVALID_ARGUMENT',
    /shape: got 1099511627776 axes/,
  ],
  ['endless rows', (h) => h.softmax(endless()), 'OUT_OF_MEMORY', /./],
  [
    'a tensor whose memory the engine refuses',
    (h) => h.softmax(made(2 ** 53)),
    'OUT_OF_MEMORY',
    /: the engine refused the memory \(/,
  ],
  [
    'Transformer, target',
    (h) =>
      new h.Transformer({
        embedDim: 4,
        numHeads: 2,
        feedForwardDim: 4,
        numEncoderLayers: 1,
        numDecoderLayers: 1,
      }).forward(zeros(2, 4), zeros(2, 3)),
    'SHAPE_MISMATCH',
    /^target: got shape \[2, 3\]/,
  ],
];

/** Ones without end. */
const endless = () =>
  new Proxy([1], {
    get: (target, key) => (key === 'length' ? 2 ** 40 : typeof key === 'symbol' ? Reflect.get(target, key) : 1),
  });

/** A tensor that is only made when it is asked for. */
const made = (length: number) => ({
  shape: [1, 2],
  get data() {
    return new Float32Array(length);
  },
});

const mha = (h: Loose) => new h.MultiHeadAttention({ embedDim: 4, numHeads: 2 });
const encoder = (h: Loose) => new h.Encoder({ embedDim: 4, numHeads: 2, feedForwardDim: 4, numLayers: 1 });

describe('errors', () => {
  it.each(cases)('%s', (_, body, code, message) => {
    expect(() => body(heed)).toThrow(
      expect.objectContaining({ name: 'HeedError', code, message: expect.stringMatching(message) }),
    );
  });

  it('are Errors with a stack', () => {
    try {
      heed.softmax(3 as Loose);
      expect.unreachable();
    } catch (error) {
      expect(error).toBeInstanceOf(Error);
      expect((error as HeedError).stack).toContain('errors.test');
    }
  });

  it('of a disposed layer name it', () => {
    for (const use of [
      (layer: Loose) => layer.forward([[1, 2, 3, 4]]),
      (layer: Loose) => layer.stateDict(),
      (layer: Loose) => layer.loadStateDict({}),
      (layer: Loose) => layer.train(),
      (layer: Loose) => layer.eval(),
      (layer: Loose) => layer.parameterCount,
    ]) {
      const layer = mha(heed);
      layer.dispose();
      layer.dispose();
      expect(() => use(layer)).toThrow(
        expect.objectContaining({
          code: 'DISPOSED',
          message: expect.stringContaining('MultiHeadAttention: got a call after dispose()'),
        }),
      );
    }
  });
});
