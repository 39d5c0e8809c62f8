/** How well a classifier predicts labels. Definitions and edge cases are scikit-learn's. */

/** Of one label: precision = TP / (TP + FP), recall = TP / (TP + FN), F1 = 2 TP / (2 TP + FP + FN); 0 where the denominator is. */
export interface LabelMetrics {
  label: string;
  precision: number;
  recall: number;
  f1: number;
  /** The number of examples that have the label. */
  support: number;
}

/** Measured on labelled examples. */
export interface ClassifierMetrics {
  /** The number of examples. */
  count: number;
  /** The part of the examples whose label is predicted; of examples with several labels, the part all of whose labels are. */
  accuracy: number;
  /** The mean F1 over the labels that occur or are predicted. */
  macroF1: number;
  labels: LabelMetrics[];
  /** Entry [i][j]: the number of examples of label i for which label j is predicted. null for examples with several labels. */
  confusionMatrix: number[][] | null;
}

/** `expected` and `predicted` have the indices of each example's labels, exactly one each unless `isMultiLabel`. */
export function measure(
  labels: readonly string[],
  expected: readonly (readonly number[])[],
  predicted: readonly (readonly number[])[],
  isMultiLabel: boolean,
): ClassifierMetrics {
  const count = expected.length;
  const counts = labels.map(() => ({ hits: 0, support: 0, predicted: 0 }));
  const confusion = labels.map(() => labels.map(() => 0));
  let correct = 0;
  for (const [n, truth] of expected.entries()) {
    const guess = predicted[n]!;
    const hits = truth.filter((label) => guess.includes(label));
    for (const label of truth) counts[label]!.support++;
    for (const label of guess) counts[label]!.predicted++;
    for (const label of hits) counts[label]!.hits++;
    if (hits.length === truth.length && guess.length === truth.length) correct++;
    if (!isMultiLabel) confusion[truth[0]!]![guess[0]!]!++;
  }
  const ratio = (a: number, b: number) => (b === 0 ? 0 : a / b);
  const perLabel = counts.map(({ hits, support, predicted }, i) => ({
    label: labels[i]!,
    precision: ratio(hits, predicted),
    recall: ratio(hits, support),
    f1: ratio(2 * hits, predicted + support),
    support,
  }));
  const present = perLabel.filter((_, i) => counts[i]!.support + counts[i]!.predicted > 0);
  return {
    count,
    accuracy: ratio(correct, count),
    macroF1: ratio(
      present.reduce((sum, { f1 }) => sum + f1, 0),
      present.length,
    ),
    labels: perLabel,
    confusionMatrix: isMultiLabel ? null : confusion,
  };
}

/** The indices of the labels that each row of logits [N, C] predicts: of the largest, or with several labels per text of the positive ones. */
export function predictedLabels(
  { data, shape }: { data: Float32Array; shape: readonly number[] },
  isMultiLabel: boolean,
): number[][] {
  const [count, width] = shape as [number, number];
  return Array.from({ length: count }, (_, n) => {
    const row = data.subarray(n * width, (n + 1) * width);
    if (isMultiLabel) return [...row.keys()].filter((i) => row[i]! > 0);
    return [row.reduce((best, value, i) => (value > row[best]! ? i : best), 0)];
  });
}
