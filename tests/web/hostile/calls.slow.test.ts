// Any call with any arguments gives a result or a HeedError, and leaves the runtime and the layer as they were.
// HEED_FUZZ_RUNS sets how many random calls each line of the tables makes.
import fc from 'fast-check';
import { flops, type Heed, HeedError, headImportance, load, Tensor } from 'heed';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  activation,
  extent,
  fail,
  filled,
  flag,
  keyMask,
  manyRows,
  mask,
  number,
  options,
  or,
  rate,
  real,
  resolved,
  resultOrError,
  rows,
  runs,
  tensor,
  wild,
} from './values.js';

const codes = ['INVALID_ARGUMENT', 'SHAPE_MISMATCH', 'OUT_OF_MEMORY', 'DISPOSED'];

let heed: Heed;
beforeAll(async () => {
  heed = await load();
});

const call = {
  mask,
  keyMask,
  causal: flag,
  window: fc.nat(4),
  headMask: fc.oneof(filled([2]), filled([2, 2]), filled([1])),
  returnWeights: flag,
};
const layer = {
  embedDim: fc.constantFrom(4, 4, 4, 2),
  numHeads: fc.constantFrom(1, 2),
  keyDim: extent,
  valueDim: extent,
  feedForwardDim: extent,
  activation,
  normFirst: flag,
  eps: fc.constantFrom(1e-5, 1),
  dropout: rate,
  bias: flag,
  gated: flag,
  seed: fc.nat(),
};
const decoderCall = { mask, keyMask, memoryMask: mask, memoryKeyMask: keyMask, causal: flag, returnWeights: flag };

/** Arguments of `flops` and `summary`. */
const costsArguments = fc.tuple(or(extent), options({ keyLength: extent, causal: flag, window: fc.nat(4) }));

const functions: [string, fc.Arbitrary<unknown>[]][] = [
  [
    'attention',
    [
      or(fc.oneof(filled([2, 4]), filled([2, 4]), rows(4), tensor(2))),
      or(fc.oneof(filled([2, 4]), filled([2, 4]), rows(4), tensor(2))),
      or(fc.oneof(filled([2, 3]), filled([2, 3]), rows(3), tensor(2))),
      options({
        mask,
        causal: flag,
        window: fc.nat(4),
        scale: number,
        dropout: options({ p: rate, seed: fc.nat() }),
        returnWeights: flag,
      }),
    ],
  ],
  ['softmax', [or(tensor())]],
  [
    'linear',
    [
      or(fc.oneof(manyRows(4), tensor(1))),
      options(
        {
          weight: fc.oneof(filled([3, 4]), tensor(2, 2)),
          bias: fc.oneof(filled([3]), tensor(1, 1)),
          activation,
        },
        ['weight'],
      ),
    ],
  ],
  ['layerNorm', [or(tensor(1)), options({ weight: tensor(1, 1), bias: tensor(1, 1), eps: number })]],
  [
    'dropout',
    [or(tensor()), options({ p: rate, seed: fc.nat(), training: flag, scaling: fc.constantFrom('inverted', 'none') })],
  ],
  ['positionalEncoding', [or(fc.nat(9)), or(extent), options({ base: number })]],
  [
    'rotary',
    [
      or(tensor(2)),
      options({
        dim: fc.constantFrom(2, 4),
        base: number,
        pairing: fc.constantFrom('half-split', 'interleaved'),
        firstPosition: fc.nat(99),
      }),
    ],
  ],
  ['masks.causal', [or(fc.nat(9)), or(fc.nat(9))]],
  ['masks.window', [or(fc.nat(9)), or(fc.nat(9)), or(fc.nat(9))]],
  ['masks.padding', [or(fc.array(fc.nat(5))), or(fc.nat(9))]],
  ['masks.and', [or(mask), or(mask)]],
  ['masks.alibi', [or(extent), or(fc.nat(9)), or(fc.nat(9))]],
  [
    'masks.relative',
    [or(tensor(2, 2)), or(fc.nat(9)), or(fc.nat(9)), options({ maxDistance: extent, bidirectional: flag })],
  ],
  ['flops', [or(extent), options({ dim: extent, keyDim: extent, valueDim: extent, kernelSize: extent }, ['dim'])]],
];

// Options of the constructor, arguments of forward.
const layers: [string, fc.Arbitrary<unknown>, fc.Arbitrary<unknown>[]][] = [
  [
    'Linear',
    options({ inFeatures: fc.constant(4), outFeatures: extent, bias: flag, activation, seed: fc.nat() }, [
      'inFeatures',
      'outFeatures',
    ]),
    [or(manyRows(4))],
  ],
  [
    'LayerNorm',
    options({ normalizedShape: fc.constant(4), eps: number, seed: fc.nat() }, ['normalizedShape']),
    [or(manyRows(4))],
  ],
  [
    'BatchNorm',
    options({ numFeatures: fc.constant(4), eps: number, seed: fc.nat() }, ['numFeatures']),
    [or(manyRows(4))],
  ],
  ['Dropout', options({ p: rate, scaling: fc.constantFrom('inverted', 'none'), seed: fc.nat() }), [or(tensor())]],
  [
    'PositionalEncoding',
    options(
      {
        embedDim: fc.constant(4),
        maxLength: extent,
        base: number,
        mode: fc.constantFrom('add', 'concat'),
        learned: flag,
        seed: fc.nat(),
      },
      ['embedDim'],
    ),
    [or(rows(4))],
  ],
  [
    'FeedForward',
    options(
      {
        embedDim: fc.constant(4),
        feedForwardDim: extent,
        activation,
        dropout: rate,
        bias: flag,
        gated: flag,
        seed: fc.nat(),
      },
      ['embedDim', 'feedForwardDim'],
    ),
    [or(rows(4))],
  ],
  [
    'MultiHeadAttention',
    options(
      {
        embedDim: fc.constant(4),
        numHeads: fc.constantFrom(1, 2, 4),
        keyDim: extent,
        valueDim: extent,
        keyInputDim: fc.constant(4),
        valueInputDim: fc.constant(4),
        bias: flag,
        activation,
        dropout: rate,
        rotary: options({ dim: fc.constant(2), base: number }),
        seed: fc.nat(),
      },
      ['embedDim', 'numHeads'],
    ),
    [or(rows(4)), options({ ...call, key: rows(4), value: rows(4), averageWeights: flag })],
  ],
  ['EncoderLayer', options(layer, ['embedDim', 'numHeads', 'feedForwardDim']), [or(rows(4)), options(call)]],
  [
    'Encoder',
    options({ ...layer, numLayers: extent, finalNorm: flag }, ['embedDim', 'numHeads', 'feedForwardDim', 'numLayers']),
    [or(rows(4)), options(call)],
  ],
  [
    'DecoderLayer',
    options(layer, ['embedDim', 'numHeads', 'feedForwardDim']),
    [or(rows(4)), or(rows(4)), options(decoderCall)],
  ],
  [
    'Decoder',
    options({ ...layer, numLayers: extent, finalNorm: flag }, ['embedDim', 'numHeads', 'feedForwardDim', 'numLayers']),
    [or(rows(4)), or(rows(4)), options(decoderCall)],
  ],
  [
    'Transformer',
    options({ ...layer, numEncoderLayers: extent, numDecoderLayers: extent }, [
      'embedDim',
      'numHeads',
      'feedForwardDim',
      'numEncoderLayers',
      'numDecoderLayers',
    ]),
    [
      or(rows(4)),
      or(rows(4)),
      options({ sourceKeyMask: keyMask, targetKeyMask: keyMask, causal: flag, returnWeights: flag }),
    ],
  ],
];

function isAwaitable(value: unknown): boolean {
  try {
    return (value as { then?: unknown } | null | undefined)?.then === undefined;
  } catch {
    return false;
  }
}

function works(): void {
  expect(heed.softmax([0, 0]).toArray()).toEqual([0.5, 0.5]);
}

type Callable = (...given: unknown[]) => unknown;

describe('any arguments', () => {
  it.each(functions)('heed.%s', (path, given) => {
    const [name, owner] = path.startsWith('masks.')
      ? [path.slice(6), heed.masks]
      : [path, path === 'flops' ? { flops } : heed];
    let answered = 0;
    fc.assert(
      fc.property(fc.tuple(...given), (values) => {
        if (resultOrError(codes, () => (owner as unknown as Record<string, Callable>)[name]!(...real(values))))
          answered++;
        works();
      }),
      { numRuns: runs },
    );
    // At least one call must succeed; otherwise the arguments are too wild.
    expect(answered).toBeGreaterThan(0);
  });

  it.each(layers)('new heed.%s', (name, made, given) => {
    const Class = (heed as unknown as Record<string, new (o: unknown) => Loose>)[name]!;
    const statistics = { made: 0, forward: 0 };
    fc.assert(
      fc.property(
        made,
        fc.tuple(...given),
        wild,
        fc.boolean(),
        costsArguments,
        or(fc.array(fc.nat(3))),
        (o, values, state, training, costs, heads) => {
          const instance = resultOrError(codes, () => new Class(real(o)));
          if (instance) {
            statistics.made++;
            if (training) instance.train();
            if (resultOrError(codes, () => instance.forward(...real(values)))) statistics.forward++;
            resultOrError(codes, () => instance.flops(...(real(costs) as unknown[])));
            resultOrError(codes, () => instance.summary(real(costs[0]) as number));
            if (instance.prune) resultOrError(codes, () => instance.prune!(real(heads)))?.dispose();
            if (instance.step) {
              const cache = resultOrError(codes, () => instance.makeCache!(real(values[0])));
              resultOrError(codes, () => instance.step!(real(values[1]), real(state)));
              if (cache) {
                resultOrError(codes, () => instance.step!(real(values[1]), cache));
                cache.dispose();
                expect(resultOrError(codes, () => instance.step!(real(values[1]), cache))).toBeUndefined();
              }
            }
            const before = instance.stateDict();
            const [first] = Object.keys(before);
            resultOrError(codes, () => instance.loadStateDict(real(state)));
            if (first) {
              const taken = resultOrError(codes, () => instance.loadStateDict({ ...before, [first]: real(state) }));
              if (!taken) expect(instance.stateDict()).toEqual(before);
            }
            instance.dispose();
            expect(() => instance.forward(...real(values))).toThrow(HeedError);
          }
          works();
        },
      ),
      { numRuns: runs },
    );
    expect(statistics.made).toBeGreaterThan(runs / 10);
    expect(statistics.forward).toBeGreaterThan(runs / 50);
  });

  it('headImportance', async () => {
    const measured = or(fc.oneof(fc.float(), tensor()));
    const shape = or(fc.oneof(extent, fc.tuple(extent, extent), fc.tuple(wild, extent), fc.tuple(extent, or(extent))));
    await fc.assert(
      fc.asyncProperty(shape, measured, measured, wild, async (of, before, after, other) => {
        let calls = 0;
        const measure = () => {
          if (calls++ > 40) throw new HeedError('INVALID_ARGUMENT', 'measure: expected fewer calls, got enough');
          const value = real(calls === 1 ? before : after);
          // Awaiting a value reads its `then`, whose errors also count as those of `measure`.
          if (!isAwaitable(value))
            throw new HeedError('INVALID_ARGUMENT', 'measure: expected another value, got one that throws');
          return value;
        };
        for (const given of [measure, real(other)]) {
          // Errors of `measure` are passed on.
          if (given !== fail) await resolved(codes, () => headImportance(real(of) as never, given as never));
        }
      }),
      { numRuns: runs },
    );
  });

  it('new Tensor', () => {
    const given = fc.tuple(
      or(fc.constantFrom(new Float32Array(4), new Uint8Array(4))),
      or(fc.constantFrom([4], [2, 2], [1, 4, 1], [5], [-1, -4])),
    );
    fc.assert(
      fc.property(given, ([data, shape]) => {
        const made = resultOrError(codes, () => new Tensor(real(data) as Float32Array, real(shape) as number[]));
        if (made)
          expect([typeof made.toString(), Array.isArray(made.toArray())]).toEqual(['string', made.shape.length > 0]);
      }),
      { numRuns: runs },
    );
  });

  it('load', async () => {
    await fc.assert(
      fc.asyncProperty(options({ build: fc.constantFrom('auto', 'simd128'), wasm: wild }), async (o) => {
        await resolved(['INVALID_ARGUMENT', 'LOAD_FAILED', 'UNSUPPORTED'], () => load(real(o) as never));
        works();
      }),
      { numRuns: runs },
    );
  });
});

interface Loose {
  train(): void;
  forward(...given: unknown[]): unknown;
  flops(...given: unknown[]): number;
  summary(length: number): string;
  prune?(heads: unknown): Loose;
  makeCache?(memory: unknown): { dispose(): void };
  step?(target: unknown, cache: unknown): unknown;
  stateDict(): Record<string, Tensor>;
  loadStateDict(state: unknown): unknown;
  dispose(): void;
}
