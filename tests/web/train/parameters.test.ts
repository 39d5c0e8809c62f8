/** `Module` and `Parameter` in heed and heed/train: names, values, gradients, checkpoints, errors. */
import { type Heed, HeedError, load, type TensorInput } from 'heed';
import { load as loadTraining, type Tensor, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw } from '../layers/numbers.js';

let heed: Heed;
let training: TrainingHeed;
beforeAll(async () => {
  heed = await load();
  training = await loadTraining();
});

const refused = (code: string, message: RegExp) =>
  expect.objectContaining({ name: 'HeedError', code, message: expect.stringMatching(message) });

/** A model with parameters of all ranks, as somebody would write it for either entry. */
function gatedModel(entry: Heed | TrainingHeed) {
  const { Module } = entry as Heed;
  class Block extends Module {
    scale = new entry.Parameter([], { init: 'ones' });
    shift = new entry.Parameter([4], { seed: 3 });
  }
  return class Gated extends Module {
    encoder = new entry.EncoderLayer({ embedDim: 4, numHeads: 2, feedForwardDim: 8, dropout: 0, seed: 1 });
    blocks = [new Block()];
    weight = new entry.Parameter([4, 2], { init: 'normal', seed: 2 });
    forward(x: TensorInput): Tensor {
      const [{ scale, shift }] = this.blocks as [Block];
      const h = entry.add(entry.multiply(this.encoder.forward(x).output, scale), shift);
      return entry.matmul(entry.tanh(entry.mean(h)), this.weight);
    }
  };
}

describe('Module', () => {
  const x = draw(1, 3, 5, 4);
  const target = draw(2, 3, 2);

  it('trains in heed/train and computes the same bits in heed', () => {
    const trained = new (gatedModel(training))().train() as unknown as InstanceType<TrainingHeed['Module']> & {
      forward(x: TensorInput): Tensor;
      weight: InstanceType<TrainingHeed['Parameter']>;
    };
    const names = trained.parameters().map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['blocks.0.scale', 'blocks.0.shift', 'weight']));
    const optimizer = new training.optim.Adam(trained.parameters(), { lr: 0.05 });
    const losses = Array.from({ length: 30 }, () => {
      optimizer.zeroGrad();
      const loss = training.losses.mse(trained.forward(x), target);
      loss.backward();
      optimizer.step();
      return loss.item();
    });
    expect(losses.at(-1)).toBeLessThan(losses[0]! / 4);

    const plain = new (gatedModel(heed))();
    expect(Object.keys(plain.stateDict()).sort()).toEqual(Object.keys(trained.stateDict()).sort());
    expect(plain.parameterCount).toBe(trained.parameterCount);
    plain.loadStateDict(trained.stateDict());
    expect([...plain.forward(x).data]).toEqual([...trained.eval().forward(x).data]);
    expect(plain.stateDict()['blocks.0.scale']!.shape).toEqual([]);
    plain.dispose();
    trained.dispose();
    expect(plain.disposed).toBe(true);
    expect(() => plain.forward(x)).toThrow(refused('DISPOSED', /./));
  });

  it('names heed/train in heed for what needs gradients', () => {
    const model = new (gatedModel(heed))() as unknown as Record<string, unknown>;
    for (const name of ['fit', 'parameters', 'freeze', 'backward', 'evaluate', 'predict'])
      expect(() => model[name]).toThrow(refused('UNSUPPORTED', /heed\/train/));
  });

  it('has parameters in checkpoints and in patterns of freeze', () => {
    const make = () => new (gatedModel(training))() as unknown as InstanceType<TrainingHeed['Module']>;
    const [model, other] = [make(), make()];
    model.freeze('blocks.0.*');
    const frozen = model.parameters().filter(({ requiresGrad }) => !requiresGrad);
    expect(frozen.map(({ name }) => name)).toEqual(['blocks.0.scale', 'blocks.0.shift']);
    const weight = model.parameters().find(({ name }) => name === 'weight')!;
    const state = {
      ...model.stateDict(),
      weight: draw(9, 4, 2),
      'blocks.0.scale': { data: Float32Array.of(3), shape: [] },
    };
    model.loadStateDict(state);
    training.loadCheckpoint(training.saveCheckpoint({ model }), { model: other });
    expect(other.stateDict().weight!.toArray()).toEqual(weight.value.toArray());
    expect(other.stateDict()['blocks.0.scale']!.toArray()).toBe(3);
  });

  it('records nothing before train() and after eval()', () => {
    const model = new (gatedModel(training))();
    model.forward(x);
    const before = training.info.memoryBytes;
    for (let i = 0; i < 2000; i++) model.forward(x);
    expect(training.info.memoryBytes).toBe(before);
    expect(() => training.losses.mse(model.forward(x), target).backward()).toThrow(
      refused('INVALID_ARGUMENT', /constant/),
    );
    training.losses.mse(model.train().forward(x), target).backward();
    model.eval();
    expect(() => training.losses.mse(model.forward(x), target).backward()).toThrow(
      refused('INVALID_ARGUMENT', /constant/),
    );
  });

  it('is refused with a state dict that does not fit, unchanged', () => {
    const model = new (gatedModel(heed))();
    const before = model.stateDict();
    const text = JSON.stringify(before);
    const wrong = { ...before, 'blocks.0.scale': [1] };
    expect(() => model.loadStateDict(wrong)).toThrow(
      refused('SHAPE_MISMATCH', /'blocks.0.scale' \(expected \[\], got \[1\]\)/),
    );
    expect(JSON.stringify(model.stateDict())).toBe(text);
  });
});

describe('Parameter', () => {
  it('has values from a shape, `init` and `seed`, or from a tensor', () => {
    for (const entry of [heed, training] as Heed[]) {
      expect(new entry.Parameter([2, 2], { init: 'zeros' }).value.toArray()).toEqual([
        [0, 0],
        [0, 0],
      ]);
      expect(new entry.Parameter([2], { init: 'ones' }).value.toArray()).toEqual([1, 1]);
      expect(new entry.Parameter({ data: Float32Array.of(1.5, 2), shape: [2] }).value.toArray()).toEqual([1.5, 2]);
      const bounded = new entry.Parameter([1000], { init: { uniform: 0.5 }, seed: 1 }).value.data;
      expect(Math.max(...bounded)).toBeLessThanOrEqual(0.5);
      expect(Math.min(...bounded)).toBeLessThan(-0.4);
    }
    const drawn = (entry: Heed, seed: number) => [...new entry.Parameter([50], { seed }).value.data];
    expect(drawn(training, 1)).toEqual(drawn(heed, 1));
    expect(drawn(heed, 2)).not.toEqual(drawn(heed, 1));
  });

  it('is trained alone, as an argument of functions, layers and losses', () => {
    const table = new training.Parameter([4, 2], { init: 'zeros' });
    const scores = training.masks.relative(table, 3);
    const weight = new training.Parameter([2, 3], { seed: 4 });
    const loss = training.add(
      training.sum(scores),
      training.losses.mse(training.linear(draw(5, 4, 3), { weight }), draw(6, 4, 2)),
    );
    loss.backward();
    expect(table.grad!.data.reduce((sum, d) => sum + d, 0)).toBe(18);
    expect(weight.grad!.data.every((d) => d !== 0)).toBe(true);
    const before = [...weight.value.data];
    const optimizer = new training.optim.SGD([weight, table] as never, { lr: 0.5 });
    optimizer.step();
    expect([...weight.value.data]).toEqual(
      before.map((w, i) => Math.fround(w - Math.fround(0.5 * weight.grad!.data[i]!))),
    );
    optimizer.zeroGrad();
    weight.freeze();
    expect(weight.requiresGrad).toBe(false);
    expect(() => training.sum(weight).backward()).toThrow(refused('INVALID_ARGUMENT', /constant/));
    weight.requiresGrad = true;
    training.sum(weight.eval()).toArray();
    expect(() => training.sum(weight).backward()).toThrow(HeedError); // in evaluation mode, it is a constant
  });

  it('refuses what is no shape, no values or contradicts them', () => {
    const { Parameter } = heed as unknown as { Parameter: new (...given: unknown[]) => object };
    const calls: [unknown[], string, RegExp][] = [
      [[], 'INVALID_ARGUMENT', /Parameter: expected a shape/],
      [[3], 'INVALID_ARGUMENT', /Parameter: expected a shape/],
      [[[1.5]], 'INVALID_ARGUMENT', /shape\[0\]: expected an integer/],
      [[[[1, 2]]], 'INVALID_ARGUMENT', /shape\[0\]: expected an integer/],
      [[[2, 0]], 'INVALID_ARGUMENT', /shape\[1\]: expected an integer from 1/],
      [[[-1]], 'INVALID_ARGUMENT', /shape\[0\]/],
      [[[2 ** 30, 2 ** 30]], 'OUT_OF_MEMORY', /./],
      [[{ data: Float32Array.of(1, 2), shape: [3] }], 'SHAPE_MISMATCH', /3 values/],
      [[{ data: [1], shape: [1] }], 'INVALID_ARGUMENT', /Float32Array/],
      [[[2], { init: 'xavier' }], 'INVALID_ARGUMENT', /init: expected one of 'zeros'/],
      [[[2], { init: { uniform: 0 } }], 'INVALID_ARGUMENT', /uniform: expected a positive/],
      [[[2], { seed: -1 }], 'INVALID_ARGUMENT', /seed/],
      [[[2], { std: 1 }], 'INVALID_ARGUMENT', /unknown option 'std'/],
      [
        [{ data: Float32Array.of(1), shape: [1] }, { init: 'ones' }],
        'INVALID_ARGUMENT',
        /init: expected undefined with values/,
      ],
    ];
    for (const [given, code, message] of calls) expect(() => new Parameter(...given)).toThrow(refused(code, message));
  });
});

describe('operations', () => {
  it('refuse axes and shapes that do not fit', () => {
    const x = [
      [1, 2, 3],
      [4, 5, 6],
    ];
    const calls: [() => unknown, string, RegExp][] = [
      [() => heed.sum(x, { axis: 2 }), 'INVALID_ARGUMENT', /sum.axis: expected an integer from -2 to 1, got 2/],
      [() => heed.sum(x, { axis: [0, -2] }), 'INVALID_ARGUMENT', /distinct axes, got axis -2 twice/],
      [() => heed.sum(x, { axis: 0.5 }), 'INVALID_ARGUMENT', /axis/],
      [() => heed.sum(x, { axis: '0' as never }), 'INVALID_ARGUMENT', /axis: expected an array or an integer/],
      [() => heed.sum(x, { keepdims: true } as object), 'INVALID_ARGUMENT', /'keepDims'/],
      [() => heed.sum(5, { axis: 0 }), 'SHAPE_MISMATCH', /at least one axis/],
      [() => heed.max([[]], { axis: 1 }), 'SHAPE_MISMATCH', /max: x: expected at least one entry/],
      [() => heed.max([]), 'SHAPE_MISMATCH', /at least one entry/],
      [() => heed.mean([1, 2]), 'SHAPE_MISMATCH', /mean: x: expected \[..., L, E\]/],
      [() => heed.mean(x, { axis: 0, mask: [1, 1] }), 'INVALID_ARGUMENT', /mean.mask: expected undefined with `axis`/],
      [() => heed.mean(x, { mask: [1, 0, 1] }), 'SHAPE_MISMATCH', /mean.mask: expected \[2\], got \[3\]/],
      [() => heed.mean(x, { mask: [0.5, 1] }), 'INVALID_ARGUMENT', /boolean mask/],
      [
        () => heed.divide(x, [1, 2]),
        'SHAPE_MISMATCH',
        /divide: b: expected a shape that broadcasts against a, \[2, 3\], got \[2\]/,
      ],
      [() => heed.exp('1' as never), 'INVALID_ARGUMENT', /exp: x/],
      [() => heed.log(undefined as never), 'INVALID_ARGUMENT', /log: x/],
      [() => heed.reshape(x, [4]), 'SHAPE_MISMATCH', /reshape: shape: expected the 6 elements of x, got \[4\]/],
      [() => heed.reshape(x, [-1, 4]), 'SHAPE_MISMATCH', /got \[-1, 4\]/],
      [() => heed.reshape(x, [-1, -1]), 'SHAPE_MISMATCH', /got \[-1, -1\]/],
      [() => heed.reshape(x, [-2, 3]), 'INVALID_ARGUMENT', /shape\[0\]/],
      [() => heed.slice(x, { axis: 2 }), 'INVALID_ARGUMENT', /slice.axis/],
      [() => heed.concatenate([]), 'INVALID_ARGUMENT', /at least one tensor/],
      [() => heed.concatenate([x, [1]]), 'SHAPE_MISMATCH', /tensors\[1\]: expected \[2, 3\] except along axis 1/],
      [() => heed.add(draw(1, 1, 60000), draw(2, 60000, 1)), 'OUT_OF_MEMORY', /entries/],
    ];
    for (const [call, code, message] of calls) expect(call).toThrow(refused(code, message));
    expect(heed.sum(x, { axis: [] }).toArray()).toEqual(x); // as in NumPy
    expect(heed.add(1, 2).toArray()).toBe(3);
    expect(heed.multiply(Number.NaN, [1]).toArray()).toEqual([Number.NaN]);
  });

  it('keep the values of a forward pass that the caller changes afterwards', () => {
    const weight = new training.Parameter([3], { init: 'ones' });
    const x = Float32Array.of(1, 2, 3);
    const loss = training.sum(training.multiply(weight, { data: x, shape: [3] }));
    x.fill(9);
    loss.backward();
    expect([...weight.grad!.data]).toEqual([1, 2, 3]);
  });

  it('throw DISPOSED after dispose()', async () => {
    for (const entry of [await load(), (await loadTraining()) as Heed]) {
      entry.dispose();
      expect(() => entry.exp([1])).toThrow(refused('DISPOSED', /./));
      expect(() => new entry.Parameter([1])).toThrow(refused('DISPOSED', /./));
    }
  });
});
