/**
 * The caller's side of `fit` in a worker. The worker receives a description of the model and its state, and returns the
 * new state as a checkpoint.
 */
import { HeedError, invalid } from '../../base/error.js';
import type { PageRuntime } from '../../base/owned.js';
import type { WorkerLike } from '../../base/platform.js';
import { moduleOf } from '../../base/wasm/module.js';
import { allLayers, type Composite } from '../../layers/composition/composite.js';
import type { LayerTraits } from '../../layers/layer.js';
import { Connection } from '../../worker/connection.js';
import { type PackedError, unpackError } from '../../worker/protocol.js';
import type { Tape } from '../graph/tape.js';
import type { Module } from '../module.js';
import type { Optimizer, Optimizers } from '../optim/optimizer.js';
import type { ScheduleKind } from '../optim/schedules.js';
import { type Examples, readFitData } from './batches.js';
import { checkpointsOf } from './checkpoint.js';
import { type Description, describeModel } from './description.js';
import type { RemoteFit } from './fit.js';
import { type LossName, type LossRead, relatesExamples } from './fit-losses.js';
import {
  type CallbackEvents,
  callbacksOf,
  type FitOptions,
  type FitRead,
  type History,
  notify,
} from './fit-options.js';
import type { MetricName } from './metrics.js';

/**
 * The place of a parameter: the index of its layer in the model, its index in the layer, and its name in the optimizer.
 */
export interface ParameterPlace {
  layer: number;
  index: number;
  name: string;
}

/** The task of a worker that only computes gradients. */
export interface AssistantJob {
  model: Description;
  /** The initial state. */
  checkpoint: Uint8Array;
  loss: LossName;
}

/** The task of the worker that runs the loop. */
export interface FitJob {
  model: Description;
  optimizer: { kind: keyof Optimizers; groups: { params: ParameterPlace[]; settings: object }[] };
  schedule: { kind: ScheduleKind; options: object } | null;
  /** The initial state. */
  checkpoint: Uint8Array;
  data: Examples;
  options: Omit<FitOptions, 'optimizer' | 'schedule' | 'signal' | 'onStep' | 'callbacks' | 'worker' | 'workers'>;
  /** The events that the worker sends to the caller. */
  events: (keyof CallbackEvents)[];
  /** Those for which it waits until the caller's callbacks have answered: all but that of `onStep`. */
  awaited: (keyof CallbackEvents)[];
  /** Whether batches are divided among this worker and those whose ports it has received. */
  divided: boolean;
}

/** What happens during a fit. The caller answers events that are awaited. */
export type FitEvent = {
  [Name in keyof CallbackEvents]: { name: Name; event: CallbackEvents[Name] };
}[keyof CallbackEvents];

/** A MessagePort. Declared here because the package's declarations do not depend on the DOM library. */
export interface PortLike {
  postMessage(message: unknown, transfer: ArrayBuffer[]): void;
  onmessage: ((event: never) => void) | null;
  close(): void;
}

/** A message with the port to another worker, which is posted before the call. */
export interface PortMessage {
  readonly port: PortLike;
}

/** The result of a worker's fit. `checkpoint` is the state after its last complete step. */
export interface FitOutcome {
  history: History | null;
  failure: PackedError | null;
  checkpoint: Uint8Array;
}

class FitConnection extends Connection {
  /** Stops this fit if the caller created the worker; otherwise terminates the worker. */
  override end(reason: HeedError): void {
    if (this.isCallers && !this.closed) this.call('release', []).catch(() => {}); // the answer does not matter
    super.end(reason);
  }

  override delete(): void {
    this.end(new HeedError('DISPOSED', 'fit: its heed was disposed of'));
  }
}

/** Workers created by callers in which a fit is running. */
const busy = new WeakSet<WorkerLike>();

export function remoteFit(runtime: PageRuntime, tape: Tape): RemoteFit {
  const { saveCheckpoint, loadCheckpoint } = checkpointsOf(tape);
  return async (tree, data, given, options) => {
    const model = tree as Module; // all trees that `fit` receives are Modules
    const { loss, optimizer, schedule, worker, workers, signal } = options;
    const callbacks = callbacksOf(options);
    const heardBy = (all: typeof callbacks) =>
      (['onBatch', 'onEpoch'] as const).filter((name) => all.some((one) => one[name]));
    if (workers && typeof worker === 'object') throw invalid('fit.worker', 'true or false with `workers`', 'a Worker');
    if (typeof loss === 'function') throw invalid('fit.loss', 'a name of a loss with `worker`', 'a function');
    if (schedule?.kind === 'custom')
      throw invalid('fit.schedule', 'a schedule other than custom with `worker`', 'a custom schedule');
    const { clipNorm, epochs, initialEpoch, batchSize, earlyStopping, seed, sampleWeight, classWeight } = options;
    const parts = { model, optimizer, ...(schedule && { schedule }) };
    if (workers) requireDivisible(model, loss);
    const job: FitJob = {
      model: describeModel('fit.worker', model),
      optimizer: { kind: optimizer.kind, groups: describeGroups(tape, model, optimizer) },
      schedule: schedule && { kind: schedule.kind, options: schedule.options },
      checkpoint: saveCheckpoint(parts),
      data: examplesOf('fit: data', data),
      divided: workers !== null,
      events: heardBy(callbacks),
      awaited: heardBy(options.callbacks),
      options: {
        ...{ loss, epochs, initialEpoch, batchSize, seed },
        metrics: namesOf(options.metrics),
        ...(sampleWeight && { sampleWeight }),
        ...(classWeight && { classWeight }),
        ...(clipNorm !== null && { clipNorm }),
        ...(earlyStopping && { earlyStopping }),
        ...(options.validation !== null && {
          validation:
            typeof options.validation === 'number'
              ? options.validation
              : examplesOf('fit.validation', given.validation),
        }),
      },
    };
    const connections: FitConnection[] = [];
    const used = (Array.isArray(workers) ? workers : [worker]).filter((one) => typeof one === 'object');
    if (used.some((one) => busy.has(one)))
      throw invalid('fit', 'workers that no other fit is using', 'a worker in use');
    const connect = (worker: WorkerLike) => {
      const connection = new FitConnection(worker, runtime.owned, null, used.includes(worker));
      connections.push(connection);
      void connection.greet('fit');
      return connection;
    };
    let failure: { error: unknown } | null = null;
    const stop = (error: unknown) => {
      if (failure) return;
      failure = { error };
      connections[0]!.call('stop', []).catch(() => {}); // the answer to `fit` reports the outcome
    };
    const onAbort = () => stop(signal!.reason);
    const answer = (goesOn: boolean) => {
      connections[0]!.call('answer', [goesOn]).catch(() => {}); // the answer to `fit` reports the outcome
    };
    const onEvent = ({ name, event }: FitEvent) => {
      if (!failure) notify(callbacks, name, event as never).then(job.awaited.includes(name) ? answer : undefined, stop);
    };
    signal?.addEventListener('abort', onAbort);
    try {
      const wasm = moduleOf(runtime.core);
      for (const one of used) busy.add(one);
      const workerAt = (i: number) => used[i] ?? runtime.startWorker();
      const first = workerAt(0);
      const main = connect(first);
      const failures: Promise<never>[] = [];
      for (let i = 1; i < (Array.isArray(workers) ? workers.length : (workers ?? 1)); i++) {
        const other = workerAt(i);
        const connection = connect(other);
        const { port1, port2 } = new MessageChannel();
        post(first, port1);
        post(other, port2);
        const assistantJob: AssistantJob = { model: job.model, checkpoint: saveCheckpoint({ model }), loss };
        const failure = connection.call<never>('assist', [wasm, assistantJob]); // answered only if it fails
        failure.catch(() => {}); // handled even if the next worker cannot be started
        failures.push(failure);
      }
      const run = main.call<FitOutcome>('fit', [wasm, job], {}, undefined, onEvent as never);
      const outcome = await Promise.race([run, ...failures]);
      loadCheckpoint(outcome.checkpoint, parts);
      if (failure) throw (failure as { error: unknown }).error;
      if (outcome.failure) throw unpackError(outcome.failure);
      return outcome.history!;
    } catch (cause) {
      if (!(cause instanceof HeedError && cause.code === 'WORKER_FAILED')) throw cause;
      const problem = "a worker that should run heed's train-worker.js has failed. The model is as it was before";
      throw new HeedError('WORKER_FAILED', `fit: ${problem}`, { cause });
    } finally {
      signal?.removeEventListener('abort', onAbort);
      for (const one of connections) one.end(new HeedError('DISPOSED', 'fit: its worker has finished'));
      for (const one of used) busy.delete(one);
    }
  };
}

function post(worker: WorkerLike, port: MessagePort): void {
  (worker as Worker).postMessage({ port } satisfies PortMessage, [port]);
}

/** @throws HeedError for models and losses that relate the examples of a batch to each other */
function requireDivisible(model: Composite, loss: LossRead): void {
  const layer = model[allLayers]().find(([layer]) => (layer.constructor as LayerTraits).relatesExamples)?.[0];
  const relates = layer?.name ?? String(loss);
  if (!layer && !relatesExamples(loss)) return;
  const expected = 'a model and a loss that treat the examples of a batch one by one';
  throw invalid('fit.workers', expected, relates, 'UNSUPPORTED', { hint: 'Leave `workers` out' });
}

/** The names of metrics, which can be sent to a worker. */
function namesOf(metrics: FitRead['metrics']): MetricName[] {
  return metrics.map(({ metric }) => {
    if (typeof metric === 'string') return metric;
    throw invalid('fit.metrics', 'names of metrics with `worker`', 'a function');
  });
}

/** Checks that the examples can be sent to a worker. */
function examplesOf(argument: string, data: unknown): Examples {
  if (typeof readFitData(argument, data) === 'function')
    throw invalid(argument, '{ inputs, labels } with `worker`', 'a function or an iterable of batches');
  const { inputs, labels } = data as Examples;
  return { inputs, ...(labels !== undefined && { labels }) };
}

function describeGroups(tape: Tape, model: Composite, optimizer: Optimizer) {
  const states = model[allLayers]().map(([{ raw }]) => tape.stateOf(raw));
  return optimizer.paramGroups.map(({ params }, group) => ({
    settings: optimizer.settings[group]!,
    params: params.map(({ state, index, name }): ParameterPlace => {
      const layer = states.indexOf(state);
      if (layer >= 0) return { layer, index, name };
      throw invalid('fit.optimizer', "only the model's parameters, with `worker`", `'${name}' of another model`);
    }),
  }));
}
