/** The loss of a classifier and its accuracy. Notation: N texts, C labels. */
import { describe, invalid } from '../../base/error.js';
import type { Tensor, TensorLike } from '../../base/tensor.js';
import { accuracyOf } from '../../evaluation/classification.js';
import { labelNumbers, predictedLabels } from '../../evaluation/classifier.js';
import { type ExampleSet, listLabels } from '../../evaluation/labeled-examples.js';
import type { Tape } from '../graph/tape.js';
import { lossesOf } from '../losses.js';

/** A factor on the loss of each label; null: 1. */
type LabelFactors = 'balanced' | Record<string, number> | null;

/**
 * Returns the cross entropy (per label if texts have several) and the accuracy in the last batch for which it was
 * computed.
 */
export function classifierLoss(
  call: string,
  tape: Tape,
  trained: ExampleSet,
  labels: readonly string[],
  classWeight: LabelFactors,
) {
  const losses = lossesOf(tape);
  const { isMultiLabel } = trained;
  const weight = classWeight === null ? null : weightsOf(call, trained, labels, classWeight);
  let last = { logits: null as Tensor | null, expected: [] as number[][] };
  return {
    of(logits: Tensor, targets: Targets) {
      last = { logits, expected: expectedOf(targets) };
      return isMultiLabel
        ? losses.bceWithLogits(logits, targets as TensorLike, weight ? { classWeights: weight } : {})
        : losses.crossEntropy(logits, targets as number[], weight ? { classWeights: weight } : {});
    },
    accuracy: () => accuracyOf(last.expected, predictedLabels(last.logits!, isMultiLabel)),
  };
}

/** Class indices or, with several labels per text, [N, C] with 1 for the labels that apply. */
type Targets = number[] | TensorLike;

export function targetsOf({ labels: given, isMultiLabel }: ExampleSet, labels: readonly string[]): Targets {
  const indices = labelNumbers(given, labels);
  if (!isMultiLabel) return indices.map(([index]) => index!);
  const data = new Float32Array(indices.length * labels.length);
  for (const [n, list] of indices.entries()) for (const i of list) data[n * labels.length + i] = 1;
  return { data, shape: [indices.length, labels.length] };
}

function expectedOf(targets: Targets): number[][] {
  return Array.isArray(targets) ? targets.map((index) => [index]) : predictedLabels(targets, true);
}

function weightsOf(
  call: string,
  { labels: given }: ExampleSet,
  labels: readonly string[],
  by: NonNullable<LabelFactors>,
) {
  const argument = `${call}.classWeight`;
  if (by === 'balanced') {
    const counts = new Array<number>(labels.length).fill(0);
    for (const list of labelNumbers(given, labels)) for (const number of list) counts[number]!++;
    return counts.map((count) => given.length / (labels.length * Math.max(1, count)));
  }
  const known = new Set(labels);
  const unexpected = Object.keys(by).find((label) => !known.has(label));
  if (unexpected !== undefined)
    throw invalid(argument, `labels of the examples (${listLabels(labels)})`, describe(unexpected));
  return labels.map((label) => (Object.hasOwn(by, label) ? by[label]! : 1));
}
