/** The data of `fit`: examples that are split into batches, or batches that arrive one by one. */
import { describe, guarded, invalid } from '../../base/error.js';
import { abortable } from '../../base/event-loop.js';
import { lengthOf, type Reader } from '../../base/options.js';
import type { SignalLike } from '../../base/platform.js';
import { read, type TensorLike } from '../../base/tensor.js';
import { type Contrast, contrastBatches } from '../contrast.js';
import { requireFinite } from './finite.js';

/** One value per example along the first axis: an array, or a tensor of floats or integers. */
export type ExampleValues =
  | readonly unknown[]
  | TensorLike
  | { readonly data: Int32Array; readonly shape: readonly number[] };

/**
 * Examples: `inputs` for the model's `forward` and, if the loss takes labels, `labels`. Both have one entry per
 * example.
 */
export interface Examples {
  /** The inputs, one per example. */
  readonly inputs: ExampleValues;
  /** The labels, one per example. */
  readonly labels?: ExampleValues | undefined;
}

/** The data of one step. */
export interface Batch {
  /** The argument of the model's `forward`. */
  readonly inputs: unknown;
  /** The second argument of the loss. */
  readonly labels?: unknown;
  /**
   * The weights of the examples [N], or of the labels. `fit` makes them from `sampleWeight` and `classWeight`; batches
   * that arrive one by one may have them. Losses by name that have the option `exampleWeights` take them; a loss of your own
   * has to.
   */
  readonly weights?: TensorLike | undefined;
}

/** Batches that arrive one by one, or a function that is called once per epoch and returns its batches. */
export type Batches = Iterable<Batch> | AsyncIterable<Batch> | (() => Iterable<Batch> | AsyncIterable<Batch>);

/** A list of values. `take` returns the values at the given indices. */
interface Column {
  readonly length: number;
  take(indices: readonly number[]): unknown;
}

/** Examples by index. */
export interface Table {
  readonly inputs: Column;
  readonly labels: Column | null;
  /** Weights of the examples, [N]. Default: ones. */
  readonly weights?: TensorLike | null | undefined;
  readonly length: number;
}

/** Reads values that have one entry per example. */
export function readColumn(argument: string, value: unknown): Column {
  return guarded(argument, () => {
    if (Array.isArray(value)) {
      const entries: unknown[] = Array.from({ length: lengthOf(value, argument) }, (_, i) => value[i]);
      return { length: entries.length, take: (indices) => indices.map((i) => entries[i]) };
    }
    const expected = 'an array with an entry for each example, or a tensor whose first axis counts them';
    const kinds = 'a Float32Array or an Int32Array';
    // Arrays are read per batch, as ids or as numbers.
    const none = { Store: Float32Array, entryOf: () => null, entries: '' };
    const { data, shape } = read<Float32Array | Int32Array>(argument, value, expected, kinds, none);
    if (shape.length === 0) throw invalid(argument, expected, 'a tensor without axes');
    const length = shape[0]!;
    const size = data.length / length || 0;
    const Store = data.constructor as new (length: number) => Float32Array;
    return {
      length,
      take(indices) {
        const taken = new Store(indices.length * size);
        for (const [to, from] of indices.entries()) taken.set(data.subarray(from * size, (from + 1) * size), to * size);
        return { data: taken, shape: [indices.length, ...shape.slice(1)] };
      },
    };
  });
}

const EXPECTED = '{ inputs, labels }, or an iterable of such batches';

/** A table, or a function that returns the caller's batches. */
export type FitData = Table | (() => Iterable<unknown> | AsyncIterable<unknown>);

/** Reads data. */
export function readFitData(argument: string, value: unknown): FitData {
  return guarded(argument, () => {
    if (typeof value === 'function') return value as () => Iterable<unknown>;
    if (typeof value !== 'object' || value === null) throw invalid(argument, EXPECTED, describe(value));
    if (Symbol.asyncIterator in value || Symbol.iterator in value) return () => value as Iterable<unknown>;
    const { inputs, labels, weights } = value as Partial<Batch & Examples>;
    if (weights !== undefined)
      throw invalid(`${argument}.weights`, 'undefined for data of known length', describe(weights), undefined, {
        hint: 'Give the weights of the examples as the option sampleWeight of fit',
      });
    if (inputs === undefined) throw invalid(argument, EXPECTED, describe(value));
    const columns = {
      inputs: readColumn(`${argument}.inputs`, inputs),
      labels: labels === undefined ? null : readColumn(`${argument}.labels`, labels),
    };
    const { length } = columns.inputs;
    if (columns.labels && columns.labels.length !== length)
      throw invalid(
        `${argument}.labels`,
        `${length}, one for each input`,
        `${columns.labels.length}`,
        'SHAPE_MISMATCH',
      );
    if (length === 0) throw invalid(argument, 'at least one example', 'none');
    requireFinite(`${argument}.inputs`, inputs);
    requireFinite(`${argument}.labels`, labels);
    return { ...columns, length };
  });
}

/** A batch with its weight in an epoch's mean loss: the number of its examples, if known. */
export interface Weighted extends Batch {
  readonly count: number;
  /**
   * The batch's first examples, without those that were added for a loss that compares examples. They are also in other
   * batches. Default: all.
   */
  readonly own?: Weighted | undefined;
}

/**
 * The batches of a table, with the examples in the given order. `contrast`: what the loss compares, if it compares
 * examples.
 */
export function* batchesOf(
  table: Table,
  order: readonly number[],
  batchSize: number,
  contrast: Contrast | null,
): Generator<Weighted> {
  const { inputs, labels, weights } = table;
  const batchOf = (indices: readonly number[]): Weighted => ({
    inputs: inputs.take(indices),
    labels: labels?.take(indices),
    ...(weights && {
      weights: { data: Float32Array.from(indices, (i) => weights.data[i]!), shape: [indices.length] },
    }),
    count: indices.length,
  });
  for (const { own, added } of contrastBatches(order, batchSize, contrast))
    yield added.length > 0 ? { ...batchOf([...own, ...added]), own: batchOf(own) } : batchOf(own);
}

/**
 * The batches that a caller's iterator yields. `readWeights` reads the weights of a batch. If the signal fires, stops
 * waiting for the next batch and throws the signal's reason.
 */
export async function* streamed(
  argument: string,
  begin: () => Iterable<unknown> | AsyncIterable<unknown>,
  labeled: boolean,
  readWeights: Reader<TensorLike>,
  signal: SignalLike | undefined,
): AsyncGenerator<Weighted> {
  const source = begin();
  const makes =
    (source as AsyncIterable<unknown>)?.[Symbol.asyncIterator] ?? (source as Iterable<unknown>)?.[Symbol.iterator];
  if (typeof makes !== 'function') throw invalid(argument, EXPECTED, describe(source));
  const iterator: AsyncIterator<unknown> | Iterator<unknown> = makes.call(source);
  let isDone = false;
  try {
    for (;;) {
      const { done, value } = await abortable(iterator.next(), signal);
      isDone = done === true;
      if (isDone) return;
      const { inputs, labels, weights } = guarded(argument, () => ({ ...(value as Partial<Batch>) }));
      if (inputs === undefined || (labeled && labels === undefined))
        throw invalid(argument, 'batches { inputs, labels }', describe(value));
      requireFinite(`${argument}.inputs`, inputs);
      requireFinite(`${argument}.labels`, labels);
      const count = guarded(argument, () => countOf(labels ?? inputs));
      if (weights === undefined) yield { inputs, labels, count };
      else yield { inputs, labels, weights: readWeights(weights, `${argument}.weights`), count };
    }
  } finally {
    // Not awaited, so that `fit` can be stopped even if the source never answers.
    if (!isDone) void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

function countOf(values: unknown): number {
  const { length, shape } = values as { length?: number | undefined; shape?: readonly number[] | undefined };
  return (Array.isArray(values) ? length : shape?.[0]) || 1;
}
