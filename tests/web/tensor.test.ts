import { inspect } from 'node:util';
import { HeedError, Tensor } from 'heed';
import { describe, expect, it } from 'vitest';
import { readMask, readTensor } from '../../web/src/base/tensor.js';

/** The code and message of the error that `body` throws. */
function failure(body: () => unknown): string {
  try {
    body();
  } catch (error) {
    return `${(error as HeedError).code} ${(error as Error).message}`;
  }
  throw new Error('nothing was thrown');
}

describe('Tensor', () => {
  it('nests its numbers', () => {
    expect(new Tensor(Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]).toArray()).toEqual([
      [1, 2, 3],
      [4, 5, 6],
    ]);
    expect(new Tensor(Float32Array.of(7), []).toArray()).toBe(7);
    expect(new Tensor(new Float32Array(0), [2, 0]).toArray()).toEqual([[], []]);
    expect(new Tensor(new Float32Array(0), [0, 2]).toArray()).toEqual([]);
    expect(new Tensor(Uint8Array.of(1, 0), [1, 2]).toArray()).toEqual([[1, 0]]);
  });

  const x = new Tensor(Float32Array.of(1, 2, 3, 4, 5, 6), [3, 1, 2]);

  it('has entries and sub-tensors, which are copies', () => {
    expect([x.at(0, 0, 1), x.at(2, 0, 0), x.at(-1, -1, -1)]).toEqual([2, 5, 6]);
    const row = x.at<Tensor>(1);
    expect(row).toEqual(new Tensor(Float32Array.of(3, 4), [1, 2]));
    row.data[0] = 9;
    expect(x.at(1, 0)).toEqual(new Tensor(Float32Array.of(3, 4), [2]));
    expect(x.at()).toEqual(x);
    const number: number = new Tensor(Float32Array.of(7), []).at();
    expect(number).toBe(7);
    expect(new Tensor(Uint8Array.of(1, 0), [1, 2]).at(0)).toEqual(new Tensor(Uint8Array.of(1, 0), [2]));
    expect(new Tensor(new Float32Array(0), [2, 0]).at(1)).toEqual(new Tensor(new Float32Array(0), [0]));
  });

  it.each([
    [[3], 'INVALID_ARGUMENT Tensor.at: index 0: expected an integer from -3 to 2, got 3'],
    [[-4], 'index 0: expected an integer from -3 to 2, got -4'],
    [[0, 1], 'index 1: expected an integer from -1 to 0, got 1'],
    [[0.5], 'index 0: expected an integer from -3 to 2, got 0.5'],
    [[NaN], 'index 0: expected an integer from -3 to 2, got NaN'],
    [['0' as unknown as number], "index 0: expected an integer from -3 to 2, got '0'"],
    [[0, 0, 0, 0], 'INVALID_ARGUMENT Tensor.at: indices: expected at most 3 indices, got 4'],
  ])('has no entry at %o', (indices, message) => {
    expect(failure(() => x.at(...indices))).toContain(message);
  });

  it('is cut along its first axis as arrays are', () => {
    const array = x.toArray<number[][][]>();
    for (const [start, end] of [[], [1], [-2], [0, 2], [1, -1], [2, 1], [5], [-9, 9], [0, 0], [1.9, 2.5]]) {
      const part = x.slice(start, end);
      expect(part.toArray()).toEqual(array.slice(start, end));
      expect(part.shape).toEqual([array.slice(start, end).length, 1, 2]);
    }
    const part = x.slice(1);
    part.data[0] = 9;
    expect(x.at(1, 0, 0)).toBe(3);
    expect(new Tensor(new Float32Array(0), [3, 0]).slice(1).shape).toEqual([2, 0]);
    expect(new Tensor(new Float32Array(0), [0, 3]).slice(0, 1).shape).toEqual([0, 3]);
    expect(failure(() => x.slice(NaN))).toContain(
      'INVALID_ARGUMENT Tensor.shape: expected integers from 0 to 2147483647, got [NaN, 1, 2]',
    );
    expect(failure(() => new Tensor(Float32Array.of(7), []).slice())).toContain(
      'Tensor: expected at least one axis, got a tensor without axes',
    );
  });

  it('is iterated along its first axis', () => {
    expect([...x]).toEqual([x.at(0), x.at(1), x.at(2)]);
    expect([...new Tensor(Float32Array.of(1, 2), [2])]).toEqual([1, 2]);
    expect([...new Tensor(new Float32Array(0), [0, 2])]).toEqual([]);
    expect(failure(() => [...new Tensor(Float32Array.of(7), [])])).toContain(
      'Tensor: expected at least one axis, got a tensor without axes',
    );
  });

  it('is printed in columns', () => {
    expect(String(new Tensor(Float32Array.of(1, -20, -0.00001, NaN), [2, 2]))).toBe(
      '[[  1.0000, -20.0000],\n [  0.0000,      NaN]]',
    );
    expect(String(new Tensor(Uint8Array.of(1, 0), [2, 1, 1]))).toBe('[[[1]],\n\n [[0]]]');
    expect(String(new Tensor(new Float32Array(0), [2, 0]))).toBe('[[],\n []]');
  });

  it('is printed by its first and last entries if it is large', () => {
    const text = String(new Tensor(new Float32Array(10_000).fill(1), [20, 500]));
    expect(text.split('\n')).toEqual([
      '[[1.0000, 1.0000, 1.0000, …, 1.0000, 1.0000, 1.0000],',
      ...new Array<string>(2).fill(' [1.0000, 1.0000, 1.0000, …, 1.0000, 1.0000, 1.0000],'),
      ' …,',
      ...new Array<string>(2).fill(' [1.0000, 1.0000, 1.0000, …, 1.0000, 1.0000, 1.0000],'),
      ' [1.0000, 1.0000, 1.0000, …, 1.0000, 1.0000, 1.0000]]',
    ]);
    // Axes of up to six entries are printed completely; columns are as wide as their printed entries.
    const wide = new Tensor(new Float32Array(4_000_000).fill(12345, 10, -10), [2, 2_000_000]);
    expect(String(wide).length).toBeLessThan(200);
    expect(String(wide)).toContain(' 0.0000');
    const all = String(new Tensor(new Uint8Array(1000), [1000]));
    expect(all).not.toContain('…');
    expect(all.match(/0/g)).toHaveLength(1000);
  });

  it('is written as nested arrays in JSON', () => {
    const x = new Tensor(Float32Array.of(1, 2, 3, 4), [2, 2]);
    expect(JSON.stringify({ x })).toBe('{"x":[[1,2],[3,4]]}');
    expect(JSON.stringify(new Tensor(Int8Array.of(-1, 2), [2]))).toBe('[-1,2]');
  });

  it('is abbreviated if its rows are long', () => {
    const x = new Tensor(
      Float32Array.from({ length: 65 }, (_, i) => i),
      [1, 65],
    );
    expect(inspect(x)).toBe('Tensor [1, 65]\n[[ 0.0000,  1.0000,  2.0000, …, 62.0000, 63.0000, 64.0000]]');
  });

  it('is printed with its shape by console.log', () => {
    const x = new Tensor(Float32Array.of(1, 2), [1, 2]);
    expect(inspect(x)).toBe('Tensor [1, 2]\n[[1.0000, 2.0000]]');
    expect(inspect({ x })).toContain('Tensor [1, 2]');
    expect(inspect(new Tensor(new Uint8Array(0), [0, 3]))).toBe('Tensor [0, 3]\n[]');
  });

  it('refuses a shape that its numbers do not fill', () => {
    expect(() => new Tensor(new Float32Array(5), [2, 3])).toThrow(HeedError);
  });
});

describe('readTensor', () => {
  it('reads tensors and nested arrays', () => {
    const data = Float32Array.of(1, 2);
    expect(readTensor('x', { data, shape: [1, 2] })).toEqual({ data, shape: [1, 2] });
    expect(readTensor('x', [[1], [2]])).toEqual({ data, shape: [2, 1] });
    expect(readTensor('x', [[], []])).toEqual({ data: new Float32Array(0), shape: [2, 0] });
    expect(readTensor('x', [NaN, Infinity]).data).toEqual(Float32Array.of(NaN, Infinity));
  });

  it('takes data over shared memory', () => {
    const data = new Float32Array(new SharedArrayBuffer(8));
    expect(readTensor('x', { data, shape: [2] }).data).toBe(data);
  });

  const endless: unknown[] = [];
  endless.push(endless);
  const throwing = {
    get data(): Float32Array {
      throw new TypeError('no');
    },
    shape: [1],
  };

  it.each([
    [
      'a number',
      3,
      'INVALID_ARGUMENT x: expected a { data: Float32Array, shape } tensor or nested arrays of numbers, got 3',
    ],
    [
      'null',
      null,
      'INVALID_ARGUMENT x: expected a { data: Float32Array, shape } tensor or nested arrays of numbers, got null',
    ],
    [
      'a bare Float32Array',
      new Float32Array(2),
      'INVALID_ARGUMENT x: expected a { data: Float32Array, shape } tensor or nested arrays of numbers, got a Float32Array',
    ],
    [
      'float64 data',
      { data: new Float64Array(2), shape: [2] },
      'INVALID_ARGUMENT x.data: expected a Float32Array, got a Float64Array',
    ],
    [
      'a look-alike of an array',
      { data: { length: 1, 0: 1, [Symbol.toStringTag]: 'Float32Array' }, shape: [1] },
      'INVALID_ARGUMENT x.data: expected a Float32Array, got an obj',
    ],
    [
      'no shape',
      { data: new Float32Array(2) },
      'INVALID_ARGUMENT x: expected a { data: Float32Array, shape } tensor or nested arrays of numbers, got an object',
    ],
    [
      'a shape that is a number',
      { data: new Float32Array(2), shape: 2 },
      'INVALID_ARGUMENT x.shape: expected an array of extents, got 2',
    ],
    [
      'a fractional extent',
      { data: new Float32Array(2), shape: [1.5] },
      'INVALID_ARGUMENT x.shape: expected integers from 0 to 2147483647, got [1.5]',
    ],
    [
      'a negative extent',
      { data: new Float32Array(2), shape: [-1, -2] },
      'INVALID_ARGUMENT x.shape: expected integers from 0 to 2147483647, got [-1, -2]',
    ],
    [
      'a NaN extent',
      { data: new Float32Array(2), shape: [NaN] },
      'INVALID_ARGUMENT x.shape: expected integers from 0 to 2147483647, got [NaN]',
    ],
    [
      'a huge extent',
      { data: new Float32Array(0), shape: [0, 2 ** 31] },
      'INVALID_ARGUMENT x.shape: expected integers from 0 to 2147483647, got [0, 2147483648]',
    ],
    [
      'too few values',
      { data: new Float32Array(2), shape: [3] },
      'SHAPE_MISMATCH x: expected 3 values for shape [3], got 2',
    ],
    ['a hole', new Array(3), 'INVALID_ARGUMENT x[0]: expected numbers, got undefined'],
    ['a string', [['1']], "INVALID_ARGUMENT x[0][0]: expected numbers, got '1'"],
    ['a boolean', [true], 'INVALID_ARGUMENT x[0]: expected numbers, got true'],
    [
      'a ragged row',
      [[1, 2], [3]],
      'SHAPE_MISMATCH x[1]: expected an array of 2 like the first one, got an array of 1',
    ],
    ['a number among rows', [[1], 2], 'INVALID_ARGUMENT x[1]: expected an array of 1 like the first one, got 2'],
    ['a row among numbers', [1, [2]], 'INVALID_ARGUMENT x[1]: expected numbers, got an array of 1'],
    [
      'an array in itself',
      endless,
      'INVALID_ARGUMENT x: expected nested arrays of numbers, got arrays nested more than 16 deep',
    ],
    ['a getter that throws', throwing, 'INVALID_ARGUMENT x: reading it threw TypeError: no'],
    ['a revoked proxy', revoked(), 'INVALID_ARGUMENT x: reading it threw TypeError'],
  ])('refuses %s', (_, value, message) => {
    expect(failure(() => readTensor('x', value))).toContain(message);
  });
});

it('refuses a transferred buffer', () => {
  const data = new Float32Array(2);
  structuredClone(data, { transfer: [data.buffer] });
  expect(failure(() => readTensor('x', { data, shape: [2] }))).toMatch(
    /x(\.data: expected values, got an array whose buffer is detached|: expected 2 values for shape \[2\], got 0)/,
  );
});

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable([], {});
  revoke();
  return proxy;
}

describe('readMask', () => {
  it('tells boolean masks from additive ones', () => {
    expect(
      readMask('mask', [
        [true, false],
        [0, 1],
      ]).data,
    ).toEqual(Uint8Array.of(1, 0, 0, 1));
    expect(readMask('mask', { data: Float32Array.of(-1), shape: [1] }).data).toEqual(Float32Array.of(-1));
    expect(readMask('mask', [0, -Infinity]).data).toEqual(Float32Array.of(0, -Infinity));
    expect(readMask('mask', [[1], [0.5]]).data).toEqual(Float32Array.of(1, 0.5));
  });

  it.each([
    ['a number among booleans', [true, 0.5], 'INVALID_ARGUMENT mask[1]: expected booleans, or numbers'],
    ['a boolean among numbers', [0.5, 0, true], 'INVALID_ARGUMENT mask[2]: expected booleans, or numbers'],
    [
      'another byte',
      { data: Uint8Array.of(0, 2), shape: [2] },
      'INVALID_ARGUMENT mask.data[1]: expected 0 or 1, got 2',
    ],
    [
      'integers',
      { data: new Int32Array(1), shape: [1] },
      'INVALID_ARGUMENT mask.data: expected a Uint8Array (1: may attend) or a Float32Array (added to the scores), got an Int32Array',
    ],
  ])('refuses %s', (_, value, message) => {
    expect(failure(() => readMask('mask', value))).toContain(message);
  });
});
