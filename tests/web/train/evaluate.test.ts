/** `evaluate`, `predict` and `summary` of a model. */
import { meanAbsoluteError } from 'heed/evaluation';
import { describe, expect, test } from 'vitest';
import { errorOf, heed, makeModel, values, x } from './fit-support.js';

describe('a model', () => {
  test('is evaluated with the loss and the metrics of all data, and keeps its modes', async () => {
    const model = makeModel().train();
    const dropout = model.parts[1] as { training: boolean; eval(): unknown };
    dropout.eval();
    const result = await model.evaluate(
      { inputs: x, labels: values },
      {
        loss: 'mse',
        metrics: ['rmse', 'mae', 'rootMeanSquaredError', 'meanAbsoluteError', 'meanSquaredError'],
        batchSize: 6,
      },
    );
    expect([model.training, dropout.training]).toEqual([true, false]);
    const output = model.eval().forward(x);
    expect(result.loss).toBeCloseTo(heed.losses.mse(output, values).item(), 6);
    expect(result.metrics.rmse! ** 2).toBeCloseTo(result.loss!, 6);
    expect(result.metrics.mae).toBeCloseTo(meanAbsoluteError(values, output), 12);
    const { mae, rmse, ...named } = result.metrics;
    expect(named).toEqual({
      rootMeanSquaredError: rmse,
      meanAbsoluteError: mae,
      meanSquaredError: expect.closeTo(rmse! ** 2, 12),
    });
    const streamed = [{ inputs: x, labels: values }];
    expect(await model.evaluate(streamed, { metrics: ['mae'] })).toEqual({ metrics: { mae: expect.any(Number) } });
  });

  test('predicts in batches what it computes at once', async () => {
    const model = makeModel().train();
    const output = await model.predict(x, { batchSize: 7 });
    expect(model.training).toBe(true);
    expect(output).toEqual(model.eval().forward(x));
    expect(await model.predict(x.toArray<number[][]>())).toEqual(output);
    for (const [wrong, message] of [
      [[], /predict: inputs: expected at least one example/],
      [3, /predict: inputs/],
    ] as const)
      expect((await errorOf(model.predict(wrong as never))).message).toMatch(message);
    const stop = new AbortController();
    stop.abort();
    expect((await errorOf(model.predict(x, { signal: stop.signal }))).name).toBe('AbortError');
  });

  test('has a summary', () => {
    const model = makeModel();
    model.freeze('0.bias');
    expect(model.summary().split('\n')).toEqual([
      'Sequential',
      '-----------------------',
      'Layer        Parameters',
      '-----------------------',
      '0 (Linear)           20',
      '1 (Dropout)           0',
      '2 (Linear)            6',
      '-----------------------',
      'Total parameters: 26',
      'Trained parameters: 21',
      'Frozen parameters: 5',
    ]);
  });
});
