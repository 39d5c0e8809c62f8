/**
 * Losses on truncated vectors and on scored pairs, in `losses` and in `trainEmbedding`. Expected values: PyTorch's,
 * from tests/fixtures/training/matryoshka.py.
 */
import { readFileSync } from 'node:fs';
import { load, type TrainingHeed } from 'heed/train';
import { expect, test } from 'vitest';
import { tinyModel } from '../models/tiny.js';

const golden = JSON.parse(readFileSync(new URL('../../fixtures/training/matryoshka.json', import.meta.url), 'utf8'));
const heed: TrainingHeed = await load();

const expectNear = (got: number, expected: number) =>
  expect(Math.abs(got - expected)).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(expected));

interface Case {
  loss: 'infoNCE' | 'coSENT';
  dims: number[];
  weights: number[];
  inputs: number[][][];
  value: number;
  gradients: number[][][];
}

test.each(golden.cases as Case[])(
  '$loss of $dims, weights $weights',
  ({ loss, dims, weights, inputs, value, gradients }) => {
    // Each input is the output of an embedding whose table holds its rows.
    const tables = inputs.map((rows) => {
      const table = new heed.Embedding({ numEmbeddings: 5, embedDim: 8 }).train();
      table.loadStateDict({ weight: rows });
      return table;
    });
    const vectors = tables.map((table) => table.forward([0, 1, 2, 3, 4]));
    const whole = (a: never, b: never) =>
      loss === 'infoNCE' ? heed.losses.infoNCE(a, b) : heed.losses.coSENT(a, b, golden.labels);
    const sum = heed.losses.matryoshka(whole as never, vectors, { dims, weights });
    expectNear(sum.item(), value);
    sum.backward();
    tables.forEach((table, i) => {
      const { grad } = [...table.parameters()][0]!;
      gradients[i]!.flat().forEach((expected, k) => expectNear(grad!.data[k]!, expected));
      table.dispose();
    });
  },
);

const rows = [
  [1, 2, 3],
  [3, 2, 1],
];
const mse = (a: never, b: never) => heed.losses.mse(a, b);
test.each([
  ['losses.matryoshka.dims', () => heed.losses.matryoshka(mse as never, [rows, rows], { dims: [4] })],
  ['losses.matryoshka.dims', () => heed.losses.matryoshka(mse as never, [rows, rows], { dims: [] })],
  [
    'losses.matryoshka.weights',
    () => heed.losses.matryoshka(mse as never, [rows, rows], { dims: [2], weights: [1, 2] }),
  ],
  ['losses.matryoshka: loss', () => heed.losses.matryoshka(3 as never, [rows], { dims: [2] })],
  ['losses.matryoshka: loss', () => heed.losses.matryoshka((() => 3) as never, [rows], { dims: [2] })],
  ['losses.matryoshka: vectors', () => heed.losses.matryoshka(mse as never, rows[0] as never, { dims: [1] })],
  ['b: expected', () => heed.losses.coSENT(rows, [[1, 2, 3]], [1, 2])],
  ['labels', () => heed.losses.coSENT(rows, rows, [1])],
  ['labels', () => heed.losses.coSENT(rows, rows, [1, Number.NaN])],
])('%s is refused', (argument, call) => {
  expect(call).toThrow(expect.objectContaining({ name: 'HeedError', message: expect.stringContaining(argument) }));
});

const scored = [
  { a: 'the fox', b: 'a fox', score: 5 },
  { a: 'the dog', b: 'a fox', score: 1 },
  { a: 'the fox runs', b: 'the dog', score: 0.5 },
  { a: 'the dog', b: 'a dog', score: 4 },
];
const learner = () => heed.fromPretrained(tinyModel(), { trainable: true, dropout: 0, seed: 1 });

test('scored pairs: the loss is that of the vectors of the model', async () => {
  const model = await learner();
  const [a, b] = [await model.embed(scored.map((row) => row.a)), await model.embed(scored.map((row) => row.b))];
  const labels = scored.map(({ score }) => score);
  const expected = heed.losses.coSENT(a, b, labels).item();
  const halves = [16, 8].map((dim) => {
    const cut = (x: { slice(...args: never[]): unknown }) => heed.slice(x as never, { axis: -1, end: dim });
    return heed.losses.coSENT(cut(a as never), cut(b as never), labels).item();
  });
  const options = { epochs: 1, batchSize: 4, seed: 1 };
  const { history } = await heed.trainEmbedding(model, scored, options);
  expectNear(history.loss[0]!, expected);
  const trained = await learner();
  const matryoshka = { ...options, matryoshkaDims: [16, 8], matryoshkaWeights: [1, 2] };
  const measured = await heed.trainEmbedding(trained, scored, matryoshka);
  expectNear(measured.history.loss[0]!, halves[0]! + 2 * halves[1]!);
  for (const each of [model, trained]) each.dispose();
});

test('scored pairs are learned, in chunks as at once', async () => {
  const losses: number[][] = [];
  for (const chunkSize of [64, 3]) {
    const model = await learner();
    const options = { epochs: 8, batchSize: 4, lr: 1e-3, seed: 1, chunkSize, matryoshkaDims: [24, 8] };
    const { history } = await heed.trainEmbedding(model, scored, options);
    losses.push(history.loss);
    model.dispose();
  }
  expect(losses[0]!.at(-1)).toBeLessThan(losses[0]![0]!);
  losses[0]!.forEach((loss, i) => expect(losses[1]![i]).toBeCloseTo(loss, 3));
});

test.each([
  ['examples', scored.map((row) => ({ ...row, score: 1 })), {}],
  ['examples[1].score', [scored[0], { a: 'x', b: 'y', score: '3' }], {}],
  ['examples[0].score', [{ a: 'x', b: 'y', score: Number.NaN }], {}],
  ['batchSize', scored, { batchSize: 1 }],
  ['matryoshkaDims', scored, { matryoshkaDims: [4096] }],
  ['matryoshkaDims', scored, { matryoshkaDims: [] }],
  ['matryoshkaDims', scored, { matryoshkaDims: [0] }],
  ['matryoshkaWeights', scored, { matryoshkaDims: [8], matryoshkaWeights: [1, 2] }],
  ['matryoshkaWeights', scored, { matryoshkaWeights: [1] }],
])('trainEmbedding refuses wrong %s', async (argument, examples, options) => {
  const model = await learner();
  const call = heed.trainEmbedding(model, examples as never, { seed: 1, ...options });
  await expect(call).rejects.toMatchObject({ name: 'HeedError', message: expect.stringContaining(argument) });
  expect((await model.embed('the fox')).shape[0]).toBe(1);
  model.dispose();
});
