/**
 * Objects of heed in Vue's `ref()` and `reactive()`, which replace the objects that they contain with proxies. Private
 * fields cannot be read through a proxy, so Vue must leave heed's objects out.
 */
import * as api from 'heed';
import { load } from 'heed';
import * as training from 'heed/train';
import { MinMaxScaler, StandardScaler } from 'heed/util';
import { afterAll, expect, test } from 'vitest';
import { tinyModel } from './models/tiny.js';

/** What Vue 3 does: `reactive` makes a proxy of an object unless it has `__v_skip` or cannot be extended. */
function reactive<T>(target: T): T {
  const isObject = typeof target === 'object' && target !== null;
  if (!isObject || (target as { __v_skip?: boolean }).__v_skip || !Object.isExtensible(target)) return target;
  const type = Object.prototype.toString.call(target).slice(8, -1);
  if (!['Object', 'Array', 'Map', 'Set', 'WeakMap', 'WeakSet'].includes(type)) return target;
  return new Proxy(target as object, { get: (...given) => reactive(Reflect.get(...given)) }) as T;
}
const stored = <T>(value: T): T => reactive({ value }).value;

const heed = await load();
const train = await training.load();
afterAll(() => {
  heed.dispose();
  train.dispose();
});

test('a proxy of an object with private fields does not work', () => {
  class Other {
    #secret = 1;
    get secret() {
      return this.#secret;
    }
  }
  expect(() => stored(new Other()).secret).toThrow(TypeError);
});

const x = [
  [1, 2],
  [3, 4],
];
const linear = () => new train.Linear({ inFeatures: 2, outFeatures: 1, seed: 1 }).train();

/** What applications store, and a use of it that reads private fields or compares objects. */
const cases: Record<string, [make: () => unknown, use: (object: never) => unknown]> = {
  'load()': [() => heed, (heed: api.Heed) => heed.softmax([1, 2])],
  'load() of heed/train': [() => train, (train: training.TrainingHeed) => train.softmax([1, 2])],
  ...Object.fromEntries(
    Object.entries({ here: {}, 'in a worker': { worker: true }, 'in a pool': { workers: 1 } }).map(
      ([where, options]) => [
        `a model ${where}`,
        [
          () => heed.fromPretrained(tinyModel(), options),
          async (model: api.PretrainedModel) => {
            expect(model.disposed).toBe(false);
            await model.embed('a fox');
            await model.encode('a fox');
            model.dispose();
          },
        ],
      ],
    ),
  ),
  'a trainable model': [
    () => train.fromPretrained(tinyModel(), { trainable: true }),
    (model: training.TrainableModel) => model.train().sentenceVectors('a fox').toArray(),
  ],
  'an index': [
    () => heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]), // biome-ignore format: one line
    async (index: api.TextIndex) => {
      await index.add(['south'], [[0, -1]]);
      return index.search([[1, 1e-3]]);
    },
  ],
  'a tokenizer': [() => api.loadTokenizer(tinyModel()), (tokenizer: api.Tokenizer) => tokenizer.encode('a fox')],
  'a layer': [
    () => new heed.MultiHeadAttention({ embedDim: 2, numHeads: 1 }),
    (layer: api.MultiHeadAttention) => layer.forward(x),
  ],
  'layers in a plain object': [
    () => ({ layer: new heed.Linear({ inFeatures: 2, outFeatures: 1 }) }),
    ({ layer }: { layer: api.Linear }) => layer.forward(x),
  ],
  'a Sequential': [
    () => new heed.Sequential([new heed.Linear({ inFeatures: 2, outFeatures: 1 })]),
    (model: { forward(x: unknown): unknown; train(): unknown }) => [model.train(), model.forward(x)],
  ],
  'a tensor': [() => heed.softmax([1, 2]), (tensor: api.Tensor) => String(tensor)],
  'a loss': [
    () => train.losses.mse(linear().forward(x), [[1], [2]]), // biome-ignore format: one line
    (loss: training.Loss) => [loss.item(), loss.backward()],
  ],
  'a model of layers, with its optimizer and schedule': [
    () => {
      const model = new train.Sequential([linear()]);
      const optimizer = new train.optim.AdamW(model.parameters(), { lr: 0.1 });
      return { model, optimizer, schedule: train.optim.schedules.linear(optimizer, { warmup: 0, steps: 10 }) };
    },
    async ({ model, optimizer, schedule }: Record<'model' | 'optimizer' | 'schedule', never>) => {
      const parts = { model, optimizer, schedule } as unknown as {
        model: training.Sequential;
        optimizer: training.Optimizer;
        schedule: training.Schedule;
      };
      const options = { loss: 'mse', optimizer: parts.optimizer, schedule: parts.schedule, epochs: 1 } as const;
      await parts.model.fit({ inputs: x, labels: [[1], [2]] }, options);
      expect(parts.model.parameters()[0]!.value.shape).toEqual([1, 2]);
    },
  ],
  'a list of parameters': [
    () => linear().parameters(),
    (parameters: training.Parameter[]) => parameters.map(({ value, requiresGrad }) => [value, requiresGrad]),
  ],
  'a scaler': [() => new StandardScaler().fit(x), (scaler: StandardScaler) => scaler.transform(x)],
  'another scaler': [() => new MinMaxScaler().fit(x), (scaler: MinMaxScaler) => scaler.transform(x)],
};

test.each(Object.keys(cases))('%s works', async (name) => {
  const [make, use] = cases[name]!;
  await use(stored(await make()) as never);
});

test('the mark cannot be seen in what applications print, copy and compare', () => {
  const tensor = heed.softmax([1, 2]);
  expect(Object.keys(tensor).sort()).toEqual(['data', 'shape']);
  expect(JSON.stringify(tensor)).not.toContain('skip');
});
