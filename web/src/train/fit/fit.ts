/** `model.fit`: the training loop. */
import { invalid } from '../../base/error.js';
import { makeYield } from '../../base/event-loop.js';
import { plainOptions, readOptions } from '../../base/options.js';
import type { Tensor } from '../../base/tensor.js';
import { allLayers, type Composite } from '../../layers/composition/composite.js';
import type { StateDict } from '../../layers/state-dict.js';
import { prepareData } from '../fit-data.js';
import { withoutLabels } from '../graph/loss.js';
import type { Tape } from '../graph/tape.js';
import { clipGradNorm, type Optimizer } from '../optim/optimizer.js';
import type { Weighted } from './batches.js';
import { requireWeightable, weighing } from './example-weights.js';
import type { LossName } from './fit-losses.js';
import {
  callbacksOf,
  type EpochResult,
  type FitOptions,
  type FitRead,
  fitSchema,
  type History,
  notify,
} from './fit-options.js';
import { Meters, type MetricRead } from './metrics.js';
import { type Assistant, assistant, divided } from './parallel.js';
import {
  changedByPasses,
  lossFunction,
  Mean,
  type Measured,
  measuredOf,
  modesOf,
  requireForward,
  type Stream,
} from './passes.js';

/** Runs `fit` in a worker. `given`: the options as the caller passed them. */
export type RemoteFit = (model: Composite, data: unknown, given: FitOptions, options: FitRead) => Promise<History>;

/** Keyed by the tape of a caller that can start workers; the tape of a worker has no entry. */
export const remoteFits = new WeakMap<Tape, RemoteFit>();

/** Models that are being fitted. */
const busy = new WeakSet<Composite>();

/** Reads the options, and runs the loop here or in workers. `others`: see `runFit`. */
export async function startFit(
  tape: Tape,
  model: Composite,
  data: unknown,
  options: unknown,
  others: readonly Assistant[] | null = null,
): Promise<History> {
  const given = plainOptions('fit', options as FitOptions);
  const read = readOptions('fit', fitSchema, given);
  if (busy.has(model)) throw invalid('fit', 'a model that no other fit trains', 'a model that is being fitted');
  requireForward('fit', model);
  if (read.schedule && read.schedule.optimizer !== read.optimizer)
    throw invalid('fit.schedule', 'a schedule of `optimizer`', "another optimizer's schedule");
  for (const name of ['sampleWeight', 'classWeight'] as const)
    if (read[name]) requireWeightable(`fit.${name}`, read.loss);
  read.signal?.throwIfAborted();
  busy.add(model);
  try {
    if (read.workers || read.worker) return await remoteFits.get(tape)!(model, data, given, read);
    return await runFit(tape, model, data, read, others);
  } finally {
    busy.delete(model);
  }
}

/**
 * @throws HeedError if no backward pass has reached any of the optimizer's parameters, so that its steps would change
 * nothing
 */
function requireReached(tape: Tape, model: Composite, { paramGroups }: Optimizer): void {
  const params = paramGroups.flatMap(({ params }) => params);
  if (params.some(({ gradients, index }) => gradients.read(index) !== null)) return;
  const own = new Set(model[allLayers]().map(([{ raw }]) => tape.stateOf(raw)));
  const isOther = params.every(({ state }) => !own.has(state));
  const got = isOther
    ? `parameters of another model (its '${params[0]!.name}')`
    : params.some(({ requiresGrad }) => requiresGrad)
      ? `other parameters, such as '${params[0]!.name}'`
      : `frozen parameters, such as '${params[0]!.name}'`;
  throw invalid('fit.optimizer', 'an optimizer of parameters that the loss depends on', got, undefined, {
    hint: 'Make it with parameters() of the model that is fitted, and do not freeze the parameters to train',
  });
}

/**
 * Runs the loop in this thread. `others`: the other workers among which batches are divided, or null if they are not
 * divided.
 */
export async function runFit(
  tape: Tape,
  model: Composite,
  data: unknown,
  options: FitRead,
  others: readonly Assistant[] | null = null,
): Promise<History> {
  const { optimizer, schedule, clipNorm, epochs, initialEpoch, earlyStopping, metrics } = options;
  const callbacks = callbacksOf(options);
  const { batches, validation, stepsPerEpoch } = prepareData(data, options);
  const between = makeYield(options.signal);
  const weigh = weighing(options.classWeight);
  let meters = new Meters('fit', metrics);
  const observe = (output: Tensor, batch: Weighted) => meters.add(output, batch);
  const measure = lossFunction<Weighted>(tape, model, options.loss, observe);
  const name = options.loss as LossName; // losses have names if there are workers
  const together =
    others &&
    divided(tape, model, optimizer, name, [assistant(tape, model, name), ...others], metrics.length ? observe : null);
  const alone = (batch: Weighted): Measured => {
    const loss = measure(batch);
    const measured = measuredOf(loss, batch);
    if (measured.onlyLabel === null) loss.backward();
    return measured;
  };
  const followsMetric = schedule?.position.plateau != null;
  let isReached = false;
  const trainStep = async (batch: Weighted): Promise<Measured> => {
    const undo = changedByPasses(tape, model);
    optimizer.zeroGrad();
    try {
      const measured = together ? await together(batch, batch.count) : alone(batch);
      // Without labels, there is nothing to learn: only the schedule advances.
      if (measured.onlyLabel === null) {
        if (!isReached && measured.share > 0) {
          requireReached(tape, model, optimizer);
          isReached = true;
        }
        if (clipNorm !== null)
          clipGradNorm(
            tape,
            optimizer.paramGroups.flatMap(({ params }) => params),
            clipNorm,
          );
        optimizer.step();
      }
      if (!followsMetric) schedule?.step();
      return measured;
    } catch (error) {
      if (!optimizer.disposed && model[allLayers]().every(([layer]) => !layer.disposed)) {
        optimizer.zeroGrad();
        undo();
      }
      throw error;
    }
  };
  /** Measures the validation data. */
  const validate = async (batches: Stream): Promise<number> => {
    model.eval();
    const measured = new Mean();
    for await (const batch of batches) {
      await between();
      measured.add(measuredOf(measure(batch), batch));
    }
    return measured.value('fit.validation');
  };

  const history = emptyHistory(metrics, validation !== null);
  const steps = stepsPerEpoch && stepsPerEpoch * epochs;
  let best: { loss: number; epoch: number; state?: StateDict | undefined } = { loss: Infinity, epoch: -1 };
  let goesOn = true;
  const restoreModes = modesOf(model);
  try {
    for (let epoch = initialEpoch, step = initialEpoch * (stepsPerEpoch ?? 0); epoch < epochs && goesOn; epoch++) {
      model.train();
      meters = new Meters('fit', metrics);
      const mean = new Mean();
      for await (const given of batches(epoch)) {
        await between();
        const batch = weigh(given);
        const measured = await trainStep(batch);
        mean.add(measured);
        goesOn = await notify(callbacks, 'onBatch', { step: ++step, steps, epoch, loss: measured.loss });
        if (!goesOn) break;
      }
      if (mean.onlyLabel !== null) throw withoutLabels('fit: data', mean.onlyLabel, 'the data');
      const result: EpochResult = { epoch, loss: mean.value('fit: data'), metrics: meters.values() };
      if (validation) {
        meters = new Meters('fit', metrics);
        const loss = await validate(validation());
        Object.assign(result, { validation: loss, validationMetrics: meters.values() });
      }
      append(history, result);
      const loss = result.validation ?? result.loss;
      if (followsMetric) schedule.step(loss);
      const last = history.loss.length - 1;
      if (loss < best.loss) {
        const state = earlyStopping?.restoreBest ? { state: model.stateDict() } : {};
        best = { loss, epoch: last, ...state };
      } else if (earlyStopping && last - best.epoch >= earlyStopping.patience) goesOn = false;
      if (!(await notify(callbacks, 'onEpoch', result))) goesOn = false;
    }
    if (!earlyStopping || history.loss.length === 0) return history;
    if (best.epoch < 0) {
      const [argument, losses] = validation ? ['fit.validation', history.validation!] : ['fit: data', history.loss];
      throw invalid(argument, 'a finite loss after at least one epoch', losses.join(', '), 'DIVERGED', {
        hint: 'Early stopping compares losses. Check the data and the loss; a lower learning rate may help',
      });
    }
    if (best.state) model.loadStateDict(best.state);
    history.best = best.epoch;
    return history;
  } finally {
    restoreModes();
  }
}

function emptyHistory(metrics: readonly MetricRead[], isValidated: boolean): History {
  const lists = () => Object.fromEntries(metrics.map(({ name }) => [name, [] as number[]]));
  return {
    loss: [],
    ...(isValidated && { validation: [] }),
    ...(metrics.length > 0 && { metrics: lists(), ...(isValidated && { validationMetrics: lists() }) }),
  };
}

function append(history: History, { loss, validation, metrics, validationMetrics }: EpochResult): void {
  history.loss.push(loss);
  if (validation !== undefined) history.validation!.push(validation);
  for (const [name, value] of Object.entries(metrics)) history.metrics![name]!.push(value);
  for (const [name, value] of Object.entries(validationMetrics ?? {})) history.validationMetrics![name]!.push(value);
}
