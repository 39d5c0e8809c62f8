/** Operations and functions computed in JavaScript: values, gradients along random directions, errors. */
import { load, type Tensor, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw, error } from '../layers/numbers.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

const refused = (code: string, message: RegExp) =>
  expect.objectContaining({ name: 'HeedError', code, message: expect.stringMatching(message) });

/** Compares the gradients of f, weighted by a random cotangent, with central differences along random directions. */
function checkGradients(f: (...inputs: Tensor[]) => Tensor, ...inputs: Tensor[]): void {
  // Identity layers make variables of the inputs.
  const identity = (width: number) => {
    const layer = new heed.Linear({ inFeatures: width, outFeatures: width, bias: false });
    const eye = Array.from({ length: width }, (_, i) => Array.from({ length: width }, (_, j) => Number(i === j)));
    return layer.loadStateDict({ weight: eye }).freeze();
  };
  const gradients = inputs.map((input, at) => {
    const widths = inputs.map(({ shape }) => shape.at(-1)!);
    const whole = new heed.Sequential([
      (x: Tensor) => {
        const given = inputs.map((one, i) => (i === at ? x : one));
        return f(...given);
      },
    ]);
    const { output, backward } = new heed.Sequential([identity(widths[at]!), ...whole.parts]).forward(input, {
      backward: true,
    });
    expect(error(output, f(...inputs))).toBeLessThan(1);
    const cotangent = draw(77, ...output.shape);
    return { cotangent, gradient: backward(cotangent).inputs.x };
  });
  inputs.forEach((input, at) => {
    const { cotangent, gradient } = gradients[at]!;
    const along = draw(78 + at, ...input.shape);
    const valueAt = (step: number) => {
      const moved = { data: input.data.map((v, i) => v + step * along.data[i]!), shape: input.shape };
      const { data } = f(...inputs.map((one, i) => (i === at ? (moved as Tensor) : one)));
      return data.reduce((sum, v, i) => sum + v * cotangent.data[i]!, 0);
    };
    const slope = (valueAt(0.01) - valueAt(-0.01)) / 0.02;
    const expected = along.data.reduce((sum, v, i) => sum + v * gradient.data[i]!, 0);
    expect(expected).not.toBe(0);
    expect(Math.abs(slope - expected)).toBeLessThan(1e-3 * (1 + Math.abs(expected)));
  });
}

describe('add and multiply', () => {
  it.each([
    [
      [2, 3],
      [2, 3],
    ],
    [[2, 3], [3]],
    [
      [2, 1, 3],
      [4, 3],
    ],
    [
      [2, 3],
      [2, 1],
    ],
    [[3], [2, 2, 1]],
    [[1], [1]],
  ])('broadcast %j and %j', (a, b) => {
    const [left, right] = [draw(1, ...a), draw(2, ...b)];
    checkGradients((x, y) => heed.add(x, y), left, right);
    checkGradients((x, y) => heed.multiply(x, y), left, right);
  });

  it('take numbers, and compute as JavaScript does', () => {
    expect(heed.add([1, 2], 3).toArray()).toEqual([4, 5]);
    expect(heed.multiply(2, [[1], [2]]).toArray()).toEqual([[2], [4]]);
    expect(heed.add([[1], [2]], [10, 20]).toArray()).toEqual([
      [11, 21],
      [12, 22],
    ]);
  });

  it('refuse shapes that do not broadcast', () => {
    expect(() => heed.add([1, 2], [1, 2, 3])).toThrow(refused('SHAPE_MISMATCH', /b: expected a shape that broadcasts/));
    expect(() => heed.add('1' as never, [1])).toThrow(refused('INVALID_ARGUMENT', /add: a/));
  });
});

describe('concatenate', () => {
  it.each([
    [-1, [2, 3], [2, 1]],
    [0, [2, 3], [4, 3]],
    [1, [2, 1, 3], [2, 4, 3]],
    [-2, [2, 2, 1, 3], [2, 2, 2, 3]],
    [0, [2], [3]],
  ])('along axis %j of %j and %j', (axis, a, b) => {
    const [left, right] = [draw(1, ...a), draw(2, ...b)];
    checkGradients((x, y) => heed.concatenate([x, y, x], { axis }), left, right);
    const joined = heed.concatenate([left, right], { axis });
    const parts = [left, right].map(({ shape }) => shape.at(axis)!);
    expect(joined.shape.at(axis)).toBe(parts[0]! + parts[1]!);
    expect(heed.slice(joined, { axis, end: parts[0]! })).toMatchObject({ data: left.data, shape: left.shape });
    expect(heed.slice(joined, { axis, start: -parts[1]! })).toMatchObject({ data: right.data, shape: right.shape });
  });

  it('refuses extents that differ, axes that do not exist, and nothing', () => {
    expect(() => heed.concatenate([[[1, 2]], [[1], [2]]])).toThrow(refused('SHAPE_MISMATCH', /tensors\[1\]/));
    expect(() => heed.concatenate([[1]], { axis: 1 })).toThrow(
      refused('INVALID_ARGUMENT', /axis: expected an integer from -1 to 0/),
    );
    expect(() => heed.concatenate([])).toThrow(refused('INVALID_ARGUMENT', /at least one tensor/));
  });
});

describe('slice and reshape', () => {
  it.each([
    [{ axis: 0, start: 1 }, [3, 2, 4]],
    [{ axis: 1, end: 1 }, [3, 2, 4]],
    [{ axis: -1, start: 1, end: -1 }, [3, 4]],
    [{ start: -2 }, [5]],
  ])('%j of %j', (options, shape) => {
    checkGradients((x) => heed.slice(x, options), draw(1, ...shape));
  });

  it('limit positions to the axis', () => {
    expect(heed.slice([1, 2, 3], { start: -9, end: 9 }).toArray()).toEqual([1, 2, 3]);
    expect(heed.slice([1, 2, 3], { start: 2, end: 1 }).shape).toEqual([0]);
    expect(
      heed
        .slice(
          [
            [1, 2],
            [3, 4],
          ],
          { axis: 1, start: 1 },
        )
        .toArray(),
    ).toEqual([[2], [4]]);
    expect(() => heed.slice([1], { axis: -2 })).toThrow(refused('INVALID_ARGUMENT', /axis/));
  });

  it('keep all entries', () => {
    checkGradients((x) => heed.reshape(x, [3, 2, 2]), draw(1, 2, 6));
    expect(() => heed.reshape([1, 2], [3])).toThrow(refused('SHAPE_MISMATCH', /the 2 elements of x, got \[3\]/));
    expect(() => heed.reshape([1, 2], [-2])).toThrow(refused('INVALID_ARGUMENT', /shape\[0\]/));
  });
});

describe('mean', () => {
  it('over the tokens, or those that a mask marks', () => {
    const mask = [
      [true, false, true],
      [false, false, false],
    ];
    checkGradients((x) => heed.mean(x), draw(1, 2, 3, 4));
    expect(
      heed
        .mean([
          [1, 2],
          [3, 4],
        ])
        .toArray(),
    ).toEqual([2, 3]);
    expect(
      heed
        .mean(
          [
            [[1], [2], [6]],
            [[1], [2], [3]],
          ],
          { mask },
        )
        .toArray(),
    ).toEqual([[3.5], [0]]);
    const [x, cotangent] = [draw(1, 2, 3, 4), draw(2, 2, 4)];
    const whole = new heed.Sequential([(y: Tensor) => heed.mean(y, { mask })]);
    const { inputs } = whole.forward(x, { backward: true }).backward(cotangent);
    const half = [...cotangent.data.subarray(0, 4)].map((v) => v / 2);
    expect([...inputs.x.data]).toEqual([...half, 0, 0, 0, 0, ...half, ...new Array(12).fill(0)]);
  });

  it('refuses other masks', () => {
    expect(() => heed.mean([[1], [2]], { mask: [1, 1, 1] })).toThrow(refused('SHAPE_MISMATCH', /mask/));
    const additive = { data: new Float32Array(2), shape: [2] };
    expect(() => heed.mean([[1], [2]], { mask: additive })).toThrow(refused('INVALID_ARGUMENT', /a boolean mask/));
    expect(() => heed.mean([1, 2])).toThrow(refused('SHAPE_MISMATCH', /x: expected \[..., L, E\]/));
  });
});

describe('custom functions', () => {
  const cube = () =>
    heed.custom({
      forward: (x) => ({ data: x.data.map((v) => v ** 3), shape: x.shape }),
      backward: (dy, { inputs: [x], output }) => {
        expect(output.shape).toEqual(dy.shape);
        return { data: dy.data.map((d, i) => 3 * d * x!.data[i]! ** 2), shape: x!.shape };
      },
    });

  it('are differentiated by their own backward', () => {
    const f = cube();
    checkGradients((x) => f(x), draw(1, 2, 3));
    checkGradients((x) => heed.softmax(f(heed.softmax(x))), draw(1, 2, 3));
    const product = heed.custom<[Tensor, Tensor]>({
      forward: (a, b) => heed.multiply(a, b),
      backward: (dy, { inputs: [a, b] }) => [heed.multiply(dy, b), heed.multiply(dy, a)],
    });
    checkGradients((a, b) => product(a, b), draw(1, 2, 3), draw(2, 2, 3));
  });

  it('train with layers around them, and a null gradient stands for zeros', () => {
    const layer = new heed.Linear({ inFeatures: 3, outFeatures: 2, seed: 1 }).train();
    const f = heed.custom<[Tensor, Tensor]>({
      forward: (a) => a,
      backward: (dy) => [dy, null],
    });
    const output = layer.forward(draw(1, 4, 3));
    heed.losses.mse(f(output, output), draw(2, 4, 2)).backward();
    const twin = new heed.Linear({ inFeatures: 3, outFeatures: 2, seed: 1 }).train();
    heed.losses.mse(twin.forward(draw(1, 4, 3)), draw(2, 4, 2)).backward();
    expect(layer.parameters().map(({ grad }) => grad)).toEqual(twin.parameters().map(({ grad }) => grad));
  });

  it('pass errors on; the gradients are then incomplete until zeroGrad()', () => {
    const layer = new heed.Linear({ inFeatures: 3, outFeatures: 2, seed: 1 }).train();
    const optimizer = new heed.optim.SGD(layer.parameters());
    let fails = true;
    const f = heed.custom({
      forward: (x) => x,
      backward: (dy) => {
        if (fails) throw new RangeError('mine');
        return dy;
      },
    });
    const back = () => {
      const output = layer.forward(draw(1, 4, 3));
      heed.losses.mse(heed.add(f(output), output), draw(2, 4, 2)).backward();
    };
    expect(back).toThrow(new RangeError('mine'));
    expect(() => optimizer.step()).toThrow(refused('INVALID_ARGUMENT', /a backward pass has failed.*zeroGrad\(\)/));
    fails = false;
    optimizer.zeroGrad();
    back();
    const { grad } = layer.parameters()[0]!;
    optimizer.step();
    const twin = new heed.Linear({ inFeatures: 3, outFeatures: 2, seed: 1 }).train();
    heed.losses.mse(heed.multiply(twin.forward(draw(1, 4, 3)), 2), draw(2, 4, 2)).backward();
    expect(error(grad!, twin.parameters()[0]!.grad!)).toBeLessThan(1);
  });

  it('must return gradients that fit', () => {
    const back = (result: unknown) => {
      const f = heed.custom({ forward: (x) => x, backward: () => result as never });
      new heed.Sequential([(x: Tensor) => f(x)]).forward(draw(1, 2, 3), { backward: true }).backward(draw(1, 2, 3));
    };
    expect(() => back([draw(1, 3, 2)])).toThrow(
      refused('SHAPE_MISMATCH', /result of backward\[0\]: .*\[2, 3\], got \[3, 2\]/),
    );
    expect(() => back([])).toThrow(refused('INVALID_ARGUMENT', /1 gradients, got 0/));
    expect(() => back('x')).toThrow(refused('INVALID_ARGUMENT', /result of backward/));
    expect(() => heed.custom({ forward: (x: Tensor) => x } as never)).toThrow(
      refused('INVALID_ARGUMENT', /`backward`/),
    );
  });

  it('must not train in their backward, but may compute and dispose', () => {
    const layer = new heed.Linear({ inFeatures: 3, outFeatures: 2, seed: 1 }).train();
    const optimizer = new heed.optim.SGD(layer.parameters());
    const losing = (inside: () => void) => {
      const f = heed.custom({
        forward: (x) => x,
        backward: (dy) => {
          inside();
          return heed.multiply(dy, 1);
        },
      });
      return heed.losses.mse(f(layer.forward(draw(1, 4, 3))), draw(2, 4, 2));
    };
    for (const train of [() => optimizer.step(), () => optimizer.zeroGrad(), () => losing(() => {}).backward()]) {
      expect(() => losing(train).backward()).toThrow(refused('INVALID_ARGUMENT', /only computes gradients/));
      optimizer.zeroGrad();
    }
    losing(() => layer.dispose()).backward();
    expect(() => layer.forward(draw(1, 4, 3))).toThrow(refused('DISPOSED', /Linear/));
  });
});
