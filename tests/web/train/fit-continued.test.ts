/** `fit` that continues after some epochs: its steps are those of a run without interruption. */
import type { FitProgress } from 'heed/train';
import { expect, test } from 'vitest';
import { count, fitted, heed, makeModel, sgd, values, x } from './fit-support.js';

test.each([{}, { worker: true }])('numbers its steps on: %j', async (where) => {
  const seen = async (initialEpoch: number) => {
    const steps: Omit<FitProgress, 'loss'>[] = [];
    const onStep = ({ step, steps: all, epoch }: FitProgress) => steps.push({ step, steps: all, epoch });
    await fitted(makeModel(), { epochs: 3, initialEpoch, onStep, ...where });
    return steps;
  };
  const all = await seen(0);
  expect(all.map(({ step }) => step)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(all.every(({ steps }) => steps === 9)).toBe(true);
  expect(await seen(1)).toEqual(all.slice(3));
});

test('counts streamed batches from 1, because the number of the earlier ones is not known', async () => {
  const model = makeModel();
  const seen: (number | null)[][] = [];
  await model.fit(() => [{ inputs: x, labels: values }], {
    loss: 'mse',
    optimizer: sgd(model),
    epochs: 4,
    initialEpoch: 2,
    onStep: ({ step, steps }) => seen.push([step, steps]),
  });
  expect(seen).toEqual([
    [1, null],
    [2, null],
  ]);
});

test('an optimizer of another model is named as such', async () => {
  const [model, other] = [makeModel(), makeModel()];
  const data = { inputs: x, labels: values };
  const fitting = (optimizer: ReturnType<typeof sgd>) => model.fit(data, { loss: 'mse', optimizer, batchSize: count });
  await expect(fitting(sgd(other))).rejects.toThrow("got parameters of another model (its '0.weight')");
  const frozen = sgd(model);
  model.freeze('*');
  const reached = heed.losses.mse(model.train().forward(x), values);
  expect(reached.item()).toBeGreaterThan(0);
  await expect(fitting(frozen)).rejects.toThrow(/got a constant|frozen parameters, such as '0.weight'/);
});
