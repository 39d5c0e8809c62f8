/** Sequential, Module, Embedding and parameters: names, states, freezing, seeds. */
import { type IndexInput, load, type Sequential, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw, error } from '../layers/numbers.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

const refused = (code: string, message: RegExp) =>
  expect.objectContaining({ name: 'HeedError', code, message: expect.stringMatching(message) });

const model = (seed?: number) =>
  new heed.Sequential(
    [
      new heed.Embedding({ numEmbeddings: 10, embedDim: 8 }),
      new heed.PositionalEncoding({ embedDim: 8, maxLength: 4 }),
      new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 16, dropout: 0 }),
      (x) => heed.mean(x),
      new heed.Linear({ inFeatures: 8, outFeatures: 3 }),
    ],
    seed === undefined ? {} : { seed },
  );
const ids = [
  [1, 2, 3],
  [4, 5, 9],
];

describe('ids, with backward: true', () => {
  const ids = [[1, 2, 3]];
  const embedding = () => new heed.Embedding({ numEmbeddings: 5, embedDim: 3, seed: 1 });
  const linear = () => new heed.Linear({ inFeatures: 3, outFeatures: 2, seed: 2 });
  const gradientsOf = (model: Sequential, x: unknown) => {
    const { output, backward } = model.forward(x as number[][], { backward: true });
    const { inputs, parameters } = backward(output);
    expect(inputs).toEqual({});
    return Object.values(parameters).map(({ data }) => [...data]);
  };

  it('in a Sequential inside another', () => {
    const expected = gradientsOf(new heed.Sequential([embedding(), linear()]), ids);
    const Inner = heed.Sequential;
    for (const parts of [
      [new Inner([embedding()]), linear()],
      [new Inner([new Inner([]), new Inner([embedding(), linear()])])],
    ])
      expect(gradientsOf(new heed.Sequential(parts), ids)).toEqual(expected);
  });

  it("as integers, for a module or a function of one's own", () => {
    const table = embedding();
    const tensor = { data: Int32Array.of(1, 2, 3), shape: [1, 3] };
    const { output } = new heed.Sequential([(x: IndexInput) => table.forward(x), linear()]).forward(tensor, {
      backward: true,
    });
    expect(output.shape).toEqual([1, 3, 2]);
  });
});

describe('Embedding', () => {
  it('looks up rows in any shape, in both modes', () => {
    const table = new heed.Embedding({ numEmbeddings: 5, embedDim: 3, seed: 1 });
    const { weight } = table.stateDict();
    expect(table.forward([4, 0]).toArray()).toEqual(
      [weight!.at(4), weight!.at(0)].map((row) => (row as never as typeof weight)!.toArray()),
    );
    const given = { data: Int32Array.of(1, 2, 3, 4), shape: [2, 1, 2] };
    expect(table.forward(given).shape).toEqual([2, 1, 2, 3]);
    expect(table.train().forward(given)).toEqual(table.eval().forward(given));
  });

  it.each([
    [[5], 'INVALID_ARGUMENT', /ids: expected ids from 0 to 4, got 5/],
    [[-1], 'INVALID_ARGUMENT', /ids: expected ids from 0 to 4, got -1/],
    [[0.5], 'INVALID_ARGUMENT', /ids\[0\]: expected integers, got 0.5/],
    [{ data: Float32Array.of(1), shape: [1] }, 'INVALID_ARGUMENT', /ids.data: expected an Int32Array/],
    [{ data: Int32Array.of(1), shape: [2] }, 'SHAPE_MISMATCH', /ids/],
    ['1', 'INVALID_ARGUMENT', /ids: expected nested arrays of integers/],
  ])('refuses the ids %o', (given, code, message) => {
    const table = new heed.Embedding({ numEmbeddings: 5, embedDim: 3 });
    for (const layer of [table, table.train()])
      expect(() => layer.forward(given as number[])).toThrow(refused(code, message));
  });
});

describe('Sequential', () => {
  it('names parameters by position, and runs one part after the other', () => {
    const sequential = model(1);
    expect(sequential.parameters().map(({ name }) => name)).toEqual([
      '0.weight',
      '2.self_attn.in_proj_weight',
      '2.self_attn.in_proj_bias',
      '2.self_attn.out_proj.weight',
      '2.self_attn.out_proj.bias',
      '2.linear1.weight',
      '2.linear1.bias',
      '2.linear2.weight',
      '2.linear2.bias',
      '2.norm1.weight',
      '2.norm1.bias',
      '2.norm2.weight',
      '2.norm2.bias',
      '4.weight',
      '4.bias',
    ]);
    expect(sequential.parameterCount).toBe(
      sequential.parameters().reduce((sum, { value }) => sum + value.data.length, 0),
    );
    const parts = sequential.parts as unknown as readonly { forward(x: unknown): never }[];
    let x: unknown = ids;
    for (const part of parts) {
      const result = typeof part === 'function' ? (part as (x: unknown) => object)(x) : part.forward(x);
      x = 'output' in (result as object) ? (result as { output: unknown }).output : result;
    }
    expect(sequential.forward(ids)).toEqual(x);
  });

  it('its seed draws the layers that have none, and no others', () => {
    expect(model(1).stateDict()).toEqual(model(1).stateDict());
    expect(model(1).stateDict()).not.toEqual(model(2).stateDict());
    const state = model(1).stateDict();
    expect(new Set([state['0.weight']!.data[0], state['4.weight']!.data[0]]).size).toBe(2);
    const seeded = new heed.Linear({ inFeatures: 2, outFeatures: 2, seed: 5 });
    const loaded = new heed.Linear({ inFeatures: 2, outFeatures: 2 });
    const weights = {
      weight: [
        [1, 2],
        [3, 4],
      ],
      bias: [5, 6],
    };
    loaded.loadStateDict(weights);
    const before = seeded.stateDict();
    new heed.Sequential([seeded, loaded], { seed: 1 });
    expect(seeded.stateDict()).toEqual(before);
    expect(loaded.stateDict().weight!.toArray()).toEqual(weights.weight);
  });

  it('loads the state of another, all or nothing', () => {
    const [a, b] = [model(1), model(2)];
    b.loadStateDict(a.stateDict());
    expect(b.forward(ids)).toEqual(a.forward(ids));
    const { '4.bias': _, ...partial } = model(3).stateDict();
    expect(() => b.loadStateDict(partial)).toThrow(refused('INVALID_ARGUMENT', /missing '4.bias'/));
    expect(b.stateDict()).toEqual(a.stateDict());
  });

  it('can be differentiated by itself', () => {
    const sequential = new heed.Sequential([
      new heed.Linear({ inFeatures: 4, outFeatures: 6, activation: 'tanh', seed: 1 }),
      new heed.LayerNorm({ normalizedShape: 6 }),
      new heed.Linear({ inFeatures: 6, outFeatures: 2, seed: 2 }),
    ]);
    const [x, cotangent] = [draw(1, 3, 4), draw(2, 3, 2)];
    const { output, backward } = sequential.forward(x, { backward: true });
    expect(output).toEqual(sequential.forward(x));
    const { inputs, parameters } = backward(cotangent);
    expect(inputs.x.shape).toEqual([3, 4]);
    expect(Object.keys(parameters)).toEqual(sequential.parameters().map(({ name }) => name));
    // The same gradients with a loss.
    sequential.train();
    const product = heed.multiply(sequential.forward(x), cotangent);
    const loss = heed.multiply(heed.losses.mse(product, heed.multiply(product.slice(), 0)), 1);
    expect(loss.shape).toEqual([]);
    const weighted = heed.mean(heed.reshape(product, [6, 1]));
    const sum = heed.multiply(heed.reshape(weighted, []), 6) as unknown as typeof loss;
    sum.backward();
    for (const { name, grad } of sequential.parameters()) expect(error(grad!, parameters[name]!)).toBeLessThan(1);
    // Ids have no gradient.
    const ofIds = model(1)
      .forward(ids, { backward: true })
      .backward(draw(3, 2, 3));
    expect(ofIds.inputs).toEqual({});
    expect(ofIds.parameters['0.weight']!.shape).toEqual([10, 8]);
  });

  it('lists a layer that stands in it twice once', () => {
    const layer = new heed.Linear({ inFeatures: 2, outFeatures: 2, seed: 1 });
    const tied = new heed.Sequential([layer, layer]).train();
    expect(tied.parameters().map(({ name }) => name)).toEqual(['0.weight', '0.bias']);
    heed.losses.mse(tied.forward([[1, 2]]), [[0, 0]]).backward();
    new heed.optim.SGD(tied.parameters()).step();
  });

  it('refuses what is no layer', () => {
    expect(() => new heed.Sequential([{} as never])).toThrow(
      refused('INVALID_ARGUMENT', /layers\[0\]: expected a layer/),
    );
    expect(() => new heed.Sequential(3 as never)).toThrow(refused('INVALID_ARGUMENT', /an array of layers/));
    expect(() => new heed.Sequential([], { seeds: 1 } as object)).toThrow(refused('INVALID_ARGUMENT', /'seed'/));
  });
});

describe('Module', () => {
  function classifier() {
    class Classifier extends heed.Module {
      table = new heed.Embedding({ numEmbeddings: 10, embedDim: 8, seed: 1 });
      layers = [0, 1].map(
        (seed) => new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 8, dropout: 0, seed }),
      );
      head = new heed.Sequential([new heed.Linear({ inFeatures: 8, outFeatures: 2, seed: 3 })]);
      note = 'not a layer';

      forward(x: number[][]) {
        const embedded = this.layers.reduce((y, layer) => layer.forward(y).output, this.table.forward(x));
        return this.head.forward(heed.mean(embedded));
      }
    }
    return new Classifier();
  }

  it('finds the layers in its properties', () => {
    const module = classifier();
    const names = module.parameters().map(({ name }) => name);
    expect(names).toContain('table.weight');
    expect(names).toContain('layers.1.norm2.bias');
    expect(names).toContain('head.0.weight');
    expect(Object.keys(module.stateDict())).toEqual(names);
    expect(module.training).toBe(false);
    module.train();
    expect([module.training, module.table.training, module.head.training, module.layers[1]!.training]).toEqual([
      true,
      true,
      true,
      true,
    ]);
    module.dispose();
    expect(module.disposed).toBe(true);
    expect(() => module.table.forward([1])).toThrow(refused('DISPOSED', /./));
  });

  it('learns', () => {
    const module = classifier().train();
    const optimizer = new heed.optim.Adam(module.parameters(), { lr: 0.01 });
    const losses = Array.from({ length: 60 }, () => {
      optimizer.zeroGrad();
      const loss = heed.losses.crossEntropy(module.forward(ids), [0, 1]);
      loss.backward();
      optimizer.step();
      return loss.item();
    });
    expect(losses.at(-1)).toBeLessThan(0.05 * losses[0]!);
  });
});

describe('freeze', () => {
  const frozen = (sequential: ReturnType<typeof model>) =>
    sequential.parameters().flatMap(({ name, requiresGrad }) => (requiresGrad ? [] : [name]));

  it('takes globs, regular expressions and lists of them', () => {
    expect(frozen(model().freeze('0.*'))).toEqual(['0.weight']);
    expect(frozen(model().freeze(/^4\./))).toEqual(['4.weight', '4.bias']);
    expect(frozen(model().freeze(/norm/g)).length).toBe(4);
    expect(frozen(model().freeze(['?.weight', /^4\.bias$/]))).toEqual(['0.weight', '4.weight', '4.bias']);
    const all = model().freeze();
    expect(frozen(all).length).toBe(15);
    expect(frozen(all.unfreeze('*.bias'))).not.toContain('4.bias');
  });

  it('refuses a pattern that matches nothing', () => {
    expect(() => model().freeze('5.*')).toThrow(
      refused('INVALID_ARGUMENT', /Sequential.freeze: expected a pattern that matches/),
    );
    expect(() => model().freeze(['0.*', /embed/])).toThrow(refused('INVALID_ARGUMENT', /got .*embed/));
    expect(() => model().freeze(3 as never)).toThrow(refused('INVALID_ARGUMENT', /a glob or a RegExp/));
  });

  it('lasts until it is undone, whatever object stands for the parameter', () => {
    const layer = new heed.Linear({ inFeatures: 2, outFeatures: 2 });
    layer.parameters()[0]!.requiresGrad = false;
    expect(layer.parameters().map(({ requiresGrad }) => requiresGrad)).toEqual([false, true]);
  });
});

describe('parameters', () => {
  it('give copies, and end with their layer', () => {
    const layer = new heed.Linear({ inFeatures: 2, outFeatures: 2, seed: 1 });
    const [weight] = layer.parameters();
    expect(weight!.value).toEqual(layer.stateDict().weight);
    weight!.value.data.fill(7);
    expect(weight!.value).toEqual(layer.stateDict().weight);
    layer.dispose();
    expect(() => weight!.value).toThrow(refused('DISPOSED', /./));
    expect(() => weight!.grad).toThrow(refused('DISPOSED', /./));
  });

  it('of pruned layers can be trained', () => {
    const layer = new heed.MultiHeadAttention({ embedDim: 8, numHeads: 4, seed: 1 }).train();
    const pruned = layer.prune([0, 2]);
    heed.losses.mse(pruned.forward(draw(1, 3, 8)).output, draw(2, 3, 8)).backward();
    expect(pruned.parameters().map(({ grad }) => grad?.shape)).toEqual(pruned.parameters().map(({ shape }) => shape));
  });
});
