/** Metrics of classification. Definitions and edge cases follow scikit-learn. */
import { describe, guarded, invalid } from '../base/error.js';
import { lengthOf } from '../base/options.js';

/**
 * Metrics of one label: precision = TP / (TP + FP), recall = TP / (TP + FN), F1 = 2 TP / (2 TP + FP + FN); 0 if the
 * denominator is 0.
 */
export interface LabelMetrics {
  /** The label. */
  label: string;
  /** The fraction of the predictions of the label that are right. */
  precision: number;
  /** The fraction of the examples of the label that are found. */
  recall: number;
  /** The harmonic mean of precision and recall. */
  f1: number;
  /** Number of examples that have the label. */
  support: number;
}

/** Metrics of a classifier, measured on labeled examples. */
export interface ClassifierMetrics {
  /** Number of examples. */
  count: number;
  /**
   * Fraction of examples whose labels are predicted exactly: the label, or with several labels per example, all of them
   * and no others.
   */
  accuracy: number;
  /**
   * Mean F1 over the labels that occur or are predicted; with several labels per example, over all labels of the
   * classifier, where one that neither occurs nor is predicted counts 0.
   */
  macroF1: number;
  /** Metrics per label. */
  labels: LabelMetrics[];
  /**
   * Entry [i][j] is the number of examples of label i for which label j is predicted; null with several labels per
   * example, and with more than 4,096 labels, whose matrix would be too large.
   */
  confusionMatrix: number[][] | null;
}

/** A class label. Labels of different types are distinct. */
export type LabelValue = string | number | boolean;

/**
 * Compares predicted labels with the expected ones: accuracy, precision, recall, F1 and the confusion matrix. Labels
 * are ordered by first occurrence, in `expected`, then in `predicted`.
 *
 * @example
 * const { accuracy, macroF1 } = classificationMetrics(['cat', 'dog', 'cat'], ['cat', 'dog', 'dog']);
 * [accuracy, macroF1]; // [0.667, 0.667]
 * @throws HeedError SHAPE_MISMATCH for lists of different lengths; INVALID_ARGUMENT for empty lists and for labels that
 *   are not strings, numbers or booleans
 */
export function classificationMetrics(
  expected: readonly LabelValue[],
  predicted: readonly LabelValue[],
): ClassifierMetrics {
  const known = new Map<LabelValue, number>();
  const indices = (name: string, labels: readonly LabelValue[]) =>
    guarded(name, () => {
      if (!Array.isArray(labels) || labels.length === 0) throw invalid(name, 'an array of labels', describe(labels));
      return Array.from({ length: lengthOf(labels, name) }, (_, i) => {
        const label: unknown = labels[i];
        if (!['string', 'number', 'boolean'].includes(typeof label))
          throw invalid(`${name}[${i}]`, 'a string, a number or a boolean', describe(label));
        if (!known.has(label as LabelValue)) known.set(label as LabelValue, known.size);
        return [known.get(label as LabelValue)!];
      });
    });
  const [truth, guesses] = [indices('expected', expected), indices('predicted', predicted)];
  if (truth.length !== guesses.length)
    throw invalid(
      'predicted',
      `${truth.length} labels, one for each of \`expected\``,
      `${guesses.length}`,
      'SHAPE_MISMATCH',
    );
  return measure([...known.keys()].map(String), truth, guesses, false);
}

/** The maximum number of labels with a confusion matrix. */
const MOST_CONFUSED = 4096;

type Indices = readonly (readonly number[])[];

/** @internal The fraction of examples whose labels are predicted exactly. */
export function accuracyOf(expected: Indices, predicted: Indices): number {
  let correct = 0;
  for (const [n, truth] of expected.entries()) {
    const guessed = new Set(predicted[n]);
    if (guessed.size === truth.length && truth.every((label) => guessed.has(label))) correct++;
  }
  return expected.length === 0 ? 0 : correct / expected.length;
}

/**
 * @internal `expected` and `predicted`: indices of each example's labels, exactly one per example unless
 * `isMultiLabel`.
 */
export function measure(
  labels: readonly string[],
  expected: Indices,
  predicted: Indices,
  isMultiLabel: boolean,
): ClassifierMetrics {
  const count = expected.length;
  const counts = labels.map(() => ({ hits: 0, support: 0, predicted: 0 }));
  const isShown = !isMultiLabel && labels.length <= MOST_CONFUSED;
  const confusion = isShown ? labels.map(() => new Array<number>(labels.length).fill(0)) : null;
  for (const [n, truth] of expected.entries()) {
    const guess = predicted[n]!;
    const guessed = new Set(guess);
    const hits = truth.filter((label) => guessed.has(label));
    for (const label of truth) counts[label]!.support++;
    for (const label of guess) counts[label]!.predicted++;
    for (const label of hits) counts[label]!.hits++;
    if (confusion) confusion[truth[0]!]![guess[0]!]!++;
  }
  const ratio = (a: number, b: number) => (b === 0 ? 0 : a / b);
  const perLabel = counts.map(({ hits, support, predicted }, i) => ({
    label: labels[i]!,
    precision: ratio(hits, predicted),
    recall: ratio(hits, support),
    f1: ratio(2 * hits, predicted + support),
    support,
  }));
  // As in scikit-learn: with one label per example, labels that occur; with several, all columns.
  const present = isMultiLabel ? perLabel : perLabel.filter((_, i) => counts[i]!.support + counts[i]!.predicted > 0);
  return {
    count,
    accuracy: accuracyOf(expected, predicted),
    macroF1: ratio(
      present.reduce((sum, { f1 }) => sum + f1, 0),
      present.length,
    ),
    labels: perLabel,
    confusionMatrix: confusion,
  };
}
