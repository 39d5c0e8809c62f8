/** A small model, its data and its `fit`, for the tests of metrics, weights and `evaluate`. */
import { type FitOptions, type HeedError, load } from 'heed/train';
import { expect } from 'vitest';
import { draw } from '../layers/numbers.js';

export const heed = await load();

export const count = 20;
export const x = draw(1, count, 3);
export const values = draw(2, count, 1);
export const classes = Array.from({ length: count }, (_, i) => (x.data[3 * i]! > 0 ? 1 : 0));
export const held = { inputs: draw(3, 7, 3), labels: draw(4, 7, 1) };

export const makeModel = (outFeatures = 1) =>
  new heed.Sequential(
    [
      new heed.Linear({ inFeatures: 3, outFeatures: 5 }),
      new heed.Dropout({ p: 0.2 }),
      new heed.Linear({ inFeatures: 5, outFeatures }),
    ],
    { seed: 1 },
  );
export type Model = ReturnType<typeof makeModel>;
export const sgd = (model: Model, lr = 0.05) => new heed.optim.SGD(model.parameters(), { lr, momentum: 0.5 });
export const base = { loss: 'mse', batchSize: 8, seed: 3 } as const;
export const fitted = (model: Model, options: Partial<FitOptions>, data = { inputs: x, labels: values }) =>
  model.fit(data as never, { ...base, optimizer: sgd(model), ...options });

export const errorOf = (promise: Promise<unknown>): Promise<HeedError> =>
  promise.then(
    () => expect.unreachable('no error'),
    (error) => error,
  );
