/** The options of `fit`, and what it returns. */
import { describe, guarded, invalid } from '../../base/error.js';
import {
  callback,
  count,
  flag,
  integer,
  legal,
  listOf,
  optional,
  positive,
  type Read,
  type Reader,
  readOptions,
  type Schema,
  seed,
  signal,
  size,
  workerOption,
} from '../../base/options.js';
import type { SignalLike, WorkerLike } from '../../base/platform.js';
import type { TensorInput } from '../../base/tensor.js';
import { Optimizer } from '../optim/optimizer.js';
import { Schedule } from '../optim/schedules.js';
import { type Batches, type Examples, readFitData } from './batches.js';
import { type ClassWeight, classWeightOption, sampleWeightOption } from './example-weights.js';
import { type FitLoss, lossOption } from './fit-losses.js';
import { type FitMetric, metricsOption } from './metrics.js';
import { PARTS } from './parallel.js';

/** The progress that `onStep` and `onBatch` receive. */
export interface FitProgress {
  /** The number of the step, from 1. It includes those of the epochs before `initialEpoch`, if their number is known. */
  readonly step: number;
  /** The number of steps of all epochs; null if the batches arrive one by one. */
  readonly steps: number | null;
  /** The epoch, from 0. */
  readonly epoch: number;
  /** The loss of the batch, before the step. NaN if all of its labels are ignored; the step then changes no parameter. */
  readonly loss: number;
}

/** The results of an epoch, which `onEpoch` receives. */
export interface EpochResult {
  /** The epoch, from 0. */
  readonly epoch: number;
  /** The mean training loss. */
  readonly loss: number;
  /** The mean validation loss. Present if there are validation data. */
  readonly validation?: number | undefined;
  /** The metrics by name. */
  readonly metrics: Readonly<Record<string, number>>;
  /** The metrics on the validation data, by name. Present if there are validation data. */
  readonly validationMetrics?: Readonly<Record<string, number>> | undefined;
}

/** What a callback returns: `false`, or a promise of it, stops the training. */
type GoOn = unknown;

/** Functions that `fit` calls and waits for. A training that they stop ends as usual, and `fit` returns the history. */
export interface FitCallback {
  /** Called after each epoch. */
  onEpoch?(result: EpochResult): GoOn;
  /** Called after each step. If it stops the training, the epoch ends with the steps so far. */
  onBatch?(progress: FitProgress): GoOn;
}

/** Options of `fit`. */
export interface FitOptions {
  /** The loss: a name, a function of `heed.losses`, or a function of your own. */
  loss: FitLoss;
  /** The optimizer, with the parameters of the model. */
  optimizer: Optimizer;
  /**
   * A schedule whose `step()` is called after each optimizer step. `reduceOnPlateau` is stepped once per epoch, with the
   * validation loss, or without validation the training loss. Default: constant learning rates.
   */
  schedule?: Schedule | undefined;
  /**
   * The maximum norm to which gradients are clipped before each step; see `optim.clipGradNorm`. Default: no clipping.
   */
  clipNorm?: number | undefined;
  /** The number of passes over all data. Default 1. */
  epochs?: number | undefined;
  /** The first epoch, for a run that continues from a checkpoint. Default 0. */
  initialEpoch?: number | undefined;
  /** The number of examples per step. Batches that arrive one by one keep their sizes. Default 32. */
  batchSize?: number | undefined;
  /**
   * Validation data: data on which the loss is measured after each epoch, or the fraction of the examples, in (0, 1),
   * to hold out for that, chosen by `seed`. Default: none.
   */
  validation?: number | Examples | Batches | undefined;
  /**
   * What to measure in each epoch, besides the loss. During training, metrics are computed from the outputs from which the
   * loss is computed, before the step, as in Keras. Default: none.
   */
  metrics?: readonly FitMetric[] | undefined;
  /** Functions to call and wait for after each step or epoch, which may stop the training. Default: none. */
  callbacks?: readonly FitCallback[] | undefined;
  /**
   * Weights of the training examples, finite and >= 0: one number per example of `data`. The loss of a batch is then the
   * weighted mean. Metrics and validation data are not weighted. Default: ones.
   */
  sampleWeight?: TensorInput | undefined;
  /** Weights of the training examples by their class, which is the label. Classes that are left out have weight 1. */
  classWeight?: ClassWeight | undefined;
  /**
   * Stops after `patience` consecutive epochs without an improvement of the validation loss (without validation, the
   * training loss). Afterwards the model has the parameters of the best epoch, unless `restoreBest` is false; the optimizer
   * is not restored. Default: never.
   */
  earlyStopping?: { patience: number; restoreBest?: boolean | undefined } | undefined;
  /**
   * The seed of the order of the examples, which changes in each epoch. An integer from 0 to 2^53 - 1. Default: chosen
   * at random.
   */
  seed?: number | undefined;
  /**
   * Stops between two steps. `fit` rejects with the signal's reason, and the model is as it was after the last complete
   * step.
   */
  signal?: SignalLike | undefined;
  /** Called after each step with its progress. */
  onStep?: ((progress: FitProgress) => void) | undefined;
  /**
   * true: run the loop in a worker, so that it does not block this thread; the result is identical, bit for bit. Or a
   * Worker that you created from heed's train-worker.js, which is not terminated. Requires a `Sequential` of layers,
   * data as `{ inputs, labels }`, a loss and metrics by name, and no custom schedule. Callbacks run in this thread, while
   * the worker waits. The model in this thread is updated when `fit` ends.
   */
  worker?: boolean | WorkerLike | undefined;
  /**
   * The number of workers among which each batch is divided, 1 to 8, or Workers that you created, which are not
   * terminated. The result does not depend on the number of workers, bit for bit, and equals that of `worker` up to
   * rounding. The requirements are those of `worker`; in addition, `BatchNorm`, `infoNCE`, `supervisedContrastive` and
   * `coSENT` are not supported, because they relate the examples of a batch to each other.
   */
  workers?: number | readonly WorkerLike[] | undefined;
}

/** The losses and metrics that `fit` measured. */
export interface History {
  /** The mean training loss of each epoch. The loss of each batch is measured before its step. */
  loss: number[];
  /** The mean validation loss after each epoch. Present if there are validation data. */
  validation?: number[] | undefined;
  /** The metrics of each epoch, by name. Present if metrics were given. */
  metrics?: Record<string, number[]> | undefined;
  /** The metrics on the validation data after each epoch, by name. Present if metrics and validation data were given. */
  validationMetrics?: Record<string, number[]> | undefined;
  /**
   * With early stopping: the index in these lists of the best epoch, whose parameters the model has unless `restoreBest`
   * is false.
   */
  best?: number | undefined;
}

const oneCallback: Reader<FitCallback> = (value, name) =>
  guarded(name, () => {
    if (typeof value !== 'object' || value === null) throw invalid(name, '{ onEpoch, onBatch }', describe(value));
    const { onEpoch, onBatch } = value as FitCallback;
    callback(onEpoch, `${name}.onEpoch`);
    callback(onBatch, `${name}.onBatch`);
    if (onEpoch || onBatch) return value as FitCallback;
    throw invalid(name, 'a function onEpoch or onBatch', 'neither');
  });

const patienceSchema = { patience: size };
const stoppingSchema = {
  ...patienceSchema,
  restoreBest: optional(flag, true),
} satisfies Schema<NonNullable<FitOptions['earlyStopping']>>;

/** @internal */
export const patience = (value: unknown, name: string) => readOptions(name, patienceSchema, value);

/** @internal The fraction of the examples to hold out for validation. */
export const fraction = legal<number>(
  'a number above 0 and below 1, or data',
  (value) => typeof value === 'number' && value > 0 && value < 1,
);

const instance = <T>(expected: string, Class: abstract new (...args: never[]) => T) =>
  legal<T>(expected, (value) => value instanceof Class);

const workersOption: Reader<number | WorkerLike[]> = (value, name) => {
  if (!Array.isArray(value)) return integer(value, name, 1, PARTS);
  const workers = listOf(workerOption, '')(value, name);
  const areGiven = workers.every((worker) => typeof worker === 'object') && new Set(workers).size === workers.length;
  if (workers.length >= 1 && workers.length <= PARTS && areGiven) return workers as WorkerLike[];
  throw invalid(name, `a number from 1 to ${PARTS}, or as many different Workers`, describe(value));
};

export const fitSchema = {
  loss: lossOption,
  optimizer: instance('an optimizer', Optimizer),
  schedule: optional(instance('a schedule', Schedule), null),
  clipNorm: optional(positive, null),
  epochs: optional(size, 1),
  initialEpoch: optional(count, 0),
  batchSize: optional(size, 32),
  validation: optional(
    (value, name) => (typeof value === 'number' ? fraction(value, name) : readFitData(name, value)),
    null,
  ),
  metrics: optional(metricsOption, []),
  callbacks: optional(listOf(oneCallback, 'an array of { onEpoch, onBatch }'), []),
  sampleWeight: optional(sampleWeightOption, null),
  classWeight: optional(classWeightOption, null),
  earlyStopping: optional((value, name) => readOptions(name, stoppingSchema, value), null),
  seed,
  signal,
  onStep: callback<(progress: FitProgress) => void>,
  worker: optional(workerOption, false),
  workers: optional(workersOption, null),
} satisfies Schema<FitOptions>;

export type FitRead = Read<typeof fitSchema>;

/** The events that callbacks receive. */
export interface CallbackEvents {
  onEpoch: EpochResult;
  onBatch: FitProgress;
}

/** The callbacks of a call of `fit`. `onStep` is one whose result does not matter. */
export const callbacksOf = ({ onStep, callbacks }: Pick<FitRead, 'onStep' | 'callbacks'>): readonly FitCallback[] =>
  onStep ? [{ onBatch: (progress) => void onStep(progress) }, ...callbacks] : callbacks;

/** Calls the callbacks one after another. Returns whether the training goes on. */
export async function notify<Name extends keyof CallbackEvents>(
  callbacks: readonly FitCallback[],
  name: Name,
  event: CallbackEvents[Name],
): Promise<boolean> {
  let goesOn = true;
  for (const one of callbacks) if ((await one[name]?.(event as never)) === false) goesOn = false;
  return goesOn;
}
