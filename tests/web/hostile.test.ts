// Any call with any arguments gives a result or a HeedError, and leaves the runtime and the layer as they were.
// HEED_FUZZ_RUNS sets how many random calls each line of the table makes.
import fc from 'fast-check';
import { type Heed, HeedError, load, Tensor } from 'heed';
import { beforeAll, describe, expect, it } from 'vitest';

const runs = Number(process.env.HEED_FUZZ_RUNS ?? 150);
const codes = ['INVALID_ARGUMENT', 'SHAPE_MISMATCH', 'OUT_OF_MEMORY', 'DISPOSED'];

let heed: Heed;
beforeAll(async () => {
  heed = await load();
});

// --- values -------------------------------------------------------------------------------------------------------------------------------

const fail = () => {
  throw new TypeError('hostile');
};

function detached(): Float32Array {
  const data = new Float32Array(4);
  structuredClone(data, { transfer: [data.buffer] });
  return data;
}

/** A value that would trap fast-check, too; made at the last moment by `real`. */
class Late {
  constructor(readonly make: () => unknown) {}
}

function real<T>(value: T): T {
  if (value instanceof Late) return value.make() as T;
  if (Array.isArray(value)) return value.map(real) as T;
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, real(entry)])) as T;
}

/** Nothing that a call expects. Numbers are too large to be worked off, or no sizes at all. */
const wild: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(
    undefined,
    null,
    NaN,
    Infinity,
    -Infinity,
    -0,
    -1,
    0.5,
    2 ** 31 - 1,
    2 ** 31,
    2 ** 32 + 1,
    2 ** 53,
    1e300,
    3n,
    Symbol('x'),
    true,
    '',
  ),
  fc.string({ maxLength: 8 }),
  fc.constantFrom<unknown>(
    fail,
    {},
    [],
    [[]],
    [[], []],
    [[[[[[[[]]]]]]]],
    new Date(0),
    /x/,
    new Map(),
    new Array(7),
    'embedDim',
  ),
  fc
    .constantFrom<() => unknown>(
      () => ({ data: detached(), shape: [4] }),
      () => ({ data: new Float32Array(new SharedArrayBuffer(16)), shape: [1, 4] }),
      () => ({ data: new Float64Array(4), shape: [1, 4] }),
      () => ({ data: new Float32Array(0), shape: [2 ** 31 - 1, 0] }),
      () => ({ data: new Float32Array(0), shape: [0, 2 ** 31 - 1] }),
      () => ({ data: new Float32Array(4), shape: [-2, -2] }),
      () => ({ data: new Float32Array(4), shape: [4, NaN] }),
      () => ({ data: new Float32Array(4), shape: { length: 1, 0: 4 } }),
      () => ({
        get data() {
          return fail();
        },
        shape: [4],
      }),
      () => ({
        data: new Float32Array(4),
        get shape() {
          return fail();
        },
      }),
      () => new Proxy({}, { get: fail, ownKeys: fail, has: fail, getPrototypeOf: fail }),
      () => new Proxy([1, 2], { get: fail }),
      () => Object.assign([1, 2], { length: 2 ** 32 - 1 }),
      () => Object.create(null),
      () => ({ toString: fail, valueOf: fail, [Symbol.toPrimitive]: fail }),
    )
    .map((make) => new Late(make)),
);

const number = fc.oneof(
  fc.float({ noDefaultInfinity: false }),
  fc.constantFrom(0, 1, -1, 1e4, -1e4, 3e38, NaN, Infinity),
);
const shape = (min: number, max: number) =>
  fc.array(fc.integer({ min: 0, max: 5 }), { minLength: min, maxLength: max });

function tensor(min = 0, max = 4): fc.Arbitrary<unknown> {
  return shape(min, max).chain(filled);
}

function filled(extents: readonly number[]): fc.Arbitrary<Tensor> {
  const length = extents.reduce((a, b) => a * b, 1);
  return fc
    .array(number, { minLength: length, maxLength: length })
    .map((values) => new Tensor(Float32Array.from(values), extents));
}

/** Rows of the width that the layers below have and masks that fit them, so that calls often get past their checks. */
function rows(width: number): fc.Arbitrary<unknown> {
  return fc
    .constantFrom([2], [2], [2], [2], [2], [2], [2, 2], [3], [0], [0, 2], [2, 0])
    .chain((leading) => filled([...leading, width]));
}

const maskShape = fc.oneof(fc.constantFrom([2, 2], [2], [1, 1], [2, 1, 1, 2], [1, 2, 1, 2]), shape(0, 5));
const mask = fc.oneof(
  maskShape.chain((extents) =>
    filled(extents).map(({ data }) => ({
      data: Uint8Array.from(data, (value) => (value > 0 ? 1 : 0)),
      shape: extents,
    })),
  ),
  fc.constantFrom(
    [
      [true, false],
      [true, true],
    ],
    [1, 0],
    [[1], [0, 1]],
  ),
  maskShape.chain(filled),
);
const keyMask = fc.constantFrom<unknown>(
  [1, 1],
  [0, 1],
  [
    [1, 0],
    [0, 0],
  ],
  [[1, 1]],
  [1, 1, 1],
);
const extent = fc.integer({ min: 1, max: 6 });
const flag = fc.boolean();
const rate = fc.constantFrom(0, 0.1, 0.5);
const activation = fc.constantFrom('relu', 'gelu', 'gelu_tanh', 'tanh', 'sigmoid', 'silu', 'identity');

/** Mostly what is expected, sometimes anything. */
const or = (expected: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 30, arbitrary: expected }, { weight: 1, arbitrary: wild });

/** An options object: some of the options, each mostly as expected; now and then with an unknown one, or no object at all. */
function options(known: Record<string, fc.Arbitrary<unknown>>, required: string[] = []): fc.Arbitrary<unknown> {
  const given = ([name, value]: [string, fc.Arbitrary<unknown>]): [string, fc.Arbitrary<unknown>] => [
    name,
    required.includes(name)
      ? or(value)
      : fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: or(value) }),
  ];
  const record = fc.record(Object.fromEntries(Object.entries(known).map(given)));
  return fc.oneof(
    { weight: 12, arbitrary: record },
    {
      weight: 1,
      arbitrary: fc.tuple(record, fc.string(), wild).map(([o, name, value]) => ({ ...(o as object), [name]: value })),
    },
    { weight: 1, arbitrary: wild },
  );
}

// --- calls --------------------------------------------------------------------------------------------------------------------------------

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

const functions: [string, fc.Arbitrary<unknown>[]][] = [
  [
    'attention',
    [
      or(tensor(2)),
      or(tensor(2)),
      or(tensor(2)),
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
  ['linear', [or(tensor(1)), options({ weight: tensor(2, 2), bias: tensor(1, 1), activation }, ['weight'])]],
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
  ['flops', [or(extent), options({ inputDim: extent, keyDim: extent, valueDim: extent, kernelSize: extent })]],
];

// Options of the constructor, arguments of forward.
const layers: [string, fc.Arbitrary<unknown>, fc.Arbitrary<unknown>[]][] = [
  [
    'Linear',
    options({ inFeatures: fc.constant(4), outFeatures: extent, bias: flag, activation, seed: fc.nat() }, [
      'inFeatures',
      'outFeatures',
    ]),
    [or(rows(4))],
  ],
  [
    'LayerNorm',
    options({ normalizedShape: fc.constant(4), eps: number, seed: fc.nat() }, ['normalizedShape']),
    [or(rows(4))],
  ],
  ['BatchNorm', options({ numFeatures: fc.constant(4), eps: number, seed: fc.nat() }, ['numFeatures']), [or(rows(4))]],
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

/** What `body` returns; undefined where it threw a proper HeedError. Anything else it throws is a failure. */
function resultOrError<T>(body: () => T): T | undefined {
  try {
    return body();
  } catch (error) {
    expect(error, String((error as Error)?.stack)).toBeInstanceOf(HeedError);
    const { code, message } = error as HeedError;
    expect(codes, `${code}: ${message}`).toContain(code);
    expect(message).toMatch(/./);
    return undefined;
  }
}

function works(): void {
  expect(heed.softmax([0, 0]).toArray()).toEqual([0.5, 0.5]);
}

type Callable = (...given: unknown[]) => unknown;

describe('any arguments', () => {
  it.each(functions)('heed.%s', (path, given) => {
    const [name, owner] = path.startsWith('masks.') ? [path.slice(6), heed.masks] : [path, heed];
    fc.assert(
      fc.property(fc.tuple(...given), (values) => {
        resultOrError(() => (owner as unknown as Record<string, Callable>)[name]!(...real(values)));
        works();
      }),
      { numRuns: runs },
    );
  });

  it.each(layers)('new heed.%s', (name, made, given) => {
    const Class = (heed as unknown as Record<string, new (o: unknown) => Loose>)[name]!;
    const statistics = { made: 0, forward: 0 };
    fc.assert(
      fc.property(made, fc.tuple(...given), wild, fc.boolean(), (o, values, state, training) => {
        const instance = resultOrError(() => new Class(real(o)));
        if (instance) {
          statistics.made++;
          if (training) instance.train();
          if (resultOrError(() => instance.forward(...real(values)))) statistics.forward++;
          const before = instance.stateDict();
          const [first] = Object.keys(before);
          resultOrError(() => instance.loadStateDict(real(state)));
          if (first) {
            const taken = resultOrError(() => instance.loadStateDict({ ...before, [first]: real(state) }));
            if (!taken) expect(instance.stateDict()).toEqual(before);
          }
          instance.dispose();
          expect(() => instance.forward(...real(values))).toThrow(HeedError);
        }
        works();
      }),
      { numRuns: runs },
    );
    // The values must not be so wild that nothing is ever tried.
    expect(statistics.made).toBeGreaterThan(runs / 10);
    expect(statistics.forward).toBeGreaterThan(runs / 50);
  });

  it('load', async () => {
    await fc.assert(
      fc.asyncProperty(options({ build: fc.constantFrom('auto', 'simd128'), wasm: wild }), async (o) => {
        try {
          await load(real(o) as never);
        } catch (error) {
          expect(error).toBeInstanceOf(HeedError);
          expect(['INVALID_ARGUMENT', 'LOAD_FAILED', 'UNSUPPORTED']).toContain((error as HeedError).code);
        }
        works();
      }),
      { numRuns: runs },
    );
  });
});

interface Loose {
  train(): void;
  forward(...given: unknown[]): unknown;
  stateDict(): Record<string, Tensor>;
  loadStateDict(state: unknown): unknown;
  dispose(): void;
}
