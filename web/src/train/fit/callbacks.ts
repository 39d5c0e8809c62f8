/** The callbacks of `fit`. */
import { describe, guarded, invalid } from '../../base/error.js';
import { callback, listOf, type Reader } from '../../base/options.js';

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

const oneCallback: Reader<FitCallback> = (value, name) =>
  guarded(name, () => {
    if (typeof value !== 'object' || value === null) throw invalid(name, '{ onEpoch, onBatch }', describe(value));
    const { onEpoch, onBatch } = value as FitCallback;
    callback(onEpoch, `${name}.onEpoch`);
    callback(onBatch, `${name}.onBatch`);
    if (onEpoch || onBatch) return value as FitCallback;
    throw invalid(name, 'a function onEpoch or onBatch', 'neither');
  });

export const callbacksOption = listOf(oneCallback, 'an array of { onEpoch, onBatch }');

/** The events that callbacks receive. */
export interface CallbackEvents {
  onEpoch: EpochResult;
  onBatch: FitProgress;
}

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
