/** The training loop for an encoder: AdamW with warm-up, gradient clipping and checkpoints. */
import { invalid } from '../../base/error.js';
import { callback, legal, optional, positive, type Reader } from '../../base/options.js';
import type { Batch } from '../fit/batches.js';
import { checkpointsOf, save } from '../fit/checkpoint.js';
import { type FitOptions, type FitProgress, type History, startFit } from '../fit/fit.js';
import type { Parameter } from '../graph/parameters.js';
import { bytesOf } from '../inference.js';
import { Optimizer } from '../optim/optimizer.js';
import { schedules } from '../optim/schedules.js';
import type { EncoderModule } from './encoder.js';
import type { Kit } from './head.js';
import { Movement } from './movement.js';
import { type Run, requireSameRun } from './run.js';

/** Options of training that can be resumed. */
export interface CheckpointOptions {
  /**
   * Called after each epoch in which the encoder was trained, with a checkpoint: weights, moments and counters. Its
   * size is about three times that of the trained parameters.
   */
  onCheckpoint?: (bytes: Uint8Array) => void;
  /**
   * The bytes of a checkpoint from `onCheckpoint`, from which training continues. The model, the examples and the
   * options must be the same; `seed` defaults to that of the checkpoint. The result equals training without
   * interruption, except that early stopping ignores the epochs before the checkpoint.
   */
  resume?: Uint8Array;
}

export const checkpointSchema = {
  onCheckpoint: callback<(bytes: Uint8Array) => void>,
  resume: optional(
    legal<Uint8Array>('the bytes of a checkpoint', (value) => bytesOf(value) !== null),
    null,
  ),
};

/** Reads the option `weightDecay`. */
export const decay: Reader<number> = (value, name) => (value === 0 ? 0 : positive(value, name));

/**
 * The fraction of the steps in which the learning rate rises. The rate of the first step is 0, so runs of fewer than 10
 * steps have no warm-up.
 */
const WARMUP = 0.1;
const warmupOf = (steps: number) => (steps < 10 ? 0 : Math.ceil(WARMUP * steps));

/** The number of epochs that gives about 60 steps, at least `fewest` and at most 10. */
export const epochsFor = (count: number, batchSize: number, fewest: number): number =>
  Math.min(10, Math.max(fewest, Math.round(60 / Math.ceil(count / batchSize))));

/** The result of training an encoder. */
export interface Fitted {
  readonly history: History;
  /** See `EmbeddingResult.weightChange`. */
  readonly weightChange: number;
}

interface Job extends Omit<FitOptions, 'optimizer' | 'schedule' | 'clipNorm'> {
  readonly epochs: number;
  readonly batchSize: number;
  readonly groups: { params: Parameter[]; lr: number; weightDecay: number }[];
  /** The number of examples. */
  readonly count: number;
  readonly resume: Uint8Array | null;
  readonly onCheckpoint: CheckpointOptions['onCheckpoint'];
  /** The properties in which a checkpoint must agree with this training. */
  readonly run: Run;
  /** Called after the state of a checkpoint has been loaded. */
  readonly onResume?: () => void;
}

/**
 * Trains an encoder. `call`: the name of the call, for messages. `data`: examples, or a function that returns the
 * batches of an epoch.
 * @throws HeedError INVALID_ARGUMENT if steps were taken but no weight has changed
 */
export async function fitEncoder(
  { tape, runtime }: Kit,
  call: string,
  model: EncoderModule,
  data: { inputs: readonly unknown[]; labels?: unknown } | ((epoch: number) => Iterable<Batch>),
  { groups, count, resume, onCheckpoint, run, onResume, ...options }: Job,
): Promise<Fitted> {
  if (resume) requireSameRun(call, resume, run);
  const { epochs, batchSize } = options;
  const perEpoch = Math.ceil(count / batchSize);
  const steps = epochs * perEpoch;
  const rates = [...new Set(groups.map(({ lr }) => lr))].join(', '); // read now, because the schedule changes them
  const optimizer = new Optimizer(runtime, tape, 'AdamW', groups, {});
  const movement = new Movement(groups.flatMap(({ params }) => params));
  try {
    const schedule = schedules.linear(optimizer, { warmup: warmupOf(steps), steps });
    const parts = { model, optimizer, schedule };
    if (resume) {
      checkpointsOf(tape).loadCheckpoint(resume, parts);
      onResume?.();
    }
    const initialEpoch = schedule.count / perEpoch;
    if (!Number.isInteger(initialEpoch) || initialEpoch > epochs)
      throw invalid('resume', 'a checkpoint of the same examples and options', 'one of others');
    const onStep = (progress: FitProgress) => {
      const step = initialEpoch * perEpoch + progress.step;
      options.onStep?.({ ...progress, step, steps });
      if (step % perEpoch === 0) onCheckpoint?.(save(tape, parts, run));
    };
    let epoch = initialEpoch;
    const batches = typeof data === 'function' ? () => data(epoch++) : data;
    const fit = { ...options, initialEpoch, optimizer, schedule, clipNorm: 1, onStep };
    const history = await startFit(tape, model, batches, fit);
    const how = `${schedule.count} steps at a learning rate of ${rates}`;
    return { history, weightChange: history.loss.length > 0 ? movement.measure(call, how) : 0 };
  } finally {
    optimizer.dispose();
  }
}
