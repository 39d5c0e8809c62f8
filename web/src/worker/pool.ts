/**
 * A pretrained encoder in several workers. Each has a model of its own, and long lists of texts are divided among them, which does not change their vectors. No memory is shared,
 * so no cross-origin-isolation headers are needed. A worker that has died (connection.ts) is replaced by `#replace`.
 */
import { HeedError, invalidFile } from '../error.js';
import type { ModelFolder } from '../io/files.js';
import { Integrity } from '../io/integrity.js';
import { type ModelSource, openFolder, sourceForWorker } from '../io/source.js';
import { countTexts, type ModelInput, pairsOf, readInput } from '../models/input.js';
import type { LoadModelOptions, LoadProgress } from '../models/load.js';
import type {
  EmbedOptions,
  EmbedTokensOptions,
  EncodeCall,
  EncodeResultFor,
  ModelConfig,
  Prediction,
  PredictOptions,
  PretrainedModel,
  ScoreSpansOptions,
  SpanScores,
  Workers,
} from '../models/model.js';
import type { VectorsOf } from '../models/quantized.js';
import type { SparseVector } from '../models/sparse.js';
import type { HeadName } from '../models/task-heads.js';
import { optional, texts as readTexts } from '../options.js';
import type { PageRuntime } from '../owned.js';
import { linkedAbort, type SignalLike, type WorkerLike } from '../platform.js';
import type { Tensor } from '../tensor.js';
import { loadInWorker, readCall, type WorkerModel } from './client.js';
import { disposed } from './connection.js';
import { type FileServer, serveFiles } from './files.js';
import type { Method } from './protocol.js';
import { RemoteModel } from './remote.js';
import {
  type Joiner,
  joinLists,
  joinMasks,
  joinRecords,
  joinVectors,
  LEAST_TEXTS,
  lengthsOf,
  sharesOf,
  textsOf,
} from './shares.js';

const readPairs = optional(readTexts, undefined);

export async function loadPool(
  runtime: PageRuntime,
  given: ModelSource,
  { onProgress, signal, ...options }: LoadModelOptions,
  workers: Workers,
): Promise<PretrainedModel> {
  const source = sourceForWorker(given, options.remoteHost, runtime.hub);
  const load = (count: number, more: LoadModelOptions) => loadWorkers(runtime, source, { ...options, ...more }, count);
  const { models, fingerprint } = await load(workers.count, { onProgress, signal });
  const loadReplacement = async (poolSignal: SignalLike) => {
    const again = await load(1, { signal: poolSignal });
    if (again.fingerprint === fingerprint) return again.models[0]!;
    again.models[0]!.dispose();
    const expected = 'the files of the first load for a worker that replaces a terminated one';
    throw invalidFile('source', expected, 'other files', 'Load the model again');
  };
  return new PoolModel(models, workers, loadReplacement);
}

/** Loads the model in `count` new workers, or in `worker`. The files are read once, here. If one worker fails, all are stopped. */
export async function loadWorkers(
  runtime: PageRuntime,
  source: ModelSource,
  { onProgress, signal, integrity: expected, ...options }: LoadModelOptions,
  count: number,
  worker?: WorkerLike,
): Promise<{ models: WorkerModel[]; fingerprint: string }> {
  const integrity = new Integrity(expected);
  const { stop, unlink } = linkedAbort(signal);
  let folder: ModelFolder | undefined;
  let files: FileServer | undefined;
  let loads: Promise<WorkerModel>[] = [];
  const loaded = new Array<number>(count).fill(0);
  try {
    folder = await openFolder(source, { ...options, hub: runtime.hub, signal: stop.signal, integrity });
    files = serveFiles(folder, count, stop.signal);
    loads = loaded.map((_, i) => {
      const onEach = (progress: LoadProgress) => {
        loaded[i] = progress.loaded;
        if (Math.min(...loaded) === progress.loaded) onProgress!(progress); // all workers have loaded this much
      };
      const each = { ...options, signal: stop.signal, onProgress: onProgress && onEach };
      return loadInWorker(runtime, null, each, worker, files);
    });
    const models = await Promise.all(loads);
    integrity.requireAllFound();
    return { models, fingerprint: await files.fingerprint() };
  } catch (error) {
    stop.abort(error);
    files?.close();
    for (const load of await Promise.allSettled(loads)) if (load.status === 'fulfilled') load.value.dispose();
    await folder?.failed?.(error);
    throw signal?.aborted ? signal.reason : error;
  } finally {
    unlink();
  }
}

interface Slot {
  model: WorkerModel;
  /** The number of pending calls. */
  busy: number;
  /** Pending while a worker that has died is replaced. */
  replacement: Promise<void> | null;
}

class PoolModel extends RemoteModel {
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

  call<T>(method: Method, args: unknown[], options?: object): Promise<T> {
    return this.#run((model) => model.call(method, args, options));
  }

  override embedFloats(texts: ModelInput, options?: EmbedOptions): Promise<VectorsOf<'float32'>> {
    return this.#divided('embed', texts, options, joinVectors, (model, input, call) => model.embedFloats(input, call));
  }

  override encode<A extends boolean, S extends boolean, P extends boolean>(
    input: ModelInput,
    options?: EncodeCall<A, S, P>,
  ): Promise<EncodeResultFor<A, S, P>> {
    const join = (total: number) => joinRecords<EncodeResultFor<A, S, P>>('encode', total);
    return this.#divided('encode', input, options, join, (model, share, call) => model.encode(share, call));
  }

  override predict(head: HeadName, input: ModelInput, options?: PredictOptions): Promise<Prediction> {
    const join = (total: number) =>
      head === 'fill-mask' ? joinMasks(total) : joinRecords<Prediction>('predict', total);
    return this.#divided('predict', input, options, join, (model, share, call) => model.predict(head, share, call));
  }

  override embedSparse(input: ModelInput, options?: PredictOptions): Promise<SparseVector[]> {
    const join = joinLists<SparseVector>;
    return this.#divided('embedSparse', input, options, join, (model, share, call) => model.embedSparse(share, call));
  }

  override embedTokens(texts: string | readonly string[], options?: EmbedTokensOptions): Promise<Tensor[]> {
    return this.#divided('embedTokens', texts, options, joinLists<Tensor>, (model, share, call) =>
      model.embedTokens(share as string[], call),
    );
  }

  override scoreSpans(
    texts: string | readonly string[],
    labels: readonly string[],
    options?: ScoreSpansOptions,
  ): Promise<SpanScores[]> {
    return this.#divided('scoreSpans', texts, options, joinLists<SpanScores>, (model, share, call) =>
      model.scoreSpans(share as string[], labels, call),
    );
  }

  /** Runs a call on the workers together, or on one of them if there is little to do. */
  async #divided<Result, Options extends EmbedOptions & { read?: unknown }>(
    owner: string,
    texts: ModelInput,
    options: Options | undefined,
    join: (total: number) => Joiner<Result>,
    run: (model: WorkerModel, texts: ModelInput, options: Options | undefined) => Promise<Result>,
  ): Promise<Result> {
    const { signal, onProgress, ...rest } = readCall(owner, options);
    const textPairs = readPairs(rest.textPairs, `${owner}.textPairs`);
    const input = readInput(texts);
    if (Array.isArray(textPairs)) pairsOf(input, { textPairs });
    const total = countTexts(input);
    // What a call reads and edits names its texts, and may need all of them.
    if (total <= LEAST_TEXTS || rest.edit || rest.read) return this.#run((model) => run(model, input, options));
    const shares = sharesOf(lengthsOf(input, textPairs), this.workers.count);
    const { stop, unlink } = linkedAbort(signal);
    const joiner = join(total);
    let done = 0;
    const work = async () => {
      for (const share of shares) {
        const pairs = Array.isArray(textPairs) ? { textPairs: share.map((n) => textPairs[n]!) } : {};
        const call = { ...rest, ...pairs, signal: stop.signal } as unknown as Options;
        const result = await this.#run((model) => run(model, textsOf(input, share), call)).catch((error: unknown) => {
          // The index of the text in the call instead of in the share.
          if (error instanceof HeedError)
            error.message = error.message.replace(/^(\w+\[)(\d+)/, (_, name, n) => `${name}${share[n] ?? n}`);
          throw error;
        });
        joiner.add(share, result);
        done += share.length;
        onProgress?.({ done, total });
      }
    };
    try {
      await Promise.all(this.#slots.map(work));
    } catch (error) {
      stop.abort();
      throw error;
    } finally {
      unlink();
    }
    return joiner.joined();
  }

  dispose(): void {
    for (const { model } of this.#slots) model.dispose();
    this.#stop.abort(disposed());
  }

  /** Runs a call in the worker with the fewest calls. Workers that have died are replaced; meanwhile the remaining workers take all calls; if none remain, calls wait for a replacement. */
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

  /** Loads the model in a new worker, unless that has begun already. If it fails, the next call tries again. */
  #replace(slot: Slot): void {
    slot.replacement ??= this.#loadReplacement(this.#stop.signal)
      .then((model) => {
        slot.model = model;
      })
      .finally(() => {
        slot.replacement = null;
      });
    slot.replacement.catch(() => {});
  }
}
