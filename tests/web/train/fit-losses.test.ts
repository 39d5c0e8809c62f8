// The losses of fit: by name, as functions of `losses` and as custom functions.
import { type FitOptions, load, type Tensor, type TrainingHeed } from 'heed/train';
import { beforeAll, expect, test } from 'vitest';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => 'no error',
    (error) => error,
  );
}

test('takes every loss by its name, as the function that computes it', async () => {
  const x = Array.from({ length: 6 }, (_, n) => [1, 2, 3].map((i) => [Math.sin(n * i + 1), Math.cos(n + i)]));
  const row = (n: number, first: number, count: number) => x[n]!.slice(first, first + count);
  const ones = x.map((_, n) => (n % 2 ? 1 : -1));
  const part = (output: Tensor, i: number) =>
    heed.reshape(heed.slice(output, { axis: 1, start: i, end: i + 1 }), [output.shape[0]!, 2]);
  const { losses } = heed;
  const pairs = x.map((_, n) => row(n, 0, 2));
  const counts = x.map((_, n) => [[n % 3, 1]]);
  const cases: [FitOptions['loss'], unknown, object][] = [
    ['crossEntropy', losses.crossEntropy, { inputs: pairs, labels: x.map((_, n) => [n % 2, 1]) }],
    ['mse', losses.mse, { inputs: pairs, labels: pairs }],
    ['bceWithLogits', losses.bceWithLogits, { inputs: x.map((_, n) => row(n, 0, 1)), labels: x.map(() => [[0, 1]]) }],
    ['poisson', losses.poisson, { inputs: x.map((_, n) => row(n, 0, 1)), labels: counts }],
    [
      'crossEntropy',
      (o: Tensor, y: never) => losses.crossEntropy(o, y),
      { inputs: pairs, labels: x.map((_, n) => [n % 2, 1]) },
    ],
    ['triplet', losses.triplet, { inputs: x }],
    [
      'cosineEmbedding',
      (o: Tensor, y: never) => losses.cosineEmbedding(part(o, 0), part(o, 1), y),
      { inputs: pairs, labels: ones },
    ],
    [
      'coSENT',
      (o: Tensor, y: never) => losses.coSENT(part(o, 0), part(o, 1), y),
      { inputs: pairs, labels: ones.map((_, n) => n % 3) },
    ],
    ['infoNCE', (o: Tensor) => losses.infoNCE(part(o, 0), part(o, 1)), { inputs: pairs }],
    [
      'infoNCE',
      (o: Tensor, groups: never) => losses.infoNCE(part(o, 0), part(o, 1), { groups }),
      { inputs: pairs, labels: [0, 0, 1, 1, 2, 2] },
    ],
    [
      'supervisedContrastive',
      losses.supervisedContrastive,
      { inputs: x.map((_, n) => row(n, 0, 1)), labels: x.map((_, n) => [n % 2]) },
    ],
    ['triplet', (o: Tensor) => losses.triplet(part(o, 0), part(o, 1), part(o, 2)), { inputs: x }],
  ];
  for (const [name, loss, examples] of cases) {
    const [first, second] = await Promise.all(
      [name, loss].map(async (loss) => {
        const model = new heed.Sequential([new heed.Linear({ inFeatures: 2, outFeatures: 2 })], { seed: 1 });
        const optimizer = new heed.optim.SGD(model.parameters(), { lr: 0.1 });
        const before = model.stateDict();
        await model.fit(examples as never, { loss: loss as never, optimizer, batchSize: 4, seed: 1 });
        expect(model.stateDict(), String(name)).not.toEqual(before);
        return model.stateDict();
      }),
    );
    expect(first, String(name)).toEqual(second);
  }
  const model = new heed.Sequential([new heed.Linear({ inFeatures: 2, outFeatures: 2 })], { seed: 1 });
  const optimizer = new heed.optim.SGD(model.parameters());
  expect(await errorOf(model.fit({ inputs: pairs }, { loss: 'triplet', optimizer }))).toMatchObject({
    code: 'SHAPE_MISMATCH',
    message: expect.stringContaining('[N, 3, E]'),
  });
  expect(await errorOf(model.fit({ inputs: pairs }, { loss: 'cosineEmbedding', optimizer }))).toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining('labels for cosineEmbedding'),
  });
  const unlabelled = { loss: 'mse', optimizer, validation: { inputs: pairs } } as const;
  expect(await errorOf(model.fit({ inputs: pairs, labels: pairs }, unlabelled))).toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining('fit.validation'),
  });
});
