/**
 * What `trainClassifier` and `trainEmbedding` have in common: options, checks of the model, and the choice of the
 * parameters to train.
 */
import { describe, guarded, HeedError, invalid } from '../../base/error.js';
import { callback, legal, optional, positive, type Read, type Reader, seed, signal, size } from '../../base/options.js';
import type { SignalLike } from '../../base/platform.js';
import { bytesOf } from '../../io/bytes.js';
import type { PretrainedModel } from '../../models/model.js';
import { LocalModel } from '../../models/pretrained.js';
import { patience } from '../fit/fit-options.js';
import type { TrainableModel } from '../trainable/trainable-model.js';
import { type EncoderTraining, prepare } from './encoder.js';
import { heldOut } from './examples.js';
import type { Kit } from './head.js';

/** Options that `trainClassifier` and `trainEmbedding` have in common. */
export interface FineTuningOptions {
  /**
   * Stops after `patience` consecutive epochs without an improvement of the validation loss (without validation, the
   * training loss), and restores the best parameters. Default: never.
   */
  earlyStopping?: { patience: number } | undefined;
  /** The seed of all random choices except dropout, an integer from 0 to 2^53 - 1. Default: chosen at random. */
  seed?: number | undefined;
  /**
   * Stops between two steps. The call rejects with the signal's reason, and the model is as it was after the last
   * complete step.
   */
  signal?: SignalLike | undefined;
  /**
   * Called after each epoch in which the encoder was trained, with a checkpoint: weights, moments and counters. Its
   * size is about three times that of the trained parameters.
   */
  onCheckpoint?: ((bytes: Uint8Array) => void) | undefined;
  /**
   * The bytes of a checkpoint from `onCheckpoint`, from which training continues. The model, the examples and the
   * options must be the same; `seed` defaults to that of the checkpoint. The result equals training without
   * interruption, except that early stopping ignores the epochs before the checkpoint.
   */
  resume?: Uint8Array | undefined;
}

/** Reads the option `weightDecay`. */
export const decay: Reader<number> = (value, name) => (value === 0 ? 0 : positive(value, name));

/** Readers of these options, and of those whose defaults depend on the call or on its examples. */
export const fineTuningSchema = {
  epochs: optional(size, null),
  lr: optional(positive, null),
  validation: optional(heldOut, null),
  earlyStopping: optional(patience, null),
  seed,
  signal,
  onCheckpoint: callback<(bytes: Uint8Array) => void>,
  resume: optional(
    legal<Uint8Array>('the bytes of a checkpoint', (value) => bytesOf(value) !== null),
    null,
  ),
};

export type FineTuningRead = Read<typeof fineTuningSchema>;

/** @throws HeedError for models that were not returned by `fromPretrained` of the same heed/train */
export function requireOwn({ tape }: Kit, call: string, model: unknown): LocalModel {
  return guarded(`${call}: model`, () => {
    const expected = "a model that fromPretrained of the same 'heed/train' returned, without `workers`";
    if (!(model instanceof LocalModel) || model.runtime.owned !== tape.owned)
      throw invalid(`${call}: model`, expected, describe(model));
    void model.raw; // throws after dispose()
    return model;
  });
}

/** The models whose weights are being changed. */
const training = new WeakSet<object>();

/** @throws HeedError `INVALID_ARGUMENT` while a call trains the model */
export function requireNoTraining(call: string, model: object): void {
  if (!training.has(model)) return;
  throw new HeedError(
    'INVALID_ARGUMENT',
    `${call}: the model is being trained. Await its training, or stop it with its signal`,
  );
}

/** Runs `body`, which trains the model, unless another call is already training it. */
export async function trainingOf<T>(call: string, model: object, body: () => Promise<T>): Promise<T> {
  requireNoTraining(call, model);
  training.add(model);
  try {
    return await body();
  } finally {
    training.delete(model);
  }
}

/** Runs `body` while the parameters `what` are the ones that are trained. `call`: its name, for messages. */
export async function withTrained<T>(
  call: string,
  model: TrainableModel,
  what: EncoderTraining,
  body: () => Promise<T>,
): Promise<T> {
  const restore = prepare(`${call}.train`, model, what);
  let isDone = false;
  try {
    const result = await body();
    isDone = true;
    return result;
  } finally {
    if (!model.disposed) restore(isDone);
  }
}

/** The number of texts that are cut to the model's limit of tokens. */
export async function countTruncated(
  model: PretrainedModel,
  texts: readonly string[],
  { signal, textPairs }: { signal: SignalLike | undefined; textPairs?: readonly string[] | undefined },
): Promise<number> {
  const { truncated } = await model.tokenize(texts, { signal, textPairs } as object);
  return truncated.filter((cut) => cut > 0).length;
}
