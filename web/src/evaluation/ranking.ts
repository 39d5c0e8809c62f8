/** Metrics of the order into which predictions bring examples. Ties are averaged. */
import { invalid } from '../base/error.js';
import { type MetricData, type MetricOptions, type Numbers, readMetric } from './numbers.js';

/** The sums of `values` and `others` over the examples of each distinct prediction, from the lowest. */
function tiesOf({ predicted }: MetricData, values: readonly number[], others: readonly number[]) {
  const order = predicted.map((_, i) => i).sort((a, b) => predicted[a]! - predicted[b]!);
  const ties: { value: number; other: number }[] = [];
  for (const [n, i] of order.entries()) {
    if (n === 0 || predicted[i] !== predicted[order[n - 1]!]) ties.push({ value: 0, other: 0 });
    const tie = ties.at(-1)!;
    tie.value += values[i]!;
    tie.other += others[i]!;
  }
  return ties;
}

/** The area under the curve of the cumulative shares of `values`, above those of `others`, by the trapezoidal rule. */
function areaOf(data: MetricData, values: readonly number[], others: readonly number[]): number {
  const [whole, rest] = [values, others].map((list) => list.reduce((sum, value) => sum + value, 0)) as [number, number];
  let [before, area] = [0, 0];
  for (const { value, other } of tiesOf(data, values, others)) {
    area += other * (before + value / 2);
    before += value;
  }
  return area / (whole * rest);
}

/**
 * The area under the ROC curve: the probability that a positive example has a higher prediction than a negative one;
 * scikit-learn's `roc_auc_score`. `expected`: 0 or 1, or false and true. NaN if all examples are of one class.
 *
 * @example
 * rocAucScore([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]); // 0.75
 * @throws HeedError SHAPE_MISMATCH for lists of different lengths; INVALID_ARGUMENT for other labels and for predictions
 * that are not finite
 */
export function rocAucScore(
  expected: Numbers | readonly boolean[],
  predicted: Numbers,
  options?: MetricOptions,
): number {
  const data = readMetric('rocAucScore', [expected, predicted, options]);
  const wrong = data.expected.findIndex((label) => label !== 0 && label !== 1);
  if (wrong >= 0)
    throw invalid('rocAucScore: expected', 'labels of 0 or 1', `${data.expected[wrong]} for example ${wrong}`);
  const positive = data.expected.map((label, i) => label * data.weights[i]!);
  const negative = data.expected.map((label, i) => (1 - label) * data.weights[i]!);
  return areaOf(data, negative, positive);
}

/**
 * The normalized Gini coefficient, from 1 for the best order to -1: the Gini coefficient of `expected` in the order of the
 * predictions, divided by that in its own order. The Gini coefficient is 1 minus twice the area under the Lorenz curve,
 * which has the shares of the lowest predictions in the weights on one axis, and in the sum of `expected` times the weights
 * on the other. With labels of 0 and 1, it equals 2 AUC - 1. NaN if `expected` is constant.
 *
 * @example
 * giniCoefficient([0, 1, 2, 5], [0.2, 0.1, 0.6, 0.9]); // 0.875
 * @throws HeedError as `meanAbsoluteError`
 */
export function giniCoefficient(expected: Numbers, predicted: Numbers, options?: MetricOptions): number {
  const data = readMetric('giniCoefficient', [expected, predicted, options]);
  const amounts = data.expected.map((value, i) => value * data.weights[i]!);
  const gini = (order: MetricData) => 1 - 2 * areaOf(order, amounts, data.weights);
  const best = gini({ ...data, predicted: data.expected });
  return Math.abs(best) < Number.EPSILON ? NaN : gini(data) / best;
}
