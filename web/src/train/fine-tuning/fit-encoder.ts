/** The loop that trains an encoder: AdamW with a warm-up, clipping, and checkpoints. */
import { invalid } from '../../error.js';
import { bytesOf } from '../../io/bytes.js';
import { callback, legal, optional, positive, type Reader } from '../../options.js';
import type { Batch } from '../batches.js';
import { checkpointsOf } from '../checkpoint.js';
import { type FitOptions, type FitProgress, type History, startFit } from '../fit.js';
import { Optimizer } from '../optimizer.js';
import type { Parameter } from '../parameters.js';
import { schedules } from '../schedules.js';
import type { EncoderModule } from './encoder.js';
import type { Kit } from './head.js';

/** Options of training that can be continued. */
export interface CheckpointOptions {
  /** Called after each epoch in which the encoder was trained, with all that is needed to continue: weights, moments, counters. Its size is about three times that of what is trained. */
  onCheckpoint?: (bytes: Uint8Array) => void;
  /**
   * Continues after such an epoch. With the same model, examples, options and seed the result is that of a training without interruption; early stopping does not know the epochs before.
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

/** The option `weightDecay`. */
export const decay: Reader<number> = (value, name) => (value === 0 ? 0 : positive(value, name));

/** The part of the steps in which the learning rate rises. */
const WARMUP = 0.1;

interface Job extends Omit<FitOptions, 'optimizer' | 'schedule' | 'clipNorm'> {
  readonly epochs: number;
  readonly batchSize: number;
  readonly groups: { params: Parameter[]; lr: number; weightDecay: number }[];
  /** The number of examples. */
  readonly count: number;
  readonly resume: Uint8Array | null;
  readonly onCheckpoint: CheckpointOptions['onCheckpoint'];
}

/** `data`: examples, or the batches of an epoch. */
export async function fitEncoder(
  { tape, runtime }: Kit,
  model: EncoderModule,
  data: { inputs: readonly unknown[]; labels?: unknown } | ((epoch: number) => Iterable<Batch>),
  { groups, count, resume, onCheckpoint, ...options }: Job,
): Promise<History> {
  const { epochs, batchSize } = options;
  const perEpoch = Math.ceil(count / batchSize);
  const steps = epochs * perEpoch;
  const optimizer = new Optimizer(runtime, tape, 'AdamW', groups, {});
  try {
    const schedule = schedules.linear(optimizer, { warmup: Math.ceil(WARMUP * steps), steps });
    const parts = { model, optimizer, schedule };
    const { saveCheckpoint, loadCheckpoint } = checkpointsOf(tape);
    if (resume) loadCheckpoint(resume, parts);
    const initialEpoch = schedule.count / perEpoch;
    if (!Number.isInteger(initialEpoch) || initialEpoch > epochs)
      throw invalid('resume', 'a checkpoint of the same examples and options', 'one of others');
    const onStep = (progress: FitProgress) => {
      const step = initialEpoch * perEpoch + progress.step;
      options.onStep?.({ ...progress, step, steps });
      if (step % perEpoch === 0) onCheckpoint?.(saveCheckpoint(parts));
    };
    let epoch = initialEpoch;
    const batches = typeof data === 'function' ? () => data(epoch++) : data;
    return await startFit(tape, model, batches, { ...options, initialEpoch, optimizer, schedule, clipNorm: 1, onStep });
  } finally {
    optimizer.dispose();
  }
}
