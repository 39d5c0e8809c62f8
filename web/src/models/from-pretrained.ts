/** The door to pretrained encoders: in this thread, or in a worker of their own. */
import { describe, guarded, invalid } from '../error.js';
import { moduleOf } from '../module.js';
import { plainOptions } from '../options.js';
import type { Runtime } from '../owned.js';
import type { WorkerLike } from '../platform.js';
import { shippedModel } from '../shipped.js';
import { loadInWorker } from '../worker/client.js';
import { chooseThreads, loadPool } from '../worker/pool.js';
import { readLoadOptions } from './call-options.js';
import type { LoadModelOptions } from './load.js';
import type { PretrainedModel } from './model.js';
import { loadPretrained } from './pretrained.js';
import type { ModelSource } from './source.js';

export interface FromPretrainedOptions extends LoadModelOptions {
  /**
   * true: the model lives in a worker of its own, and this thread never waits for it; the calls are the same. Or a worker that you made yourself and that runs heed's
   * worker.js, where a bundler or a policy needs that. `dispose()` ends it.
   */
  worker?: boolean | WorkerLike;
  /**
   * So many workers ('auto': as many as there are cores, at most 8), each with a model of its own, for the throughput of `embed` on long lists. They share no memory, so the host
   * needs no special headers; the memory grows with their number.
   */
  threads?: number | 'auto';
}

export async function fromPretrained(
  runtime: Runtime,
  source: ModelSource = shippedModel(),
  options?: FromPretrainedOptions,
): Promise<PretrainedModel> {
  const { worker = false, threads, ...rest } = plainOptions('fromPretrained', options);
  if (threads !== undefined && threads !== null)
    return loadPool(moduleOf(runtime.core), source, readLoadOptions(rest), chooseThreads(threads));
  if (worker === false || worker === null) return loadPretrained(runtime, source, rest);
  if (worker !== true && guarded('fromPretrained.worker', () => typeof worker.postMessage !== 'function'))
    throw invalid('fromPretrained.worker', describe(worker), 'true, false or a Worker');
  return loadInWorker(moduleOf(runtime.core), source, readLoadOptions(rest), worker === true ? undefined : worker);
}
