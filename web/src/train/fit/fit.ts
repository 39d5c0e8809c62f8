/** `model.fit`: the training loop. */
import { describe, invalid } from '../../base/error.js';
import { makeYield } from '../../base/event-loop.js';
import {
  callback,
  count,
  integer,
  legal,
  listOf,
  optional,
  plainOptions,
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
import { Tensor } from '../../base/tensor.js';
import { split } from '../fit-data.js';
import { Loss } from '../graph/loss.js';
import type { Tape } from '../graph/tape.js';
import { allLayers, type LayerTree } from '../graph/tree.js';
import type { StateDict } from '../inference.js';
import { clipGradNorm, Optimizer } from '../optim/optimizer.js';
import { Schedule } from '../optim/schedules.js';
import { type Batch, type Batches, type Examples, readData, type Weighted } from './batches.js';
import { type FitLoss, type LossName, type LossRead, lossOption, makeLoss } from './fit-losses.js';
import { type Assistant, assistant, divided, PARTS } from './parallel.js';

/** The progress that `onStep` receives. */
export interface FitProgress {
  /** The number of the step, from 1. */
  readonly step: number;
  /** The total number of steps; null if the batches arrive one by one. */
  readonly steps: number | null;
  /** The epoch, from 0. */
  readonly epoch: number;
  /** The loss of the batch, before the step. */
  readonly loss: number;
}

/** Options of `fit`. */
export interface FitOptions {
  loss: FitLoss;
  optimizer: Optimizer;
  /** A schedule whose `step()` is called after each optimizer step. Default: constant learning rates. */
  schedule?: Schedule;
  /**
   * The maximum norm to which gradients are clipped before each step; see `optim.clipGradNorm`. Default: no clipping.
   */
  clipNorm?: number;
  /** The number of passes over all data. Default 1. */
  epochs?: number;
  /** The first epoch, for a run that continues from a checkpoint. Default 0. */
  initialEpoch?: number;
  /** The number of examples per step. Batches that arrive one by one keep their sizes. Default 32. */
  batchSize?: number;
  /**
   * Validation data: data on which the loss is measured after each epoch, or the fraction of the examples, in (0, 1),
   * to hold out for that, chosen by `seed`. Default: none.
   */
  validation?: number | Examples | Batches;
  /**
   * Stops after `patience` consecutive epochs without an improvement of the validation loss (without validation, the
   * training loss). Afterwards the model has the parameters of the best epoch; the optimizer is not restored. Default:
   * never.
   */
  earlyStopping?: { patience: number };
  /**
   * The seed of the order of the examples, which changes in each epoch. An integer from 0 to 2^53 - 1. Default: chosen
   * at random.
   */
  seed?: number;
  /**
   * Stops between two steps. `fit` rejects with the signal's reason, and the model is as it was after the last complete
   * step.
   */
  signal?: SignalLike;
  /** Called after each step with its progress. */
  onStep?: (progress: FitProgress) => void;
  /**
   * true: run the loop in a worker, so that it does not block this thread; the result is identical, bit for bit. Or a
   * Worker that you created from heed's train-worker.js, which is not terminated. Requires a `Sequential` of layers,
   * data as `{ inputs, labels }` and a loss by name. The model in this thread is updated when `fit` ends.
   */
  worker?: boolean | WorkerLike;
  /**
   * The number of workers among which each batch is divided, 1 to 8, or Workers that you created, which are not
   * terminated. The result does not depend on the number of workers, bit for bit, and equals that of `worker` up to
   * rounding. The requirements are those of `worker`; in addition, `BatchNorm`, `infoNCE`, `supervisedContrastive` and
   * `coSENT` are not supported, because they relate the examples of a batch to each other.
   */
  workers?: number | readonly WorkerLike[];
}

/** The losses that `fit` measured. */
export interface History {
  /** The mean training loss of each epoch. The loss of each batch is measured before its step. */
  loss: number[];
  /** The mean validation loss after each epoch. Present if there are validation data. */
  validation?: number[];
  /** With early stopping: the index in these lists of the epoch whose parameters the model has. */
  best?: number;
}

const patienceSchema = { patience: size } satisfies Schema<NonNullable<FitOptions['earlyStopping']>>;

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

const fitSchema = {
  loss: lossOption,
  optimizer: instance('an optimizer', Optimizer),
  schedule: optional(instance('a schedule', Schedule), null),
  clipNorm: optional(positive, null),
  epochs: optional(size, 1),
  initialEpoch: optional(count, 0),
  batchSize: optional(size, 32),
  validation: optional(
    (value, name) => (typeof value === 'number' ? fraction(value, name) : readData(name, value)),
    null,
  ),
  earlyStopping: optional(patience, null),
  seed,
  signal,
  onStep: callback<(progress: FitProgress) => void>,
  worker: optional(workerOption, false),
  workers: optional(workersOption, null),
} satisfies Schema<FitOptions>;

export type FitRead = Read<typeof fitSchema>;

type Trainee = LayerTree & { forward(inputs: unknown): Tensor | { output: Tensor } };

/** Runs `fit` in a worker. `given`: the options as the caller passed them. */
export type RemoteFit = (model: LayerTree, data: unknown, given: FitOptions, options: FitRead) => Promise<History>;

/** Keyed by the tape of a caller that can start workers; the tape of a worker has no entry. */
export const remoteFits = new WeakMap<Tape, RemoteFit>();

/** Models that are being fitted. */
const busy = new WeakSet<LayerTree>();

/** Reads the options, and runs the loop here or in workers. `others`: see `runFit`. */
export async function startFit(
  tape: Tape,
  model: LayerTree,
  data: unknown,
  options: unknown,
  others: readonly Assistant[] | null = null,
): Promise<History> {
  const given = plainOptions('fit', options as FitOptions);
  const read = readOptions('fit', fitSchema, given);
  if (busy.has(model)) throw invalid('fit', 'a model that no other fit trains', 'a model that is being fitted');
  if (typeof (model as Trainee).forward !== 'function')
    throw invalid('fit', 'a model with a method `forward`', describe(model));
  if (read.schedule && read.schedule.optimizer !== read.optimizer)
    throw invalid('fit.schedule', 'a schedule of `optimizer`', "another optimizer's schedule");
  read.signal?.throwIfAborted();
  busy.add(model);
  try {
    if (read.workers || read.worker) return await remoteFits.get(tape)!(model, data, given, read);
    return await runFit(tape, model, data, read, others);
  } finally {
    busy.delete(model);
  }
}

/** Saves which layers are in training mode. The returned function restores their modes. */
function modesOf(model: LayerTree): () => void {
  const before = model.training;
  const layers = model[allLayers]().map(([layer]) => [layer, layer.training] as const);
  return () => {
    if (layers.some(([layer]) => layer.disposed)) return;
    before ? model.train() : model.eval();
    for (const [layer, training] of layers) training ? layer.train() : layer.eval();
  };
}

/**
 * Saves the state that forward passes change (dropout counters, moving averages). The returned function restores it.
 */
function changedByPasses(tape: Tape, model: LayerTree): () => void {
  const saved = model[allLayers]().map(([{ raw }]) => {
    const layer = tape.stateOf(raw);
    const gradients = tape.gradientsOf(layer);
    const buffers = layer
      .parameters()
      .flatMap((_, i) => (gradients.isBuffer(i) ? [[i, layer.readParameter(i)] as const] : []));
    return { layer, buffers, dropout: layer.dropoutState() };
  });
  return () => {
    for (const { layer, buffers, dropout } of saved) {
      for (const [i, values] of buffers) layer.writeParameter(i, 0, new Uint8Array(values.buffer), 'F32', null);
      layer.setDropoutState(dropout);
    }
  };
}

/** Averages the losses of batches, weighted by their numbers of examples. */
class Mean {
  #sum = 0;
  #count = 0;

  add(loss: number, count: number): void {
    this.#sum += loss * count;
    this.#count += count;
  }

  /** @throws HeedError if there were no batches */
  value(argument: string): number {
    if (this.#count > 0) return this.#sum / this.#count;
    throw invalid(argument, 'batches in each epoch', 'none', 'INVALID_ARGUMENT', {
      hint: 'An iterator yields its batches once: give a function that makes one for each epoch',
    });
  }
}

/**
 * @throws HeedError if no backward pass has reached any of the optimizer's parameters, so that its steps would change
 * nothing
 */
function requireReached({ paramGroups }: Optimizer): void {
  const params = paramGroups.flatMap(({ params }) => params);
  if (params.some(({ gradients, index }) => gradients.read(index) !== null)) return;
  const got = params.some(({ requiresGrad }) => requiresGrad) ? 'other parameters' : 'frozen parameters';
  throw invalid(
    'fit.optimizer',
    'an optimizer of parameters that the loss depends on',
    `${got}, such as '${params[0]!.name}'`,
    undefined,
    {
      hint: 'Make it with parameters() of the model that is fitted, and do not freeze the parameters to train',
    },
  );
}

/** Computes the loss of a batch. */
export function measureWith(tape: Tape, model: LayerTree, loss: LossRead): (batch: Batch) => Loss {
  const lossOf = makeLoss(tape, loss);
  return (batch) => {
    const result = (model as Trainee).forward(batch.inputs);
    const measured = lossOf(result instanceof Tensor ? result : result.output, batch.labels, batch);
    if (measured instanceof Loss) return measured;
    throw invalid('fit.loss', 'a function that returns a loss', `a function that returns ${describe(measured)}`);
  };
}

/**
 * Runs the loop in this thread. `others`: the other workers among which batches are divided, or null if they are not
 * divided.
 */
export async function runFit(
  tape: Tape,
  model: LayerTree,
  data: unknown,
  options: FitRead,
  others: readonly Assistant[] | null = null,
): Promise<History> {
  const { optimizer, schedule, clipNorm, epochs, initialEpoch, earlyStopping, onStep } = options;
  const { batches, validation, stepsPerEpoch } = split(data, options);
  const between = makeYield(options.signal);
  const measure = measureWith(tape, model, options.loss);
  const together =
    others && divided(tape, model, optimizer, options.loss as LossName, [assistant(tape, model, measure), ...others]);
  const alone = (batch: Batch): number => {
    const loss = measure(batch);
    loss.backward();
    return loss.item();
  };
  let isReached = false;
  const trainStep = async (batch: Weighted): Promise<number> => {
    const undo = changedByPasses(tape, model);
    optimizer.zeroGrad();
    try {
      const loss = together ? await together(batch, batch.count) : alone(batch);
      if (!isReached) requireReached(optimizer);
      isReached = true;
      if (clipNorm !== null)
        clipGradNorm(
          tape,
          optimizer.paramGroups.flatMap(({ params }) => params),
          clipNorm,
        );
      optimizer.step();
      schedule?.step();
      return loss;
    } catch (error) {
      if (!optimizer.disposed && model[allLayers]().every(([layer]) => !layer.disposed)) {
        optimizer.zeroGrad();
        undo();
      }
      throw error;
    }
  };

  const history: History = { loss: [], ...(validation && { validation: [] }) };
  const steps = stepsPerEpoch && stepsPerEpoch * Math.max(0, epochs - initialEpoch);
  let best: { loss: number; epoch: number; state?: StateDict } = { loss: Infinity, epoch: -1 };
  const restoreModes = modesOf(model);
  try {
    for (let epoch = initialEpoch, step = 0; epoch < epochs; epoch++) {
      model.train();
      const mean = new Mean();
      for await (const batch of batches(epoch)) {
        await between();
        const loss = await trainStep(batch);
        mean.add(loss, batch.count);
        onStep?.({ step: ++step, steps, epoch, loss });
      }
      history.loss.push(mean.value('fit: data'));
      if (validation) {
        model.eval();
        const measured = new Mean();
        for await (const batch of validation()) {
          await between();
          measured.add(measure(batch).item(), batch.count);
        }
        history.validation!.push(measured.value('fit.validation'));
      }
      if (!earlyStopping) continue;
      const last = history.loss.length - 1;
      const loss = (history.validation ?? history.loss)[last]!;
      if (loss < best.loss) best = { loss, epoch: last, state: model.stateDict() };
      else if (last - best.epoch >= earlyStopping.patience) break;
    }
    if (best.state) {
      model.loadStateDict(best.state);
      history.best = best.epoch;
    } else if (earlyStopping && history.loss.length > 0) {
      const [argument, losses] = validation ? ['fit.validation', history.validation!] : ['fit: data', history.loss];
      throw invalid(argument, 'a finite loss after at least one epoch', losses.join(', '), 'DIVERGED', {
        hint: 'Early stopping compares losses. Check the data and the loss; a lower learning rate may help',
      });
    }
    return history;
  } finally {
    restoreModes();
  }
}
