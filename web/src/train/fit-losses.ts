/** The losses that `fit` knows by name. */
import { formatShape, invalid } from '../error.js';
import { legal, type Reader } from '../options.js';
import type { Tensor, TensorInput } from '../tensor.js';
import type { Batch } from './batches.js';
import type { IndexInput } from './indices.js';
import type { Loss } from './loss.js';
import { type Losses, lossesOf, lossNames } from './losses.js';
import { type Operations, operationsOf } from './operations.js';
import type { Tape } from './tape.js';

/** A loss of the model's output and the labels. */
type NamedLoss = (losses: Losses, output: Tensor, labels: never, split: (count: number) => Tensor[]) => Loss;

/** Of losses that compare tensors with each other, the output has them along axis 1. */
const named = {
  crossEntropy: (losses, output, labels: IndexInput) => losses.crossEntropy(output, labels),
  mse: (losses, output, labels: TensorInput) => losses.mse(output, labels),
  bceWithLogits: (losses, output, labels: TensorInput) => losses.bceWithLogits(output, labels),
  poisson: (losses, output, labels: TensorInput) => losses.poisson(output, labels),
  cosineEmbedding(losses, _, labels: TensorInput, split) {
    const [a, b] = split(2);
    return losses.cosineEmbedding(a!, b!, labels);
  },
  triplet(losses, _, __, split) {
    const [anchor, positive, negative] = split(3);
    return losses.triplet(anchor!, positive!, negative!);
  },
  infoNCE(losses, _, groups: IndexInput | undefined, split) {
    const [a, b] = split(2);
    return losses.infoNCE(a!, b!, groups === undefined ? {} : { groups });
  },
  supervisedContrastive: (losses, output, labels: IndexInput) => losses.supervisedContrastive(output, labels),
} satisfies Record<string, NamedLoss>;

/** Losses whose labels may be left out. */
const unlabelled: readonly string[] = ['triplet', 'infoNCE'];

/** Losses that relate the examples of a batch to each other. */
export const relating: readonly string[] = ['infoNCE', 'supervisedContrastive'];

/** A loss that `fit` knows. */
type Name = keyof typeof named;

/**
 * A loss by its name in `losses`, or a function of the model's output and the labels. For `cosineEmbedding` (labels 1 or -1) and `infoNCE` (labels: `groups`, or none) the
 * output is [N, 2, E], for `triplet` (no labels) [N, 3, E].
 */
export type FitLoss =
  | Name
  // biome-ignore lint/suspicious/noExplicitAny: labels are whatever the data has
  | ((output: Tensor, labels: any, batch: Batch) => Loss);

/** A function of the caller's, or the name of a loss, also where the function of that name was given. */
export type LossRead = Name | ((output: Tensor, labels: unknown, batch: Batch) => unknown);

export const lossOption: Reader<LossRead> = (value, name) => {
  const loss = typeof value === 'function' ? (lossNames.get(value) ?? value) : value;
  return legal<LossRead>(
    `a function or one of ${Object.keys(named).join(', ')}`,
    (given) => typeof given === 'function' || (typeof given === 'string' && Object.hasOwn(named, given)),
  )(loss, name);
};

export function needsLabels(loss: LossRead): boolean {
  return typeof loss === 'string' && !unlabelled.includes(loss);
}

/** The tensors [N, E] of an output [N, count, E]. */
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
  const [losses, operations] = [lossesOf(tape), operationsOf(tape)];
  const compute: NamedLoss = named[loss];
  return (output, labels) =>
    compute(losses, output, labels as never, (count) => splitOutput(operations, loss, output, count));
}
