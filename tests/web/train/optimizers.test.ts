/**
 * Optimizers, clipping and schedules: valid and invalid arguments. Their results are compared with PyTorch elsewhere.
 */
import { load, type Tensor, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw } from '../layers/numbers.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

const refused = (code: string, message: RegExp) =>
  expect.objectContaining({ name: 'HeedError', code, message: expect.stringMatching(message) });

const x = draw(1, 4, 3);
const target = draw(2, 4, 2);

function setup(scale = 1) {
  const layer = new heed.Linear({ inFeatures: 3, outFeatures: 2, seed: 1 }).train();
  const back = () => {
    const loss = heed.multiply(heed.losses.mse(layer.forward(x), target), scale);
    loss.backward();
    return loss;
  };
  return { layer, back };
}

describe('an optimizer', () => {
  it('steps against the gradient, and zeroGrad drops it', () => {
    const { layer, back } = setup();
    const optimizer = new heed.optim.SGD(layer.parameters(), { lr: 0.1 });
    back();
    const [weight] = layer.parameters();
    const expected = weight!.value.data.map((v, i) => v - Math.fround(Math.fround(0.1) * weight!.grad!.data[i]!));
    optimizer.step();
    expect([...weight!.value.data].map((v) => v.toFixed(6))).toEqual([...expected].map((v) => v.toFixed(6)));
    expect(weight!.grad).not.toBeNull(); // as in PyTorch
    optimizer.zeroGrad();
    expect(weight!.grad).toBeNull();
  });

  it('leaves alone what is frozen, has no gradient, or is not its own', () => {
    const { layer, back } = setup();
    const other = new heed.Linear({ inFeatures: 3, outFeatures: 2, seed: 3 }).train();
    const [weight, bias] = layer.parameters();
    const optimizer = new heed.optim.AdamW([weight!, ...other.parameters()], { lr: 0.1 });
    back();
    const before = [layer.stateDict(), other.stateDict()] as const;
    optimizer.step();
    expect(weight!.value).not.toEqual(before[0].weight);
    expect(bias!.value).toEqual(before[0].bias);
    expect(other.stateDict()).toEqual(before[1]);
    optimizer.zeroGrad();
    expect([weight!.grad, bias!.grad === null]).toEqual([null, false]);
    layer.freeze('weight');
    back();
    const frozen = layer.stateDict();
    optimizer.step();
    expect(layer.stateDict()).toEqual(frozen);
  });

  it('has groups with options of their own', () => {
    const { layer } = setup();
    const [weight, bias] = layer.parameters();
    const optimizer = new heed.optim.AdamW([{ params: [weight!], lr: 0.5 }, { params: bias! }], { lr: 0.25 });
    expect(optimizer.paramGroups.map(({ lr, params }) => [lr, params.map(({ name }) => name)])).toEqual([
      [0.5, ['weight']],
      [0.25, ['bias']],
    ]);
    optimizer.paramGroups[1]!.lr = 0;
    expect(optimizer.paramGroups[1]!.lr).toBe(0);
    expect(() => {
      optimizer.paramGroups[0]!.lr = -1;
    }).toThrow(refused('INVALID_ARGUMENT', /AdamW.lr: expected a finite number >= 0/));
  });

  it.each([
    [() => new heed.optim.SGD([]), /params: expected at least one parameter/],
    [() => new heed.optim.SGD(3 as never), /params: expected parameters/],
    [() => new heed.optim.SGD(setup().layer.parameters(), { lr: -1 }), /lr: expected a finite number >= 0, got -1/],
    [() => new heed.optim.SGD(setup().layer.parameters(), { nesterov: true }), /nesterov/],
    [
      () => new heed.optim.Adam(setup().layer.parameters(), { betas: [0.9, 1] }),
      /betas\[1\]: expected a number in \[0, 1\)/,
    ],
    [() => new heed.optim.Adam(setup().layer.parameters(), { betas: [0.9] as never }), /betas: expected two numbers/],
    [() => new heed.optim.Adam(setup().layer.parameters(), { momentum: 0.9 } as object), /unknown option 'momentum'/],
    [
      () => new heed.optim.SGD([{ params: setup().layer.parameters(), betas: [0, 0] }] as never),
      /params\[0\]: .*'betas'/,
    ],
    [
      () => {
        const parameters = setup().layer.parameters();
        return new heed.optim.SGD([...parameters, ...parameters]);
      },
      /params: expected each parameter in one group, got weight twice/,
    ],
  ])('refuses %s', (make, message) => {
    expect(make).toThrow(refused('INVALID_ARGUMENT', message));
  });

  it('stops at a gradient that is not finite, and changes nothing', () => {
    const { layer } = setup();
    const optimizer = new heed.optim.AdamW(layer.parameters(), { lr: 1 });
    const before = layer.stateDict();
    // A finite loss with an infinite gradient.
    const infinite = heed.custom<[Tensor]>({
      forward: () => ({ data: Float32Array.of(1), shape: [] }),
      backward: () => [{ data: new Float32Array(8).fill(Number.POSITIVE_INFINITY), shape: [4, 2] }],
    });
    (infinite(layer.forward(x)) as unknown as { backward(): void }).backward();
    expect(heed.optim.clipGradNorm(layer.parameters(), 1)).not.toBeLessThan(Number.POSITIVE_INFINITY);
    expect(() => optimizer.step()).toThrow(
      refused('DIVERGED', /AdamW.step: expected finite gradients, got NaN or infinity in that of 'weight'/),
    );
    expect(layer.stateDict()).toEqual(before);
    optimizer.zeroGrad();
    heed.losses.mse(layer.forward(x), target).backward();
    optimizer.step();
    expect(layer.stateDict()).not.toEqual(before);
  });

  it('ends with a layer whose parameters it has, and with dispose()', () => {
    const { layer, back } = setup();
    const optimizer = new heed.optim.SGD(layer.parameters());
    back();
    layer.dispose();
    for (const call of [() => optimizer.step(), () => optimizer.zeroGrad()])
      expect(call).toThrow(refused('DISPOSED', /SGD: the layer of its parameter 'weight' was disposed of/));
    const again = setup();
    const disposed = new heed.optim.SGD(again.layer.parameters());
    disposed.dispose();
    expect(() => disposed.step()).toThrow(refused('DISPOSED', /SGD/));
    again.back();
  });
});

describe('clipGradNorm', () => {
  it('scales the given gradients to the norm, and returns the one before', () => {
    const { layer, back } = setup(100);
    back();
    const norm = () => Math.hypot(...layer.parameters().flatMap(({ grad }) => [...grad!.data]));
    const before = norm();
    expect(heed.optim.clipGradNorm(layer.parameters(), 1e6)).toBeCloseTo(before, 3);
    expect(norm()).toBe(before);
    expect(heed.optim.clipGradNorm(layer.parameters(), 0.5)).toBeCloseTo(before, 3);
    expect(norm()).toBeCloseTo(0.5, 5);
    const [weight, bias] = layer.parameters();
    const untouched = weight!.grad;
    heed.optim.clipGradNorm([bias!], 1e-3);
    expect(weight!.grad).toEqual(untouched);
    expect(Math.hypot(...bias!.grad!.data)).toBeCloseTo(1e-3, 6);
  });

  it('refuses what is no norm', () => {
    const { layer } = setup();
    for (const wrong of [0, -1, Number.NaN, '1'])
      expect(() => heed.optim.clipGradNorm(layer.parameters(), wrong as number)).toThrow(
        refused('INVALID_ARGUMENT', /maxNorm: expected a positive number/),
      );
  });
});

describe('schedules', () => {
  it('take their options and an optimizer', () => {
    const optimizer = new heed.optim.SGD(setup().layer.parameters(), { lr: 2 });
    const schedule = heed.optim.schedules.constant(optimizer, { warmup: 2 });
    const rates = [0, 1, 2, 3].map(() => {
      const { lr } = optimizer.paramGroups[0]!;
      schedule.step();
      return lr;
    });
    expect(rates).toEqual([0, 1, 2, 2]);
    expect(schedule.count).toBe(4);
    expect(() => heed.optim.schedules.linear({} as never, { warmup: 1, steps: 2 })).toThrow(
      refused('INVALID_ARGUMENT', /optimizer: expected an optimizer/),
    );
    expect(() => heed.optim.schedules.cosine(optimizer, { warmup: 1 } as never)).toThrow(
      refused('INVALID_ARGUMENT', /schedules.cosine.steps/),
    );
  });
});
