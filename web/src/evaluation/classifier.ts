/** Measures classifiers of texts. */
import { inTurns, makeYield } from '../base/event-loop.js';
import { indexOfMax, indicesOf } from '../base/lists.js';
import { readOptions, type Schema, signal } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import type { TensorLike } from '../base/tensor.js';
import { type PretrainedModel, requireModel } from '../models/index.js';
import { type ClassifierMetrics, measure } from './classification.js';
import { type ClassifierExample, type ExampleSet, readExamples, requireLabels } from './labeled-examples.js';

/** Options of `evaluateClassifier`. */
export interface ClassifierEvaluationOptions {
  /** Aborts the call, which then rejects with the signal's reason. */
  signal?: SignalLike | undefined;
}

const schema = { signal } satisfies Schema<ClassifierEvaluationOptions>;

/**
 * Compares the labels that a classifier predicts with the labels of examples: accuracy, precision, recall, F1 and the
 * confusion matrix.
 *
 * @example
 * const [label] = classifier.config.labels;
 * const { accuracy, macroF1 } = await evaluateClassifier(classifier, [{ text: 'a red apple', label }]);
 * @throws HeedError UNSUPPORTED for a model without a classifier; INVALID_ARGUMENT for labels that the model does not have,
 *   empty texts, and a text with two labels
 */
export async function evaluateClassifier(
  model: Pick<PretrainedModel, 'predict' | 'config'>,
  examples: readonly ClassifierExample[],
  options?: ClassifierEvaluationOptions,
): Promise<ClassifierMetrics> {
  const name = 'evaluateClassifier';
  const read = readOptions(name, schema, options);
  requireModel(name, model, 'predict');
  const argument = `${name}: examples`;
  const set = await inTurns(readExamples(argument, examples), makeYield(read.signal));
  const { labels } = model.config;
  requireLabels(argument, set, labels, 'labels of the model');
  const call = { ...read, textPairs: set.textPairs };
  const { logits } = await model.predict('sequence-classification', set.texts, call as object);
  return metricsOf(set, labels, logits);
}

/** @internal Measures the labels predicted by logits [N, C] for the N examples of `set`. */
export function metricsOf(set: ExampleSet, labels: readonly string[], logits: TensorLike): ClassifierMetrics {
  return measure(labels, labelNumbers(set.labels, labels), predictedLabels(logits, set.isMultiLabel), set.isMultiLabel);
}

/** @internal The labels of each text as indices in `labels`, which has all of them. */
export function labelNumbers(given: readonly (readonly string[])[], labels: readonly string[]): number[][] {
  const numbers = indicesOf(labels);
  return given.map((list) => list.map((label) => numbers.get(label)!));
}

/**
 * @internal The indices of the labels predicted by each row of logits [N, C]: that of the maximum or, with several labels
 * per text, those of the positive logits.
 */
export function predictedLabels({ data, shape }: TensorLike, isMultiLabel: boolean): number[][] {
  const [count, width] = shape as [number, number];
  return Array.from({ length: count }, (_, n) => {
    const row = data.subarray(n * width, (n + 1) * width);
    return isMultiLabel ? [...row.keys()].filter((i) => row[i]! > 0) : [indexOfMax(row)];
  });
}
