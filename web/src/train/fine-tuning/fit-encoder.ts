/** The training loop for an encoder: AdamW with warm-up, gradient clipping and checkpoints. */
import { invalid } from '../../base/error.js';
import type { Batch, Examples } from '../fit/batches.js';
import { checkpointsOf, save } from '../fit/checkpoint.js';
import { startFit } from '../fit/fit.js';
import type { FitOptions, FitProgress, History } from '../fit/fit-options.js';
import { Optimizer } from '../optim/optimizer.js';
import { schedules } from '../optim/schedules.js';
import { decayGroups, type EncoderModule, type EncoderTraining } from './encoder.js';
import type { Kit } from './head.js';
import { describeRun, requireSameRun } from './run.js';
import type { FineTuningRead } from './training-call.js';

/**
 * The fraction of the steps in which the learning rate rises. The rate of the first step is 0, so runs of fewer than 10
 * steps have no warm-up.
 */
const WARMUP = 0.1;
const warmupOf = (steps: number) => (steps < 10 ? 0 : Math.ceil(WARMUP * steps));

/** The number of epochs that gives about 60 steps, at least `fewest` and at most 10. */
export const epochsFor = (count: number, batchSize: number, fewest: number): number =>
  Math.min(10, Math.max(fewest, Math.round(60 / Math.ceil(count / batchSize))));

/** The options of the call, and what it adds to them. */
interface Job
  extends Pick<FineTuningRead, 'seed' | 'signal' | 'earlyStopping' | 'resume' | 'onCheckpoint'>,
    Pick<FitOptions, 'loss' | 'onStep'> {
  readonly train: EncoderTraining;
  readonly lr: number;
  readonly weightDecay: number;
  readonly epochs: number;
  readonly batchSize: number;
  readonly validation: FitOptions['validation'] | null;
  /**
   * The examples, and the other options that affect the result. Both must be the same when a checkpoint is continued.
   */
  readonly examples: readonly unknown[];
  readonly settings: Readonly<Record<string, unknown>>;
  /** Called after the state of a checkpoint has been loaded. */
  readonly onResume?: (() => void) | undefined;
}

/**
 * Trains an encoder. `call`: the name of the call, for messages. `data`: examples, or a function that returns the
 * batches of an epoch.
 */
export async function fitEncoder(
  { tape, runtime }: Kit,
  call: string,
  model: EncoderModule,
  data: Examples | ((epoch: number) => Iterable<Batch>),
  job: Job,
): Promise<History> {
  const { train, lr, weightDecay, examples, settings, resume } = job;
  const { loss, epochs, batchSize, validation, seed, signal, earlyStopping } = job;
  const groups = decayGroups(model.trained(), lr, weightDecay);
  const run = describeRun({ training: call, seed, epochs, batchSize, lr, weightDecay, ...settings }, train, examples);
  if (resume) requireSameRun(call, resume, run);
  const perEpoch = Math.ceil(examples.length / batchSize);
  const steps = epochs * perEpoch;
  const optimizer = new Optimizer(runtime, tape, 'AdamW', groups, {});
  try {
    const schedule = schedules.linear(optimizer, { warmup: warmupOf(steps), steps });
    const parts = { model, optimizer, schedule };
    if (resume) {
      checkpointsOf(tape).loadCheckpoint(resume, parts);
      job.onResume?.();
    }
    const initialEpoch = schedule.count / perEpoch;
    if (!Number.isInteger(initialEpoch) || initialEpoch > epochs) {
      const got = `a checkpoint after ${initialEpoch} of ${epochs} epochs`;
      throw invalid('resume', 'a checkpoint of the same examples and options', got);
    }
    let step = initialEpoch * perEpoch;
    const onStep = (progress: FitProgress) => {
      step++;
      job.onStep?.({ ...progress, step, steps });
      if (step % perEpoch === 0) job.onCheckpoint?.(save(tape, parts, run));
    };
    let epoch = initialEpoch;
    const batches = typeof data === 'function' ? () => data(epoch++) : data;
    const options = { loss, epochs, batchSize, validation, seed, signal, earlyStopping };
    return await startFit(tape, model, batches, { ...options, initialEpoch, optimizer, schedule, clipNorm: 1, onStep });
  } finally {
    optimizer.dispose();
  }
}
