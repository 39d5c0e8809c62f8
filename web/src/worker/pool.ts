/**
 * A pretrained encoder in several workers. Each has a model of its own, and long lists of texts are divided among them, which does not change their vectors. No memory is shared,
 * so no cross-origin-isolation headers are needed. A worker that has died (connection.ts) is replaced by `#replace`.
 */
import { HeedError, invalidFile } from '../error.js';
import type { ModelFolder } from '../io/files.js';
import { Integrity } from '../io/integrity.js';
import { type ModelSource, openFolder, sourceForWorker } from '../io/source.js';
import { countTexts, isTexts, type ModelInput, pairsOf, readInput } from '../models/input.js';
import type { LoadModelOptions, LoadProgress } from '../models/load.js';
import type { EmbedOptions, ModelConfig, PretrainedModel, Workers } from '../models/model.js';
import { type VectorsOf, vectorsOf } from '../models/quantized.js';
import type { PageRuntime } from '../owned.js';
import { linkedAbort, type SignalLike } from '../platform.js';
import { Tensor } from '../tensor.js';
import { loadInWorker, readCall, type WorkerModel } from './client.js';
import { disposed } from './connection.js';
import { type FileServer, serveFiles } from './files.js';
import type { Method } from './protocol.js';
import { RemoteModel } from './remote.js';

export async function loadPool(
  runtime: PageRuntime,
  given: ModelSource,
  { onProgress, signal, ...options }: LoadModelOptions,
  workers: Workers,
): Promise<PretrainedModel> {
  const source = sourceForWorker(given, options.remoteHost);
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

/** Loads the model in `count` new workers. The files are read once, here. If one worker fails, all are stopped. */
async function loadWorkers(
  runtime: PageRuntime,
  source: ModelSource,
  { onProgress, signal, integrity: expected, ...options }: LoadModelOptions,
  count: number,
): Promise<{ models: WorkerModel[]; fingerprint: string }> {
  const integrity = new Integrity(expected);
  const { stop, unlink } = linkedAbort(signal);
  let folder: ModelFolder | undefined;
  let files: FileServer | undefined;
  let loads: Promise<WorkerModel>[] = [];
  const loaded = new Array<number>(count).fill(0);
  try {
    folder = await openFolder(source, { ...options, signal: stop.signal, integrity });
    files = serveFiles(folder, count, stop.signal);
    loads = loaded.map((_, i) => {
      const onEach = (progress: LoadProgress) => {
        loaded[i] = progress.loaded;
        if (Math.min(...loaded) === progress.loaded) onProgress!(progress); // all workers have loaded this much
      };
      const each = { ...options, signal: stop.signal, onProgress: onProgress && onEach };
      return loadInWorker(runtime, null, each, undefined, files);
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

  override async embedFloats(texts: ModelInput, options?: EmbedOptions): Promise<VectorsOf<'float32'>> {
    const { signal, onProgress, textPairs, ...rest } = readCall('embed', options);
    const input = readInput(texts);
    if (Array.isArray(textPairs)) pairsOf(input, { textPairs });
    const total = countTexts(input);
    // Edits name texts of the call, and may need all of them.
    if (total <= LEAST_TEXTS || rest.edit) return this.#run((model) => model.embedFloats(input, options));
    const shares = sharesOf(lengthsOf(input, textPairs), this.workers.count);
    const { stop, unlink } = linkedAbort(signal);
    let data = new Float32Array();
    const truncated = new Array<number>(total);
    let width = 0;
    let done = 0;
    const work = async () => {
      for (const share of shares) {
        const pairs = Array.isArray(textPairs) ? share.map((n) => textPairs[n]!) : textPairs;
        const call = { ...rest, textPairs: pairs, signal: stop.signal };
        const embed = this.#run((model) => model.embedFloats(textsOf(input, share), call));
        const vectors = await embed.catch((error: unknown) => {
          // The index of the text in the call instead of in the share.
          if (error instanceof HeedError)
            error.message = error.message.replace(/^(\w+\[)(\d+)/, (_, name, n) => `${name}${share[n] ?? n}`);
          throw error;
        });
        width = vectors.shape[1]!;
        if (done === 0) data = new Float32Array(total * width);
        share.forEach((n, i) => {
          data.set(vectors.data.subarray(i * width, (i + 1) * width), n * width);
          truncated[n] = vectors.truncated[i]!;
        });
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
    return vectorsOf(new Tensor(data, [total, width]), 'float32', truncated);
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

/** Texts per share: at least as many as fill the core's pieces, and few enough for progress reports. */
const LEAST_TEXTS = 8;
const MOST_TEXTS = 256;

/**
 * Divides a list into shares, which the workers take one by one: the longest texts first, and each share a part of the work that is left, so that all workers finish at about the
 * same time. (The order makes no single worker faster, because texts are not padded.)
 */
function* sharesOf(lengths: readonly number[], workers: number): Generator<number[]> {
  const order = [...lengths.keys()].sort((a, b) => lengths[b]! - lengths[a]!);
  let left = lengths.reduce((sum, length) => sum + length, 0);
  for (let next = 0; next < order.length; ) {
    const share: number[] = [];
    let size = 0;
    const most = left / (2 * workers);
    while (next < order.length && share.length < MOST_TEXTS && (share.length < LEAST_TEXTS || size < most)) {
      size += lengths[order[next]!]!;
      share.push(order[next++]!);
    }
    left -= size;
    yield share;
  }
}

/** Each text's length in characters, or in tokens if the input consists of ids; plus one, so that empty texts count. */
function lengthsOf(input: ModelInput, pairs: unknown): number[] {
  const each = isTexts(input) ? [input].flat() : input.inputIds;
  return each.map(({ length }, n) => 1 + length + (Array.isArray(pairs) ? (pairs[n]?.length ?? 0) : 0));
}

function textsOf(input: ModelInput, share: readonly number[]): ModelInput {
  const pick = <T>(list: readonly T[]): T[] => share.map((n) => list[n]!);
  if (isTexts(input)) return pick([input].flat());
  const { inputIds, attentionMask, tokenTypeIds } = input;
  return {
    inputIds: pick(inputIds),
    attentionMask: attentionMask && pick(attentionMask),
    tokenTypeIds: tokenTypeIds && pick(tokenTypeIds),
  };
}
