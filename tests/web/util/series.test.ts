/** Windows of series, and scalers. Expected values: NumPy's and scikit-learn's, from tests/fixtures/util/series.py. */
import { readFileSync } from 'node:fs';
import { Tensor } from 'heed';
import { load } from 'heed/train';
import { MinMaxScaler, StandardScaler, type WindowsOptions, windows } from 'heed/util';
import { describe, expect, it, test } from 'vitest';

const golden = JSON.parse(readFileSync(new URL('../../fixtures/util/series.json', import.meta.url), 'utf8'));

function expectNear(got: number[], expected: number[]) {
  expect(got).toHaveLength(expected.length);
  got.forEach((value, i) => {
    expect(Math.abs(value - expected[i]!)).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(expected[i]!));
  });
}

describe('windows', () => {
  it.each(golden.windows as { series: number[]; options: WindowsOptions; inputs: number[]; labels: number[] }[])(
    '$options of a series',
    ({ series, options, inputs, labels }) => {
      const got = windows(series, options);
      expect(got.inputs.toArray()).toEqual(inputs);
      expect(got.labels.toArray()).toEqual(labels);
    },
  );

  it('takes tensors, and the defaults are one value ahead and every window', () => {
    const got = windows(new Tensor(Float32Array.of(1, 2, 3, 4), [4]), { length: 2 });
    expect(got.inputs.toArray()).toEqual([
      [[1], [2]],
      [[2], [3]],
    ]);
    expect(got.labels.toArray()).toEqual([[3], [4]]);
  });

  it('is the data of fit', async () => {
    const heed = await load();
    const model = new heed.Sequential([
      (x) => heed.reshape(x, [x.shape[0]!, 3]),
      new heed.Linear({ inFeatures: 3, outFeatures: 1 }),
    ]).train();
    const optimizer = new heed.optim.SGD(model.parameters(), { lr: 1e-2 });
    const series = Array.from({ length: 20 }, (_, i) => Math.sin(i));
    const { loss } = await model.fit(windows(series, { length: 3 }), { loss: 'mse', optimizer, epochs: 20, seed: 1 });
    expect(loss.at(-1)!).toBeLessThan(loss[0]!);
    heed.dispose();
  });

  it.each([
    [[1, 2, 3], { length: 3 }, 'windows: series: expected at least 4 values'],
    [[1, 2, 3], { length: 0 }, 'windows.length: expected an integer from 1'],
    [[1, 2, 3], { length: 1, horizon: 1.5 }, 'windows.horizon: expected an integer from 1'],
    [[1, 2, 3], {}, 'windows.length: expected'],
    [[1, 2, 3], { length: 1, stride: 2 }, 'windows: expected one of'],
    [[[[1]]], { length: 1 }, 'windows: series: expected [T] or [T, F], got shape [1, 1, 1]'],
    ['12', { length: 1 }, 'windows: series: expected'],
  ])('rejects %j, %j', (series, options, message) => {
    expect(() => windows(series as never, options as never)).toThrow(message);
  });
});

describe.each([
  ['StandardScaler', StandardScaler, ['mean', 'scale']],
  ['MinMaxScaler', MinMaxScaler, ['min', 'max']],
] as const)('%s', (name, Scaler, names) => {
  const expected = golden.scaled[name];

  it('has the statistics of scikit-learn', () => {
    const statistics = Object.values(new Scaler().fit(golden.columns).statistics);
    statistics.forEach((list, n) => expectNear(list, expected.statistics[n]));
    expect(Object.keys(new Scaler().fit(golden.columns).statistics)).toEqual(names);
  });

  it('scales and restores', () => {
    const scaler = new Scaler().fit(golden.columns);
    expectNear([...scaler.transform(golden.other).data], expected.transformed.flat());
    expectNear([...scaler.inverseTransform(expected.halves).data], expected.inverse.flat());
    expect(scaler.transform([golden.other, golden.other]).shape).toEqual([2, 4, 4]);
  });

  it('is restored from JSON, bit for bit', () => {
    const scaler = new Scaler().fit(golden.columns);
    const again = new Scaler(JSON.parse(JSON.stringify(scaler)));
    expect(again.transform(golden.other).data).toEqual(scaler.transform(golden.other).data);
  });

  it('takes a series as one column', () => {
    const scaler = new Scaler().fit([2, 4]);
    expect(scaler.transform([3]).shape).toEqual([1]);
    expect([...scaler.inverseTransform(scaler.transform([2, 4, 8])).data]).toEqual([2, 4, 8]);
  });

  it('keeps its statistics when fit fails, and does not lend them', () => {
    const scaler = new Scaler().fit([2, 4]);
    expect(() => scaler.fit([1, Number.NaN])).toThrow(
      `${name}.fit: x: expected finite numbers, got NaN in row 1, column 0`,
    );
    Object.values(scaler.statistics)[0]![0] = 100;
    expect(scaler.transform([2]).at(0)).toBe(new Scaler().fit([2, 4]).transform([2]).at(0));
  });

  test.each([
    [() => new Scaler().transform([1]), `${name}: expected a call of \`fit\` first`],
    [() => new Scaler().fit([]), `${name}.fit: x: expected at least one row`],
    [() => new Scaler().fit([[], []]), `${name}.fit: x: expected at least one row`],
    [
      () => new Scaler().fit(golden.columns).transform([[1, 2]]),
      `${name}.transform: x: expected 4 columns, as in \`fit\`, got 2`,
    ],
    [() => new Scaler().fit([1]).transform([Number.POSITIVE_INFINITY]), 'got Infinity in row 0'],
    [() => new Scaler(null as never), `${name}: expected statistics`],
    [() => new Scaler({ [names[0]]: [1] } as never), `${name}.${names[1]}: expected finite numbers`],
    [() => new Scaler({ [names[0]]: [1], [names[1]]: [1, 2] } as never), `${name}.${names[1]}: expected finite`],
    [() => new Scaler({ [names[0]]: [1], [names[1]]: [Number.NaN] } as never), `${name}.${names[1]}: expected finite`],
    [() => new Scaler({ [names[0]]: [1], [names[1]]: [1], other: [] } as never), 'other'],
  ])('rejects %s', (call, message) => {
    expect(call).toThrow(message);
  });
});
