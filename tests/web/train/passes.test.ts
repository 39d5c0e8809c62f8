/** When the graph of a forward pass is freed, and how it is extended. */
import { load, Tensor } from 'heed/train';
import { describe, expect, it } from 'vitest';
import { draw, error } from '../layers/numbers.js';
import { heed, linear, refused } from './passes-support.js';

describe('in training mode', () => {
  const x = draw(1, 4, 8);
  const target = draw(2, 4, 3);

  it('results of layers, functions and operations chain', () => {
    const [a, b] = [linear(8, 6), linear(6, 3, 2)];
    const chained = () => heed.losses.mse(b.forward(heed.softmax(a.forward(x))), target);
    const plain = chained();
    expect(() => plain.backward()).toThrow(refused('INVALID_ARGUMENT', /depends on a parameter/));
    a.train();
    b.train();
    const loss = chained();
    expect(loss.item()).toBe(plain.item());
    loss.backward();
    // The gradient of the first layer's weight, computed by successive calls.
    const first = a.forward(x, { backward: true });
    const middle = heed.softmax(first.output, { backward: true });
    const last = b.forward(middle.output, { backward: true });
    const cotangent = {
      data: last.output.data.map((v, i) => (2 * (v - target.data[i]!)) / target.data.length),
      shape: [4, 3],
    };
    const outer = last.backward(cotangent);
    const inner = first.backward(middle.backward(outer.inputs.x).inputs.x);
    const grads = [...a.parameters(), ...b.parameters()].map(({ grad }) => grad!);
    const expected = [...Object.values(inner.parameters), ...Object.values(outer.parameters)];
    grads.forEach((grad, i) => expect(error(grad, expected[i]!)).toBeLessThan(1));
  });

  it('a result goes on in another shape over the same data', () => {
    const layer = linear(8, 3).train();
    const output = layer.forward(x);
    const flat = new (output.constructor as new (data: Float32Array, shape: number[]) => typeof output)(
      output.data,
      [12],
    );
    heed.losses.mse(flat, { data: target.data, shape: [12] }).backward();
    const direct = linear(8, 3).train();
    heed.losses.mse(direct.forward(x), target).backward();
    expect(layer.parameters()[0]!.grad).toEqual(direct.parameters()[0]!.grad);
  });

  it('gradients flow through layers in evaluation mode', () => {
    const [a, b] = [linear(8, 6).train(), linear(6, 3)];
    heed.losses.mse(b.forward(a.forward(x)), target).backward();
    expect(a.parameters()[0]!.grad).not.toBeNull();
    expect(b.parameters()[0]!.grad).not.toBeNull();
    const c = linear(8, 3);
    expect(() => heed.losses.mse(c.forward(x), target).backward()).toThrow(refused('INVALID_ARGUMENT', /train\(\)/));
  });

  it('frozen parameters have no gradient, and their layers none to give', () => {
    const [a, b] = [linear(8, 6).train().freeze(), linear(6, 3).train()];
    heed.losses.mse(b.forward(a.forward(x)), target).backward();
    expect(a.parameters().map(({ grad, requiresGrad }) => [grad, requiresGrad])).toEqual([
      [null, false],
      [null, false],
    ]);
    expect(b.parameters()[0]!.grad).not.toBeNull();
    a.unfreeze('weight');
    heed.losses.mse(b.forward(a.forward(x)), target).backward();
    expect(a.parameters().map(({ grad }) => grad === null)).toEqual([false, true]);
  });

  it('several losses may be backed in any order', () => {
    const gradients = (order: readonly number[]) => {
      const [trunk, left, right] = [linear(8, 6).train(), linear(6, 3, 2).train(), linear(6, 3, 3).train()];
      const shared = trunk.forward(x);
      const losses = [heed.losses.mse(left.forward(shared), target), heed.losses.mse(right.forward(shared), target)];
      for (const i of order) losses[i]!.backward();
      return [trunk, left, right].flatMap((layer) => layer.parameters().map(({ grad }) => grad!));
    };
    const one = gradients([0, 1]);
    gradients([1, 0]).forEach((grad, i) => expect(error(grad, one[i]!)).toBeLessThan(1));
  });

  it('losses add up and scale', () => {
    const gradient = (combine: (a: ReturnType<typeof heed.losses.mse>, b: typeof a) => typeof a) => {
      const layer = linear(8, 3).train();
      const output = layer.forward(x);
      const loss = combine(heed.losses.mse(output, target), heed.losses.mse(output, draw(3, 4, 3)));
      loss.backward();
      return { value: loss.item(), grad: layer.parameters()[0]!.grad! };
    };
    const sum = gradient((a, b) => heed.add(heed.multiply(a, 2), b));
    const [a, b] = [gradient((one) => one), gradient((_, two) => two)];
    expect(sum.value).toBeCloseTo(2 * a.value + b.value, 5);
    const expected = heed.add(heed.multiply(a.grad, 2), b.grad);
    expect(error(sum.grad, expected)).toBeLessThan(1);
  });

  it('a pass ends with its backward, zeroGrad(), step() and a change of the parameters', () => {
    const layer = linear(8, 3).train();
    const optimizer = new heed.optim.SGD(layer.parameters(), { lr: 0.1 });
    const loss = () => heed.losses.mse(layer.forward(x), target);
    const ended = refused('INVALID_ARGUMENT', /the graph of the loss has been freed\. .*forward pass again/);

    const twice = loss();
    twice.backward();
    expect(() => twice.backward()).toThrow(ended);
    const zeroed = loss();
    optimizer.zeroGrad();
    expect(() => zeroed.backward()).toThrow(ended);
    loss().backward();
    const stepped = loss();
    optimizer.step();
    expect(() => stepped.backward()).toThrow(ended);
    const loaded = loss();
    layer.loadStateDict(layer.stateDict());
    expect(() => loaded.backward()).toThrow(
      refused('INVALID_ARGUMENT', /the parameters of a Linear have changed since the forward pass/),
    );
    loss().backward(); // the layer still works
  });

  it('tensors of an ended pass have values, but no gradient', () => {
    const layer = linear(8, 3).train();
    const output = layer.forward(x);
    heed.losses.mse(output, target).backward();
    const copy = new Tensor(output.data.slice(), output.shape);
    const ended = refused('INVALID_ARGUMENT', /graph of the loss has been freed/);
    expect(heed.softmax(output)).toEqual(heed.softmax(copy));
    const late = heed.losses.mse(output, target);
    expect(late.item()).toBe(heed.losses.mse(copy, target).item());
    expect(() => late.backward()).toThrow(ended);
    for (const stale of [output, output.slice()]) {
      const live = heed.losses.mse(layer.forward(x), stale);
      expect(() => live.backward()).toThrow(ended);
    }
    heed.losses.mse(layer.forward(x), copy).backward(); // a copy is a constant
  });

  it('a loss whose layer was disposed of cannot be backed', () => {
    const [a, b] = [linear(8, 6).train(), linear(6, 3).train()];
    const loss = heed.losses.mse(b.forward(a.forward(x)), target);
    a.dispose();
    expect(() => loss.backward()).toThrow(refused('DISPOSED', /Linear that was disposed of/));
    heed.losses.mse(b.forward(draw(3, 4, 6)), target).backward();
  });

  it('a loss that is not finite cannot be backed', () => {
    const layer = linear(8, 3).train();
    const before = layer.stateDict();
    const loss = heed.losses.mse(layer.forward({ data: x.data.map(() => 1e30), shape: [4, 8] }), target);
    expect(() => loss.backward()).toThrow(refused('DIVERGED', /finite loss, got Infinity/));
    expect(layer.parameters()[0]!.grad).toBeNull();
    expect(layer.stateDict()).toEqual(before);
  });

  it('evaluation mode computes the same, and records nothing', () => {
    const options = { embedDim: 8, numHeads: 2, feedForwardDim: 16, numLayers: 2, dropout: 0, seed: 3 };
    const encoder = new heed.Encoder(options);
    const plain = encoder.forward(x, { returnWeights: true });
    const trained = encoder.train().forward(x, { returnWeights: true });
    expect(trained).toEqual(plain);
    expect(encoder.eval().forward(x, { returnWeights: true })).toEqual(plain);
  });

  it('batch norm learns its moving averages', () => {
    const norm = new heed.BatchNorm({ numFeatures: 3, seed: 1 }).train();
    norm.forward([
      [0, 1, 2],
      [2, 1, 6],
    ]);
    const { running_mean, running_var } = norm.stateDict();
    expect([...running_mean!.data].map((v) => v.toFixed(4))).toEqual(['0.1000', '0.1000', '0.4000']);
    expect([...running_var!.data].map((v) => v.toFixed(4))).toEqual(['1.1000', '0.9000', '1.7000']);
    expect(norm.parameters().map(({ name }) => name)).toEqual(['weight', 'bias']);
  });

  it('a table of relative positions gets a gradient through the mask', () => {
    const table = new heed.Embedding({ numEmbeddings: 8, embedDim: 2, seed: 1 }).train();
    const attention = new heed.MultiHeadAttention({ embedDim: 8, numHeads: 2, seed: 2 });
    const value = () => {
      const mask = heed.masks.relative(table.forward([0, 1, 2, 3, 4, 5, 6, 7]), 4, 4, { maxDistance: 4 });
      return heed.losses.mse(attention.forward(x, { mask }).output, draw(4, 4, 8));
    };
    value().backward();
    const { grad } = table.parameters()[0]!;
    const along = draw(5, 8, 2);
    const { weight } = table.stateDict();
    const at = (step: number) => {
      table.loadStateDict({ weight: { data: weight!.data.map((v, i) => v + step * along.data[i]!), shape: [8, 2] } });
      return value().item();
    };
    const slope = (at(1e-2) - at(-1e-2)) / 2e-2;
    const expected = along.data.reduce((sum, v, i) => sum + v * grad!.data[i]!, 0);
    expect(expected).not.toBe(0);
    expect(Math.abs(slope - expected)).toBeLessThan(1e-3);
  });

  it('layers of another load() are refused', async () => {
    const other = await load();
    const foreign = new other.Linear({ inFeatures: 8, outFeatures: 3 }).train();
    expect(() => new heed.optim.SGD(foreign.parameters())).toThrow(
      refused(
        'INVALID_ARGUMENT',
        /params: expected parameters of the same load\(\), got a parameter of another load\(\)/,
      ),
    );
    const result = foreign.forward(x);
    const own = linear(3, 3).train();
    const elsewhere = refused(
      'INVALID_ARGUMENT',
      /results of layers of the same load\(\), got a result of another load\(\)/,
    );
    for (const call of [
      () => heed.losses.mse(result, target),
      () => own.forward(result),
      () => own.eval().forward(result),
      () => heed.add(result, result),
      () => own.forward(result, { backward: true }),
    ])
      expect(call).toThrow(elsewhere);
    // In evaluation mode, results are constants.
    heed.losses.mse(own.train().forward(foreign.eval().forward(x)), target).backward();
    other.losses.mse(result, target).backward();
    other.dispose();
    expect(() => foreign.forward(x)).toThrow(refused('DISPOSED', /./));
  });
});
