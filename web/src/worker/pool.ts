/**
 * A pretrained encoder in several workers. Each has a copy of the model. Long lists of texts are divided among them,
 * which does not change the vectors. No memory is shared, so cross-origin isolation is not required. `#replace`
 * replaces workers that have died (connection.ts).
 */
import { HeedError } from '../base/error.js';
import { minOf } from '../base/lists.js';
import type { PageRuntime } from '../base/owned.js';
import { heldByCalls } from '../base/pending.js';
import type { SignalLike, WorkerLike } from '../base/platform.js';
import type { ModelFolder } from '../io/files.js';
import { Integrity } from '../io/integrity.js';
import { type ModelSource, sourceForWorker, withFolder } from '../io/source.js';
import { countTexts } from '../models/input.js';
import type { LoadModelOptions, LoadProgress } from '../models/loaded-model.js';
import type { ModelConfig, PretrainedModel, Workers } from '../models/model.js';
import { loadInWorker, type WorkerModel } from './client.js';
import { disposed } from './connection.js';
import { runTogether } from './failures.js';
import { type RemoteCall, RemoteModel } from './remote.js';
import { serveFiles } from './shared-files.js';
import { LEAST_TEXTS, lengthsOf, sharesOf, textsOf } from './shares.js';

export async function loadPool(
  runtime: PageRuntime,
  given: ModelSource,
  { onProgress, signal, ...options }: LoadModelOptions,
  workers: Workers,
): Promise<PretrainedModel> {
  const { source, hub } = sourceForWorker(given, runtime.hub);
  const from: PageRuntime = Object.create(runtime, { hub: { value: hub } }); // the page's URL may have changed when a worker is replaced
  const load = (count: number, more: LoadModelOptions) => loadWorkers(from, source, { ...options, ...more }, count);
  const { models, fingerprint } = await load(workers.count, { onProgress, signal });
  const loadReplacement = async (poolSignal: SignalLike) => {
    const again = await load(1, { signal: poolSignal });
    if (again.fingerprint === fingerprint) return again.models[0]!;
    again.models[0]!.dispose();
    const problem = 'the files have changed, so a terminated worker cannot be replaced. Load the model again';
    throw new HeedError('INVALID_FILE', `source: ${problem}`);
  };
  return new PoolModel(models, workers, loadReplacement);
}

/**
 * Loads the model in `count` new workers, or in `worker`. The files are read only once, in this thread. If one worker
 * fails, all are stopped.
 */
export async function loadWorkers(
  runtime: PageRuntime,
  source: ModelSource,
  given: LoadModelOptions,
  count: number,
  worker?: WorkerLike,
): Promise<{ models: WorkerModel[]; fingerprint: string }> {
  const { onProgress, integrity: expected, ...options } = given;
  const integrity = new Integrity(expected);
  const load = async (folder: ModelFolder, signal: SignalLike, stop: { abort(reason?: unknown): void }) => {
    const files = serveFiles(folder, count, signal);
    const done = new Array<number>(count).fill(0);
    const loads = done.map((_, i) => {
      const onEach = (progress: LoadProgress) => {
        done[i] = progress.done;
        if (minOf(done) === progress.done) onProgress!(progress); // report only what all workers have loaded
      };
      return loadInWorker(runtime, null, { ...options, signal, onProgress: onProgress && onEach }, worker, files);
    });
    try {
      const models = await Promise.all(loads);
      integrity.requireAllFound();
      await folder.complete?.(signal);
      return { models, fingerprint: await files.fingerprint() };
    } catch (error) {
      stop.abort(error);
      files.close();
      for (const load of await Promise.allSettled(loads)) if (load.status === 'fulfilled') load.value.dispose();
      throw error;
    }
  };
  // A worker of the caller's own cannot load a second time.
  return withFolder(source, { ...options, hub: runtime.hub, integrity }, load, worker !== undefined);
}

interface Slot {
  model: WorkerModel;
  /** Number of pending calls. */
  busy: number;
  /** Pending while a dead worker is being replaced; otherwise null. */
  replacement: Promise<void> | null;
}

class PoolModel extends RemoteModel {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'PretrainedModel';

  readonly config: ModelConfig;
  readonly workers: Workers;
  readonly #loadReplacement: (signal: SignalLike) => Promise<WorkerModel>;
  readonly #slots: Slot[];
  readonly #stop = new AbortController();

  constructor(models: WorkerModel[], workers: Workers, loadReplacement: (signal: SignalLike) => Promise<WorkerModel>) {
    super();
    this.config = models[0]!.config;
    this.workers = workers;
    this.#loadReplacement = loadReplacement;
    this.#slots = models.map((model) => ({ model, busy: 0, replacement: null }));
  }

  get disposed(): boolean {
    return this.#slots.every(({ model }) => model.disposed);
  }

  call<T>(...args: Parameters<WorkerModel['call']>): Promise<T> {
    return this.#run((model) => model.call(...args));
  }

  /** Divides a call among the workers, or runs it on one of them if it has few texts. */
  protected async run<T>({ method, input, options, args = (each) => [each], join }: RemoteCall<T>): Promise<T> {
    const { signal, onProgress, ...rest } = options;
    const textPairs = rest.textPairs as string | readonly string[] | undefined;
    const total = countTexts(input);
    // `read` and `edit` refer to texts by index and may need all of them. Pairs that do not match the texts are left
    // for a worker to reject.
    const isWhole = rest.edit || rest.read || (textPairs !== undefined && textPairs.length !== total);
    if (!join || total <= LEAST_TEXTS || isWhole) return this.call(method, args(input), options);
    const shares = sharesOf(lengthsOf(input, textPairs), this.workers.count);
    const joiner = join(total);
    let done = 0;
    await runTogether(this.#slots.length, signal, async (signal, failures) => {
      for (const all of shares) {
        const share = failures.before(all);
        if (share.length === 0) continue;
        const pairs = textPairs && { textPairs: share.map((n) => textPairs[n]!) };
        const call = { ...rest, ...pairs, signal };
        try {
          joiner.add(share, await this.call<T>(method, args(textsOf(input, share)), call));
        } catch (error) {
          if (signal.aborted || !failures.add(error, share)) throw error;
          continue;
        }
        done += share.length;
        if (!failures.first) onProgress?.({ done, total });
      }
    });
    return joiner.result();
  }

  dispose(): void {
    for (const { model } of this.#slots) model.dispose();
    this.#stop.abort(disposed());
  }

  /**
   * Runs a call in the worker with the fewest pending calls. Dead workers are replaced; meanwhile, the others take all
   * calls. If no worker is alive, the call waits for a replacement.
   */
  async #run<T>(call: (model: WorkerModel) => Promise<T>): Promise<T> {
    for (const slot of this.#slots) if (slot.model.failed) this.#replace(slot);
    const alive = this.#slots.filter(({ model }) => !model.failed);
    if (alive.length === 0) {
      await Promise.any(this.#slots.map(({ replacement }) => replacement)).catch(({ errors }: AggregateError) => {
        throw errors[0];
      });
      return this.#run(call);
    }
    const slot = alive.reduce((least, each) => (each.busy < least.busy ? each : least));
    slot.busy++;
    try {
      return await call(slot.model);
    } finally {
      slot.busy--;
    }
  }

  /** Starts loading the model in a new worker, unless that is in progress. If it fails, the next call tries again. */
  #replace(slot: Slot): void {
    slot.replacement ??= this.#loadReplacement(this.#stop.signal)
      .then((model) => {
        if (this.#stop.signal.aborted) model.dispose(); // it was loaded in the turn in which the pool was disposed of
        slot.model = model;
      })
      .finally(() => {
        slot.replacement = null;
      });
    slot.replacement.catch(() => {});
  }
}

heldByCalls(PoolModel.prototype);
