/** The data of `fit`: the batches to train on, and those to validate with. */
import { invalid } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import { shuffled } from '../base/random.js';
import type { TensorLike } from '../base/tensor.js';
import { isConstant } from './contrast.js';
import { batchesOf, readData, streamed, type Table } from './fit/batches.js';
import { batchWeights } from './fit/example-weights.js';
import { contrastOf, type LossRead, needsLabels } from './fit/fit-losses.js';
import type { Stream } from './fit/passes.js';

/** The examples to train on and the batches to validate with. */
interface Split {
  /** The batches of an epoch: examples in the epoch's order, or the caller's batches. */
  batches(epoch: number): Stream;
  validation: (() => Stream) | null;
  stepsPerEpoch: number | null;
}

/** The options of `fit` that affect its data. */
interface SplitOptions {
  readonly loss: LossRead;
  readonly validation: number | ReturnType<typeof readData> | null;
  /** Weights of the training examples, [N]. */
  readonly sampleWeight?: TensorLike | null | undefined;
  readonly batchSize: number;
  readonly seed: number;
  readonly signal: SignalLike | undefined;
}

/** Random streams: SPLIT for the split, EPOCHS + epoch for each epoch. */
const SPLIT = 0;
const EPOCHS = 1;

/** A random order of the training examples in an epoch. */
export const epochOrder = (count: number, seed: number, epoch: number): number[] =>
  shuffled(count, seed, EPOCHS + epoch);

const allOf = ({ length }: { readonly length: number }) => Array.from({ length }, (_, i) => i);

export function prepareData(
  data: unknown,
  { loss, validation, sampleWeight, batchSize, seed, signal }: SplitOptions,
): Split {
  const labelled = needsLabels(loss);
  const read = readData('fit: data', data);
  const isTable = typeof read !== 'function';
  for (const [name, table] of Object.entries({ 'fit: data': read, 'fit.validation': validation })) {
    if (labelled && typeof table === 'object' && table && !table.labels)
      throw invalid(name, `labels for ${loss}`, 'inputs alone');
  }
  if (typeof validation === 'number' && !isTable)
    throw invalid('fit.validation', 'data, because a fraction requires `data` of known length', `${validation}`);
  if (sampleWeight && !isTable)
    throw invalid('fit.sampleWeight', 'data as { inputs, labels }, whose examples it weights', 'batches');
  if (sampleWeight && isTable && sampleWeight.data.length !== read.length)
    throw invalid(
      'fit.sampleWeight',
      `${read.length} numbers, one for each example`,
      `${sampleWeight.data.length}`,
      'SHAPE_MISMATCH',
    );
  /** Returns a function that splits these examples of a table into batches, in a given order. */
  const dividing = (argument: string, table: Table, indices: readonly number[]) => {
    const contrast = contrastOf(loss, table);
    if (contrast && isConstant(indices, contrast))
      throw invalid(
        argument,
        `examples that ${loss} can compare with each other`,
        `${indices.length} examples that it cannot compare`,
      );
    return (order = indices) => batchesOf(table, order, batchSize, contrast);
  };
  const measured =
    validation === null || typeof validation === 'number'
      ? null
      : typeof validation === 'function'
        ? () => streamed('fit.validation', validation, labelled, batchWeights(loss), signal)
        : dividing('fit.validation', validation, allOf(validation));
  if (!isTable)
    return {
      batches: () => streamed('fit: data', read, labelled, batchWeights(loss), signal),
      validation: measured,
      stepsPerEpoch: null,
    };

  const all = typeof validation === 'number' ? shuffled(read.length, seed, SPLIT) : allOf(read);
  const kept = typeof validation === 'number' ? Math.max(1, Math.round(read.length * validation)) : 0;
  if (kept >= read.length)
    throw invalid('fit.validation', 'a fraction that leaves an example to train on', `${validation} of ${read.length}`);
  const [held, trained] = [all.slice(0, kept), all.slice(kept)];
  const batches = dividing('fit: data', { ...read, weights: sampleWeight ?? null }, trained);
  return {
    batches: (epoch) => batches(epochOrder(trained.length, seed, epoch).map((i) => trained[i]!)),
    validation: kept > 0 ? dividing('fit.validation', read, held) : measured,
    stepsPerEpoch: Math.ceil(trained.length / batchSize),
  };
}
