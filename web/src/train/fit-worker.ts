/** `fit` in a worker, the page's side: the model is described, its state goes there and comes back as a checkpoint. */
import { HeedError, invalid } from '../error.js';
import { moduleOf } from '../module.js';
import type { Runtime } from '../owned.js';
import { Connection, startWorker } from '../worker/connection.js';
import { type PackedError, unpackError } from '../worker/protocol.js';
import { type Examples, readData } from './batches.js';
import { checkpointsOf } from './checkpoint.js';
import { type Description, describeModel } from './description.js';
import type { FitOptions, FitProgress, FitRead, History } from './fit.js';
import type { Module } from './module.js';
import type { Kind, Optimizer } from './optimizer.js';
import type { ScheduleKind } from './schedules.js';
import type { Tape } from './tape.js';
import { allLayers } from './tree.js';

/** A parameter by the number of its layer in the model, its own in the layer, and the name that the optimizer knows it by. */
export interface ParameterPlace {
  layer: number;
  index: number;
  name: string;
}

/** What the worker needs to know. */
export interface FitJob {
  model: Description;
  optimizer: { kind: Kind; groups: { params: ParameterPlace[]; settings: object }[] };
  schedule: { kind: ScheduleKind; options: object } | null;
  /** The state to begin with. */
  checkpoint: Uint8Array;
  data: Examples;
  options: Omit<FitOptions, 'optimizer' | 'schedule' | 'signal' | 'onStep' | 'worker'>;
}

/** How the worker ended; the checkpoint is the state after its last whole step. */
export interface FitOutcome {
  history: History | null;
  failure: PackedError | null;
  checkpoint: Uint8Array;
}

/** Runs `fit` in a worker. `given`: the options as the caller gave them. */
export type RemoteFit = (model: Module, data: unknown, given: FitOptions, options: FitRead) => Promise<History>;

class FitConnection extends Connection {
  override delete(): void {
    this.end(new HeedError('DISPOSED', 'fit: its heed was disposed of'));
  }
}

export function remoteFit(runtime: Runtime, tape: Tape): RemoteFit {
  const { saveCheckpoint, loadCheckpoint } = checkpointsOf(tape);
  return async (model, data, given, options) => {
    const { loss, optimizer, schedule, worker, signal, onStep } = options;
    if (typeof loss === 'function') throw invalid('fit.loss', 'a name of a loss with `worker`', 'a function');
    const { clipNorm, epochs, initialEpoch, batchSize, earlyStopping, seed } = options;
    const parts = { model, optimizer, ...(schedule && { schedule }) };
    const job: FitJob = {
      model: describeModel('fit.worker', model),
      optimizer: { kind: optimizer.kind, groups: describeGroups(tape, model, optimizer) },
      schedule: schedule && { kind: schedule.kind, options: schedule.options },
      checkpoint: saveCheckpoint(parts),
      data: examplesOf('fit: data', data),
      options: {
        ...{ loss, epochs, initialEpoch, batchSize, seed },
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
    const connection = new FitConnection(typeof worker === 'object' ? worker : startWorker(), runtime.owned, null);
    let failure: { error: unknown } | null = null;
    const stop = (error: unknown) => {
      if (failure) return;
      failure = { error };
      connection.call('stop', []).catch(() => {}); // the answer to `fit` tells
    };
    const onAbort = () => stop(signal!.reason);
    const onProgress = (progress: FitProgress) => {
      if (failure) return;
      try {
        onStep?.(progress);
      } catch (error) {
        stop(error);
      }
    };
    signal?.addEventListener('abort', onAbort);
    try {
      const wasm = moduleOf(runtime.core);
      const outcome = await connection.call<FitOutcome>('fit', [wasm, job], {}, undefined, onProgress as never);
      loadCheckpoint(outcome.checkpoint, parts);
      if (failure) throw (failure as { error: unknown }).error;
      if (outcome.failure) throw unpackError(outcome.failure);
      return outcome.history!;
    } finally {
      signal?.removeEventListener('abort', onAbort);
      connection.end(new HeedError('DISPOSED', 'fit: its worker has done its work'));
    }
  };
}

/** Examples that can be sent. */
function examplesOf(argument: string, data: unknown): Examples {
  if (typeof readData(argument, data) === 'function')
    throw invalid(argument, '{ inputs, labels } with `worker`', 'batches that come one by one');
  const { inputs, labels } = data as Examples;
  return { inputs, labels };
}

function describeGroups(tape: Tape, model: Module, optimizer: Optimizer) {
  const states = model[allLayers]().map(([{ raw }]) => tape.stateOf(raw));
  return optimizer.paramGroups.map(({ params }, group) => ({
    settings: optimizer.settings[group]!,
    params: params.map(({ state, index, name }): ParameterPlace => {
      const layer = states.indexOf(state);
      if (layer >= 0) return { layer, index, name };
      throw invalid(
        'fit.optimizer',
        "one of the model's parameters only, with `worker`",
        `one of another's, '${name}'`,
      );
    }),
  }));
}
