/** Generators of valid and invalid arguments. */
import fc from 'fast-check';
import { HeedError, Tensor } from 'heed';
import { afterAll, expect } from 'vitest';

/** Number of random calls per row of a table. */
export const runs = Number(process.env.HEED_FUZZ_RUNS ?? 150);

export const fail = () => {
  throw new TypeError('hostile');
};

function detached(): Float32Array {
  const data = new Float32Array(4);
  structuredClone(data, { transfer: [data.buffer] });
  return data;
}

/** A view that is out of bounds because its buffer has been shrunk. */
function shrunk(): Float32Array {
  const buffer = Reflect.construct(ArrayBuffer, [16, { maxByteLength: 16 }]) as ArrayBuffer & {
    resize(length: number): void;
  };
  const data = new Float32Array(buffer, 0, 4);
  buffer.resize(4);
  return data;
}

/** A tensor whose data disappear once its shape has been read. */
function fleeting(): unknown {
  const data = new Float32Array(4);
  return {
    data,
    get shape() {
      if (data.length > 0) structuredClone(data, { transfer: [data.buffer] });
      return [1, 4];
    },
  };
}

/** An array whose length grows each time it is read. */
function growing(): unknown {
  let length = 1;
  return new Proxy([1, 2, 3, 4], { get: (target, key) => (key === 'length' ? length++ : Reflect.get(target, key)) });
}

/** An array of unlimited length. */
function endless(): unknown {
  return new Proxy([1], {
    get: (target, key) => (key === 'length' ? 2 ** 40 : typeof key === 'symbol' ? Reflect.get(target, key) : 1),
  });
}

/** A value that would also trap fast-check, so `real` creates it just before the call. */
class Late {
  constructor(readonly make: () => unknown) {}
}

export function real<T>(value: T): T {
  if (value instanceof Late) return value.make() as T;
  if (Array.isArray(value)) return value.map(real) as T;
  return isRecord(value) ? (changed(value, ([name, entry]) => [[name, real(entry)]]) as T) : value;
}

/** An object of options or of files, with or without a prototype. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/** A record with `change` applied to each entry. */
export function changed(
  record: Record<string, unknown>,
  change: (entry: [string, unknown]) => [string, unknown][],
): Record<string, unknown> {
  const entries = Object.fromEntries(Object.entries(record).flatMap(change));
  return Object.assign(Object.create(Object.getPrototypeOf(record)), entries);
}

/** Values that no call expects. Numbers are too large as sizes, or not valid sizes. */
export const wild: fc.Arbitrary<unknown> = fc.oneof(
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
      () => ({ data: shrunk(), shape: [4] }),
      () => fleeting(),
      () => Object.assign([[1, 2]], { 0: growing() }),
      () => ({ data: new Float32Array(1), shape: growing() }),
      endless,
      () => [endless()],
      () => ({ data: new Float32Array(1), shape: endless() }),
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

export const number = fc.oneof(
  fc.float({ noDefaultInfinity: false }),
  fc.constantFrom(0, 1, -1, 1e4, -1e4, 3e38, NaN, Infinity),
);
const shape = (min: number, max: number) =>
  fc.array(fc.integer({ min: 0, max: 5 }), { minLength: min, maxLength: max });

export function tensor(min = 0, max = 4): fc.Arbitrary<unknown> {
  return shape(min, max).chain(filled);
}

export function filled(extents: readonly number[]): fc.Arbitrary<Tensor> {
  const length = extents.reduce((a, b) => a * b, 1);
  return fc
    .array(number, { minLength: length, maxLength: length })
    .map((values) => new Tensor(Float32Array.from(values), extents));
}

/** Rows of the layers' width and matching masks, so that calls often pass their checks. */
export function rows(width: number): fc.Arbitrary<unknown> {
  return fc
    .constantFrom([2], [2], [2], [2], [2], [2], [2, 2], [3], [0], [0, 2], [2, 0])
    .chain((leading) => filled([...leading, width]));
}

/**
 * Like `rows`, but occasionally up to 2^20 rows, whose products with other counts exceed 32 bits. For functions that
 * work row by row.
 */
export function manyRows(width: number): fc.Arbitrary<unknown> {
  const many = fc.tuple(fc.integer({ min: 16, max: 20 }), fc.nat(2)).map(([bits, less]) => {
    const data = new Float32Array((2 ** bits - less) * width);
    return new Tensor(
      data.map((_, i) => (i % 1009) - 504),
      [data.length / width, width],
    );
  });
  return fc.oneof({ weight: 40, arbitrary: rows(width) }, { weight: 1, arbitrary: many });
}

const maskShape = fc.oneof(fc.constantFrom([2, 2], [2], [1, 1], [2, 1, 1, 2], [1, 2, 1, 2]), shape(0, 5));
export const mask = fc.oneof(
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
export const keyMask = fc.constantFrom<unknown>(
  [1, 1],
  [0, 1],
  [
    [1, 0],
    [0, 0],
  ],
  [[1, 1]],
  [1, 1, 1],
);
export const extent = fc.integer({ min: 1, max: 6 });
export const flag = fc.boolean();
export const rate = fc.constantFrom(0, 0.1, 0.5);
export const activation = fc.constantFrom(
  'relu',
  'gelu',
  'gelu_tanh',
  'tanh',
  'sigmoid',
  'silu',
  'quick_gelu',
  'gelu_10',
  'relu6',
  'relu2',
  'leaky_relu',
  'hardswish',
  'mish',
  'laplace',
  'identity',
);

/** Mostly a valid value, sometimes any other. */
export const or = (expected: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 30, arbitrary: expected }, { weight: 1, arbitrary: wild });

/**
 * An options object with some of the options, each mostly valid; occasionally with an unknown option, or not an object.
 */
export function options(known: Record<string, fc.Arbitrary<unknown>>, required: string[] = []): fc.Arbitrary<unknown> {
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

/** Per test, the number of calls and how many of them succeeded. */
const counts = new Map<string, { calls: number; answered: number }>();

function count(answered: boolean): void {
  const name = expect.getState().currentTestName ?? '';
  const counted = counts.get(name) ?? { calls: 0, answered: 0 };
  counts.set(name, { calls: counted.calls + 1, answered: counted.answered + Number(answered) });
}

if (process.env.HEED_FUZZ_RUNS)
  afterAll(() => {
    const line = (name: string, calls: number, answered: number) =>
      `${name}: ${calls.toLocaleString('en')} calls, ${answered.toLocaleString('en')} answered`;
    const all = [...counts.values()];
    const sum = (key: 'calls' | 'answered') => all.reduce((total, counted) => total + counted[key], 0);
    const lines = Array.from(counts, ([name, { calls, answered }]) => line(name, calls, answered));
    console.log([...lines, line('in all', sum('calls'), sum('answered'))].join('\n'));
  });

/**
 * Returns the result of `body`, or undefined if it throws a HeedError with one of the `codes`. Any other error is a
 * failure.
 */
export function resultOrError<T>(codes: readonly string[], body: () => T): T | undefined {
  try {
    const result = body();
    count(true);
    return result;
  } catch (error) {
    checkError(error, codes);
    count(false);
    return undefined;
  }
}

/** Like `resultOrError` for a promise, or for a function that throws before it returns one. */
export async function resolved<T>(codes: readonly string[], body: () => Promise<T>): Promise<T | undefined> {
  try {
    const result = await body();
    count(true);
    return result;
  } catch (error) {
    checkError(error, codes);
    count(false);
    return undefined;
  }
}

export function checkError(error: unknown, codes: readonly string[]): void {
  expect(error, String((error as Error)?.stack)).toBeInstanceOf(HeedError);
  const { code, message } = error as HeedError;
  expect(codes, `${code}: ${message}`).toContain(code);
  expect(message).toMatch(/: .+/s);
}
