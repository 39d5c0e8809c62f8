/** `FeatureTokenizer` in heed and heed/train: values from its formula, gradients, errors. */
import { type Heed, load } from 'heed';
import { load as loadTraining, type TrainingHeed } from 'heed/train';
import { beforeAll, expect, it } from 'vitest';

let heed: Heed;
let training: TrainingHeed;
beforeAll(async () => {
  heed = await load();
  training = await loadTraining();
});

const options = { numerical: 2, categories: [2, 3], embedDim: 2 };
const state = {
  weight: [
    [1, 2],
    [3, 4],
  ],
  'embedding.weight': [
    [10, 20],
    [30, 40],
    [50, 60],
    [70, 80],
    [90, 100],
  ],
  bias: [
    [0.5, 0],
    [0, 0.5],
    [0.25, 0],
    [0, 0.25],
  ],
  cls: [7, 8],
};
const rows = [
  [1, -1, 0, 2],
  [2, 0, 1, 0],
];

it('makes a token of each column, after the CLS token', () => {
  for (const entry of [heed, training]) {
    const tokenizer = new entry.FeatureTokenizer(options).loadStateDict(state);
    expect(tokenizer.forward(rows).toArray()).toEqual([
      [
        [7, 8],
        [1.5, 2],
        [-3, -3.5],
        [10.25, 20],
        [90, 100.25],
      ],
      [
        [7, 8],
        [2.5, 4],
        [0, 0.5],
        [30.25, 40],
        [50, 60.25],
      ],
    ]);
    expect(tokenizer.forward(rows[0]!).shape).toEqual([5, 2]);
    const [numbers, ids] = [
      new entry.FeatureTokenizer({ numerical: 1, embedDim: 3, cls: false }),
      new entry.FeatureTokenizer({ categories: [4], embedDim: 3 }),
    ];
    expect(Object.keys(numbers.stateDict())).toEqual(['weight', 'bias']);
    expect(numbers.forward([[0.5], [1]]).shape).toEqual([2, 1, 3]);
    expect(Object.keys(ids.stateDict())).toEqual(['embedding.weight', 'bias', 'cls']);
    expect(ids.forward([[3]]).shape).toEqual([1, 2, 3]);
  }
});

it('has equal values for equal seeds, within its bounds', () => {
  const made = (seed: number) => JSON.stringify(new heed.FeatureTokenizer({ ...options, seed }).stateDict());
  expect(made(1)).toBe(made(1));
  expect(made(2)).not.toBe(made(1));
  const { weight } = new heed.FeatureTokenizer({ numerical: 50, embedDim: 16 }).stateDict();
  expect(Math.max(...weight!.data.map(Math.abs))).toBeLessThanOrEqual(0.25);
});

it('has gradients, and is trained as a part of a model', () => {
  const tokenizer = new training.FeatureTokenizer(options).loadStateDict(state).train();
  training.sum(tokenizer.forward(rows)).backward();
  const gradients = Object.fromEntries(tokenizer.parameters().map(({ name, grad }) => [name, grad!.toArray()]));
  expect(gradients).toEqual({
    weight: [
      [3, 3],
      [-1, -1],
    ],
    'embedding.weight': [
      [1, 1],
      [1, 1],
      [1, 1],
      [0, 0],
      [1, 1],
    ],
    bias: [
      [2, 2],
      [2, 2],
      [2, 2],
      [2, 2],
    ],
    cls: [2, 2],
  });
  const model = new training.Sequential(
    [
      new training.FeatureTokenizer(options),
      new training.EncoderLayer({ embedDim: 2, numHeads: 1, feedForwardDim: 4, dropout: 0 }),
      (x) => training.mean(x),
      new training.Linear({ inFeatures: 2, outFeatures: 1 }),
    ],
    { seed: 1 },
  );
  expect(
    model
      .parameters()
      .map(({ name }) => name)
      .slice(0, 4),
  ).toEqual(['0.weight', '0.embedding.weight', '0.bias', '0.cls']);
  expect(model.forward(rows).shape).toEqual([2, 1]);
});

it('refuses columns and ids that do not fit', () => {
  const tokenizer = new heed.FeatureTokenizer(options);
  const failure = (code: string, message: RegExp) =>
    expect.objectContaining({ name: 'HeedError', code, message: expect.stringMatching(message) });
  expect(() => tokenizer.forward([[1, 2, 0]])).toThrow(
    failure('SHAPE_MISMATCH', /x: expected \[..., 4\], got \[1, 3\]/),
  );
  expect(() => tokenizer.forward([[1, 2, 0, 3]])).toThrow(
    failure('INVALID_ARGUMENT', /x, row 0, column 3: expected an id from 0 to 2, got 3/),
  );
  expect(() => tokenizer.forward([...rows, [1, 2, 0.5, 0]])).toThrow(
    failure('INVALID_ARGUMENT', /row 2, column 2: expected an id from 0 to 1, got 0.5/),
  );
  expect(() => new heed.FeatureTokenizer({ embedDim: 2 })).toThrow(failure('INVALID_ARGUMENT', /at least one column/));
  expect(() => new heed.FeatureTokenizer({ ...options, categories: [0] })).toThrow(
    failure('INVALID_ARGUMENT', /categories\[0\]/),
  );
});
