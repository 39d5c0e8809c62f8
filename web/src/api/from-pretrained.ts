/** Loads pretrained encoders in this thread, in a worker, or in a pool of workers. */
import { countUpTo } from '../base/cores.js';
import { importing, invalid } from '../base/error.js';
import { integer, oneOf, optional, readOptions, workerOption } from '../base/options.js';
import type { PageRuntime } from '../base/owned.js';
import type { WorkerLike } from '../base/platform.js';
import { shippedModel } from '../base/wasm/shipped.js';
import type { ModelSource } from '../io/source.js';
import { loadPretrained } from '../loading/load-pretrained.js';
import { loadSchema } from '../models/call-options.js';
import { MAX_LAYERS } from '../models/families/family.js';
import { type LoadModelOptions, SHIPPED_DTYPE } from '../models/loaded-model.js';
import type { PretrainedModel } from '../models/model.js';
import { takePrefetched } from './prefetch.js';

/** Options of `fromPretrained`. */
export interface FromPretrainedOptions extends LoadModelOptions {
  /**
   * true: run the model in a worker, so that it never blocks this thread; the calls are the same. If a bundler or a
   * security policy requires it, pass a Worker that you created from heed's worker.js (with `device`: gpu-worker.js);
   * `dispose()` terminates it.
   */
  worker?: boolean | WorkerLike | undefined;
  /**
   * The number of workers, or 'auto' for the number of CPU cores, at most 8. Several workers raise the throughput of
   * `embed` on long lists. Each has its own copy of the model: no shared memory and no special headers are needed, but
   * memory grows with the number. A worker that dies is replaced; its model is read from the source again.
   */
  workers?: number | 'auto' | undefined;
}

const schema = {
  worker: optional(workerOption, null),
  workers: optional(countUpTo(64, 8), null),
  ...loadSchema,
  dtype: optional(oneOf(['fp32', 'q8', 'fp16']), undefined),
  embeddings: optional(oneOf(['whole', 'paged']), undefined),
  device: optional(oneOf(['wasm', 'webgpu', 'auto']), 'wasm' as const),
  numLayers: optional((value: unknown, name: string) => integer(value, name, 1, MAX_LAYERS), undefined),
};

const workerModels = () => importing('workers', () => import('../worker/index.js'));

export async function fromPretrained(
  runtime: PageRuntime,
  given: ModelSource | undefined,
  options?: FromPretrainedOptions,
): Promise<PretrainedModel> {
  const { worker, workers, ...rest } = readOptions('fromPretrained', schema, options);
  const source = given === undefined ? shippedModel() : given;
  const load = {
    ...rest,
    dtype: rest.dtype ?? (given === undefined && rest.device === 'wasm' ? SHIPPED_DTYPE : ('fp32' as const)),
    fetch: (given === undefined && takePrefetched(rest.fetch ?? runtime.hub.fetch)) || rest.fetch,
  };
  if (load.dtype === 'fp16' && load.device === 'wasm')
    throw invalid('fromPretrained.dtype', "'fp32' or 'q8' without `device: 'webgpu'` or 'auto'", "'fp16'");
  if (workers) {
    if (load.device === 'webgpu')
      throw invalid('fromPretrained.device', "'wasm' or 'auto' with `workers`", "'webgpu'", 'UNSUPPORTED');
    if (worker !== null && worker !== true) {
      const got = worker ? 'a Worker' : 'false';
      throw invalid('fromPretrained.worker', 'true or undefined with `workers`', got, 'INVALID_ARGUMENT', {
        hint: 'A pool starts its own workers',
      });
    }
    const { loadPool } = await workerModels();
    return loadPool(runtime, source, load, workers);
  }
  if (worker) {
    const own = worker === true ? undefined : worker;
    const { device } = load;
    const { loadInWorker, loadWorkers } = await workerModels();
    // A function cannot be posted to a worker, so the files are fetched here.
    const loadFrom = async (from: PageRuntime) =>
      (load.fetch ?? runtime.hub.fetch)
        ? (await loadWorkers(from, source, load, 1, own)).models[0]!
        : loadInWorker(from, source, load, own);
    if (device === 'wasm') return loadFrom(runtime);
    const { loadOnGpu } = await importing('gpu-client', () => import('../worker/gpu-client.js'));
    return loadOnGpu(runtime, device, loadFrom);
  }
  return loadPretrained(runtime, source, load, undefined, () => importing('gpu', () => import('../gpu/open.js')));
}
