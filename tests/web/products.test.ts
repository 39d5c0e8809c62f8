/** matmul, transpose and softmax along an axis, compared with the formulas in double precision. */
import { load, Tensor } from 'heed';
import { load as loadTraining } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw } from './layers/numbers.js';

type Calls = Pick<Awaited<ReturnType<typeof load>>, 'matmul' | 'transpose' | 'softmax'>;

let heed: Awaited<ReturnType<typeof load>>;
let training: Awaited<ReturnType<typeof loadTraining>>;
beforeAll(async () => {
  heed = await load();
  training = await loadTraining();
});

/** numpy.matmul's definition, entry by entry, for operands with at least two axes. */
function product(a: Tensor, b: Tensor): { data: number[]; shape: number[] } {
  const rank = Math.max(a.shape.length, b.shape.length);
  const padded = ({ shape }: Tensor) => [...new Array<number>(rank - shape.length).fill(1), ...shape];
  const [left, right] = [padded(a), padded(b)];
  const batch = left.slice(0, -2).map((extent, axis) => Math.max(extent, right[axis]!));
  const shape = [...batch, left.at(-2)!, right.at(-1)!];
  const entry = ({ data }: Tensor, extents: number[], at: number[]) =>
    data[at.reduce((sum, i, axis) => sum * extents[axis]! + (extents[axis] === 1 ? 0 : i), 0)]!;
  const data = Array.from({ length: shape.reduce((x, y) => x * y, 1) }, (_, flat) => {
    const at = shape.map(
      (extent, axis) => Math.floor(flat / shape.slice(axis + 1).reduce((x, y) => x * y, 1)) % extent,
    );
    const [outer, i, j] = [at.slice(0, -2), at.at(-2)!, at.at(-1)!];
    return Array.from({ length: left.at(-1)! }).reduce<number>(
      (sum, _, k) => sum + entry(a, left, [...outer, i, k]) * entry(b, right, [...outer, k, j]),
      0,
    );
  });
  return { data, shape };
}

const expectNear = (got: Tensor, expected: { data: readonly number[]; shape: readonly number[] }) => {
  expect(got.shape).toEqual(expected.shape);
  got.data.forEach((value, i) => expect(Math.abs(value - expected.data[i]!)).toBeLessThan(1e-5));
};

describe('matmul', () => {
  it.each([
    [
      [2, 3],
      [3, 4],
    ],
    [
      [5, 2, 3],
      [3, 4],
    ],
    [
      [2, 3],
      [5, 3, 4],
    ],
    [
      [5, 2, 3],
      [5, 3, 4],
    ],
    [
      [2, 1, 2, 3],
      [5, 3, 4],
    ],
    [
      [7, 1, 3],
      [1, 3, 1],
    ],
    [
      [1, 2, 3],
      [1, 1, 3, 4],
    ],
  ])('of %j and %j', (left, right) => {
    const [a, b] = [draw(1, ...left), draw(2, ...right)];
    expectNear(heed.matmul(a, b), product(a, b));
    expect([...training.matmul(a, b).data]).toEqual([...heed.matmul(a, b).data]);
  });

  it('of vectors', () => {
    const [v, m] = [draw(1, 3), draw(2, 3, 4)];
    expectNear(heed.matmul(v, m), { ...product(new Tensor(v.data, [1, 3]), m), shape: [4] });
    const batch = draw(3, 2, 5, 3);
    expectNear(heed.matmul(batch, v), { ...product(batch, new Tensor(v.data, [3, 1])), shape: [2, 5] });
    expectNear(heed.matmul(v, v), { ...product(new Tensor(v.data, [1, 3]), new Tensor(v.data, [3, 1])), shape: [] });
  });

  it('without entries', () => {
    const none = (...shape: number[]) => new Tensor(new Float32Array(0), shape);
    expect(heed.matmul(none(2, 0), none(0, 3)).toArray()).toEqual([
      [0, 0, 0],
      [0, 0, 0],
    ]);
    expect(heed.matmul(none(0, 2), [[1], [2]]).shape).toEqual([0, 1]);
  });

  it.each([
    [[[1, 2]], [[1, 2]], 'matmul: b: expected [..., 2, M], as wide as a, got [1, 2]'],
    [[1, 2], [1, 2, 3], 'matmul: b: expected [2], got [3]'],
    [[[[1]], [[1]]], [[[1]], [[1]], [[1]]], 'matmul: b: expected leading axes that broadcast with [2], got [3, 1, 1]'],
    [new Tensor(Float32Array.of(1), []), [1], 'matmul: a: expected at least one axis, got []'],
  ])('refuses %j and %j', (a, b, message) => {
    for (const { matmul } of [heed.matmul.bind(heed), training.matmul].map((matmul) => ({ matmul })))
      expect(() => matmul(a as number[], b as number[])).toThrow(
        expect.objectContaining({ code: 'SHAPE_MISMATCH', message }),
      );
    expect(heed.matmul([1], [2]).data[0]).toBe(2);
  });
});

describe('transpose', () => {
  it('exchanges two axes', () => {
    const x = draw(1, 2, 3, 4);
    for (const calls of [heed, training] as Calls[]) {
      expect(calls.transpose(x).at(1, 3, 2)).toBe(x.at(1, 2, 3));
      const y = calls.transpose(x, 0, -1);
      expect(y.shape).toEqual([4, 3, 2]);
      for (let i = 0; i < 24; i++) {
        const [a, b, c] = [Math.floor(i / 12), Math.floor(i / 4) % 3, i % 4] as const;
        expect(y.at(c, b, a)).toBe(x.at(a, b, c));
      }
      expect(calls.transpose(x, 1, 1).toArray()).toEqual(x.toArray());
    }
  });

  it('refuses axes that do not exist', () => {
    for (const calls of [heed, training] as Calls[]) {
      expect(() => calls.transpose([1, 2])).toThrow('transpose: axis0: expected an integer from -1 to 0, got -2');
      expect(() => calls.transpose([[1]], 0, 2)).toThrow('transpose: axis1: expected an integer from -2 to 1, got 2');
    }
  });
});

describe('softmax along an axis', () => {
  it.each([0, 1, 2, -3, -1])('%i', (axis) => {
    const x = draw(4, 2, 3, 4);
    const at = (axis + 3) % 3;
    const stride = x.shape.slice(at + 1).reduce((a, b) => a * b, 1);
    const data = [...x.data].map((value, i) => {
      const first = i - stride * (Math.floor(i / stride) % x.shape[at]!);
      const all = Array.from({ length: x.shape[at]! }, (_, k) => Math.exp(x.data[first + k * stride]!));
      return Math.exp(value) / all.reduce((a, b) => a + b, 0);
    });
    for (const calls of [heed, training] as Calls[]) expectNear(calls.softmax(x, { axis }), { data, shape: x.shape });
  });

  it('refuses axes that do not exist', () => {
    expect(() => heed.softmax([1, 2], { axis: 1 })).toThrow('softmax.axis: expected an integer from -1 to 0, got 1');
    expect(() => heed.softmax([1, 2], { axis: 0.5 })).toThrow('softmax.axis: expected an integer');
  });
});

/** Central differences (f(x + h e_i) - f(x - h e_i)) / 2h for each entry. */
function differences(f: (x: Tensor) => number, x: Tensor): number[] {
  const h = 1e-5;
  return [...x.data].map((_, i) => {
    const moved = (by: number) => {
      const data = Float64Array.from(x.data);
      data[i]! += by;
      return f({ data, shape: x.shape } as unknown as Tensor);
    };
    return (moved(h) - moved(-h)) / (2 * h);
  });
}

describe('gradients', () => {
  it.each([
    [
      [2, 3],
      [3, 4],
    ],
    [
      [5, 2, 3],
      [3, 4],
    ],
    [
      [2, 3],
      [5, 3, 4],
    ],
    [
      [2, 1, 2, 3],
      [5, 3, 4],
    ],
  ])('of matmul, %j and %j', (left, right) => {
    const [a, b] = [draw(1, ...left), draw(2, ...right)];
    const cotangent = draw(3, ...product(a, b).shape);
    const weighted = (x: Tensor, y: Tensor) =>
      product(x, y).data.reduce((sum, value, i) => sum + value * cotangent.data[i]!, 0);
    const parts = new training.Sequential([(x) => training.matmul(x, b)]);
    const others = new training.Sequential([(y) => training.matmul(a, y)]);
    expectNear(parts.forward(a, { backward: true }).backward(cotangent).inputs.x, {
      data: differences((x) => weighted(x, b), a),
      shape: left,
    });
    expectNear(others.forward(b, { backward: true }).backward(cotangent).inputs.x, {
      data: differences((y) => weighted(a, y), b),
      shape: right,
    });
  });

  it('of transpose, and of softmax along an axis, which equals that of its transpose', () => {
    const x = draw(1, 2, 3, 4);
    const cotangent = draw(2, 2, 4, 3);
    const flip = new training.Sequential([(y) => training.transpose(y)]);
    expect(flip.forward(x, { backward: true }).backward(cotangent).inputs.x.toArray()).toEqual(
      heed.transpose(cotangent).toArray(),
    );
    const along = training.softmax(x, { axis: 1, backward: true }).backward(heed.transpose(cotangent)).inputs.x;
    const last = training.softmax(heed.transpose(x), { backward: true }).backward(cotangent).inputs.x;
    expectNear(along, { data: [...heed.transpose(last).data], shape: [2, 3, 4] });
  });
});
