/** The losses in the form that `fit` uses. */
import { formatShape, invalid } from '../../base/error.js';
import { legal, type Reader } from '../../base/options.js';
import type { Tensor } from '../../base/tensor.js';
import type { RawIndices } from '../../base/wasm/core.js';
import type { Contrast } from '../contrast.js';
import type { Loss } from '../graph/loss.js';
import { type Operations, operationsOf } from '../graph/operations.js';
import type { Tape } from '../graph/tape.js';
import { type Losses, lossDefinitions, lossesOf, lossNames } from '../losses.js';
import type { Batch, Table } from './batches.js';

/** The label that `crossEntropy` ignores. */
export const IGNORED = lossDefinitions.crossEntropy.ignored!;

/** The name of a loss. */
export type LossName = keyof Losses;

/**
 * A loss by its name in `losses`, or a function of the model's output and the labels. The output is [N, 2, E] for
 * `gaussian` (means and variances, with labels [N, E]), `cosineEmbedding` (labels 1 or -1), `coSENT` (labels: scores) and
 * `infoNCE` (labels: `groups`, or none), and [N, 3, E] for `triplet` (no labels). For options, such as the delta of
 * `huber`, pass a function.
 */
export type FitLoss =
  | LossName
  // biome-ignore lint/suspicious/noExplicitAny: labels are whatever the data has
  | ((output: Tensor, labels: any, batch: Batch) => Loss);

/** A loss by its name (also if it was given as a function of `losses`), or a custom function. */
export type LossRead = LossName | ((output: Tensor, labels: unknown, batch: Batch) => unknown);

export const lossOption: Reader<LossRead> = (value, name) => {
  const loss = typeof value === 'function' ? (lossNames.get(value) ?? value) : value;
  return legal<LossRead>(
    `a function or one of ${Object.keys(lossDefinitions).join(', ')}`,
    (given) => typeof given === 'function' || (typeof given === 'string' && Object.hasOwn(lossDefinitions, given)),
  )(loss, name);
};

/** Whether the loss takes labels as an argument. */
function takesLabels(loss: LossName): boolean {
  const { outputs, labels, labelsAt } = lossDefinitions[loss];
  return !outputs || labels !== undefined || labelsAt !== undefined;
}

export function needsLabels(loss: LossRead): boolean {
  return typeof loss === 'string' && takesLabels(loss);
}

/** Whether the loss relates the examples of a batch to each other. */
export function relatesExamples(loss: LossRead): boolean {
  return typeof loss === 'string' && lossDefinitions[loss].relatesExamples === true;
}

/** What the loss compares in each batch of a table; null if it treats examples independently, or is a function. */
export function comparedBy(loss: LossRead, { labels, length }: Table): Contrast | null {
  if (!relatesExamples(loss)) return null;
  const all = Array.from({ length }, (_, i) => i);
  const taken = labels?.take(all) as unknown[] | RawIndices | undefined;
  const keys = Array.isArray(taken) ? taken.map(String) : taken ? [...taken.data] : all; // labels may be arrays
  return { keys, needsPair: lossDefinitions[loss as LossName].needsPair === true };
}

/** The number of label entries over which a loss takes its mean; with weights, the sum of their weights. */
export function countOf(loss: LossName, { labels, weights }: Batch, examples: number): number {
  const { ignored } = lossDefinitions[loss];
  const entries: unknown[] = takesLabels(loss)
    ? Array.isArray(labels)
      ? labels.flat(Infinity)
      : Array.from((labels as RawIndices).data)
    : Array.from({ length: examples });
  const each = weights ? entries.length / weights.data.length : 1; // label entries per weight
  return entries.reduce<number>((sum, label, i) => {
    if (ignored !== undefined && label === ignored) return sum;
    return sum + (weights ? weights.data[Math.floor(i / each)]! : 1);
  }, 0);
}

/** Splits an output [N, count, E] into `count` tensors [N, E]. */
function splitOutput({ slice, reshape }: Operations, loss: string, output: Tensor, count: number): Tensor[] {
  const { shape } = output;
  if (shape.length !== 3 || shape[1] !== count)
    throw invalid(`fit: the output for ${loss}`, `[N, ${count}, E]`, formatShape(shape), 'SHAPE_MISMATCH');
  return Array.from({ length: count }, (_, i) =>
    reshape(slice(output, { axis: 1, start: i, end: i + 1 }), [shape[0]!, shape[2]!]),
  );
}

export function makeLoss(tape: Tape, loss: LossRead): (output: Tensor, labels: unknown, batch: Batch) => unknown {
  if (typeof loss === 'function') return loss;
  const { outputs, labelOption, labelsAt } = lossDefinitions[loss];
  const operations = operationsOf(tape);
  const compute = lossesOf(tape)[loss] as (...given: unknown[]) => Loss;
  return (output, labels, { weights }) => {
    const given: unknown[] = outputs ? splitOutput(operations, loss, output, outputs) : [output];
    if (takesLabels(loss)) given.splice(labelsAt ?? given.length, 0, labels);
    return compute(...given, {
      ...(labelOption && labels !== undefined && { [labelOption]: labels }),
      ...(weights && { exampleWeights: weights }),
    });
  };
}
