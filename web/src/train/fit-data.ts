/** The data of `fit`: the batches to train on, and those to validate with. */
import { invalid } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import { shuffled } from '../base/random.js';
import type { TensorLike } from '../base/tensor.js';
import { isConstant } from './contrast.js';
import { batchesOf, type FitData, readFitData, streamed } from './fit/batches.js';
import { batchWeights } from './fit/example-weights.js';
import { comparedBy, type LossRead, needsLabels } from './fit/fit-losses.js';
import type { Stream } from './fit/passes.js';

/** The examples to train on and the batches to validate with. */
interface Split {
  /** The batches of an epoch: examples in the epoch's order, or the caller's batches. */
  batches(epoch: number): Stream;
  validation: (() => Stream) | null;
  stepsPerEpoch: number | null;
}

/** The options of `fit` and `evaluate` that affect batches. */
interface BatchOptions {
  readonly loss: LossRead | null;
  readonly batchSize: number;
  readonly signal: SignalLike | undefined;
}

/** The options of `fit` that affect its data. */
interface SplitOptions extends BatchOptions {
  readonly validation: number | FitData | null;
  /** Weights of the training examples, [N]. */
  readonly sampleWeight?: TensorLike | null | undefined;
  readonly seed: number;
}

/** Random streams: SPLIT for the split, EPOCHS + epoch for each epoch. */
const SPLIT = 0;
const EPOCHS = 1;

/** A random order of the training examples in an epoch. */
export const epochOrder = (count: number, seed: number, epoch: number): number[] =>
  shuffled(count, seed, EPOCHS + epoch);

const allOf = ({ length }: { readonly length: number }) => Array.from({ length }, (_, i) => i);

/**
 * Returns a function that begins a pass over data. `trained`: the examples of a table from which the loss must be able to
 * learn. The order of a pass is theirs, if no other is given; without them, that of the table.
 */
export function batching(
  argument: string,
  data: FitData,
  { loss, batchSize, signal }: BatchOptions,
  trained?: readonly number[],
): (order?: readonly number[]) => Stream {
  const labeled = loss !== null && needsLabels(loss);
  if (typeof data === 'function') return () => streamed(argument, data, labeled, batchWeights(loss), signal);
  if (labeled && !data.labels) throw invalid(argument, `labels for ${loss}`, 'inputs alone');
  const contrast = loss === null ? null : comparedBy(loss, data);
  if (contrast && trained && isConstant(trained, contrast))
    throw invalid(
      argument,
      `examples that ${loss} can compare with each other`,
      `${trained.length} examples that it cannot compare`,
    );
  return (order = trained ?? allOf(data)) => batchesOf(data, order, batchSize, contrast);
}

export function prepareData(data: unknown, options: SplitOptions): Split {
  const { validation, sampleWeight, batchSize, seed } = options;
  const read = readFitData('fit: data', data);
  const measured =
    validation === null || typeof validation === 'number'
      ? null
      : batching('fit.validation', validation, options, typeof validation === 'function' ? [] : allOf(validation));
  if (typeof read === 'function') {
    if (typeof validation === 'number')
      throw invalid('fit.validation', 'data, because a fraction requires `data` of known length', `${validation}`);
    if (sampleWeight)
      throw invalid('fit.sampleWeight', 'data as { inputs, labels }, whose examples it weights', 'batches');
    return { batches: () => batching('fit: data', read, options)(), validation: measured, stepsPerEpoch: null };
  }
  if (sampleWeight && sampleWeight.data.length !== read.length) {
    const expected = `${read.length} numbers, one for each example`;
    throw invalid('fit.sampleWeight', expected, `${sampleWeight.data.length}`, 'SHAPE_MISMATCH');
  }
  const all = typeof validation === 'number' ? shuffled(read.length, seed, SPLIT) : allOf(read);
  const kept = typeof validation === 'number' ? Math.max(1, Math.round(read.length * validation)) : 0;
  if (kept >= read.length)
    throw invalid('fit.validation', 'a fraction that leaves an example to train on', `${validation} of ${read.length}`);
  const [held, trained] = [all.slice(0, kept), all.slice(kept)];
  const batches = batching('fit: data', { ...read, weights: sampleWeight ?? null }, options, trained);
  return {
    batches: (epoch) => batches(epochOrder(trained.length, seed, epoch).map((i) => trained[i]!)),
    validation: kept > 0 ? batching('fit.validation', read, options, held) : measured,
    stepsPerEpoch: Math.ceil(trained.length / batchSize),
  };
}
