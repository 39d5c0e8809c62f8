/** Edge cases of heed/evaluation and of scalers. Expected values: scikit-learn's, from tests/fixtures/evaluation/labels.py. */
import { readFileSync } from 'node:fs';
import {
  type ClassifierMetrics,
  evaluateClassifier,
  informationRetrievalMetrics,
  type RetrievalMetrics,
} from 'heed/evaluation';
import { load } from 'heed/train';
import { StandardScaler } from 'heed/util';
import { describe, expect, it, test } from 'vitest';
import { measure } from '../../../web/src/evaluation/classification.js';
import { tinyModel } from '../models/tiny.js';

interface Golden {
  multilabel: {
    expected: number[][];
    predicted: number[][];
    labels: number;
    accuracy: number;
    macroF1: number;
    precision: number[];
    recall: number[];
    f1: number[];
    support: number[];
  }[];
  scalers: { mean: number[]; standardDeviation: number[]; rows: number[][]; transformed: number[][] }[];
}
const file = new URL('../../fixtures/evaluation/labels.json', import.meta.url);
const golden = JSON.parse(readFileSync(file, 'utf8')) as Golden;

describe('several labels per example', () => {
  it.each(golden.multilabel)('have the metrics of scikit-learn (%#)', (given) => {
    const names = Array.from({ length: given.labels }, (_, i) => `label ${i}`);
    const metrics = measure(names, given.expected, given.predicted, true);
    expect(metrics.accuracy).toBeCloseTo(given.accuracy, 12);
    expect(metrics.macroF1).toBeCloseTo(given.macroF1, 12);
    expect(metrics.labels.map(({ support }) => support)).toEqual(given.support);
    for (const key of ['precision', 'recall', 'f1'] as const)
      for (const [i, label] of metrics.labels.entries()) expect(label[key]).toBeCloseTo(given[key][i]!, 12);
  });

  it('count the labels of the classifier that no example has', async () => {
    const heed = await load();
    const model = await heed.fromPretrained(tinyModel());
    const texts = ['x', 'y', 'z', 'fox'];
    const examples = texts.map((text, i) => ({ text, labels: [['a'], ['b'], ['c'], ['a', 'b']][i]! }));
    await heed.trainClassifier(model, examples, { seed: 1, epochs: 20 });
    const some = examples.slice(0, 1);
    const { macroF1, labels }: ClassifierMetrics = await evaluateClassifier(model, some);
    expect(labels).toHaveLength(3);
    expect(macroF1).toBeCloseTo(labels.reduce((sum, { f1 }) => sum + f1, 0) / 3, 12);
  });
});

describe('rankings', () => {
  const values = ({ count: _, ...metrics }: RetrievalMetrics) => Object.values(metrics).flatMap(Object.values);

  test('that repeat a document count it at its first rank', () => {
    const cutoffs = { precisionRecallAtK: [3], ndcgAtK: [3], mapAtK: [3], mrrAtK: [3], accuracyAtK: [3] };
    const repeated = informationRetrievalMetrics([['a', 'a', 'b', 'a']], [['a', 'b']], cutoffs);
    expect(repeated).toEqual(informationRetrievalMetrics([['a', 'x', 'b', 'y']], [['a', 'b']], cutoffs));
    for (const value of values(informationRetrievalMetrics([['a', 'a', 'a']], [['a']]))) {
      expect(value).toBeGreaterThanOrEqual(0);
      expect(value).toBeLessThanOrEqual(1);
    }
    expect(informationRetrievalMetrics([['a', 'a', 'a']], [['a']]).recall[3]).toBe(1);
  });

  test('of ids as numbers and as texts are the same', () => {
    const numbers = informationRetrievalMetrics([[1, 2, 3]], [[2, 3]]);
    expect(informationRetrievalMetrics([['1', '2', '3']], [[2, 3]])).toEqual(numbers);
    expect(informationRetrievalMetrics([[1, 2, 3]], [new Set(['2', '3'])])).toEqual(numbers);
    for (const wrong of [{}, null, NaN, undefined, 1n])
      expect(() => informationRetrievalMetrics([[wrong as never]], [['a']])).toThrow(
        /rankings\[0\]: expected ids, which are strings or numbers/,
      );
  });
});

test.each(golden.scalers)(
  'a standard deviation of 0 means 1 (%#)',
  ({ mean, standardDeviation, rows, transformed }) => {
    const scaler = new StandardScaler({ mean, scale: standardDeviation });
    expect(scaler.transform(rows).toArray()).toEqual(transformed);
    expect(scaler.inverseTransform(transformed).toArray()).toEqual(rows);
  },
);
