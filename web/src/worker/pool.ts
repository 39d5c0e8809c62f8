/**
 * A pretrained encoder in several workers at once. It needs no shared memory, hence no special headers of the host: every worker has a model of its own, and long lists of texts are
 * dealt out to them. A text's vector does not depend on where it was computed.
 */
import { describe, invalid } from '../error.js';
import { countTexts, type ModelInput, readInput, type TokenIds } from '../models/input.js';
import type { LoadModelOptions } from '../models/load.js';
import type { EmbedOptions, ModelConfig, PretrainedModel, Threads } from '../models/model.js';
import type { ModelSource } from '../models/source.js';
import type { WasmModule } from '../module.js';
import { nodeModule } from '../platform.js';
import { Tensor } from '../tensor.js';
import { loadInWorker, readCall } from './client.js';
import type { Arguments, Method } from './protocol.js';
import { type Called, RemoteModel } from './remote.js';

const MOST_THREADS = 64;

/** How many workers to start, and why so many. */
export function chooseThreads(asked: number | 'auto'): Threads {
  if (asked !== 'auto') {
    if (!Number.isInteger(asked) || asked < 1 || asked > MOST_THREADS)
      throw invalid('fromPretrained.threads', describe(asked), `'auto' or a whole number from 1 to ${MOST_THREADS}`);
    return { count: asked, reason: 'asked for' };
  }
  const cores =
    nodeModule<typeof import('node:os')>('os')?.availableParallelism() ??
    (globalThis as { navigator?: { hardwareConcurrency?: number } }).navigator?.hardwareConcurrency;
  if (!cores) return { count: 1, reason: 'the engine does not say how many cores there are' };
  return { count: Math.min(cores, 8), reason: `${cores} cores${cores > 8 ? ', of which 8 are used' : ''}` };
}

export async function loadPool(
  wasm: WasmModule,
  source: ModelSource,
  { onProgress, ...options }: LoadModelOptions,
  threads: Threads,
): Promise<PretrainedModel> {
  const loads = Array.from({ length: threads.count }, (_, i) =>
    loadInWorker(wasm, source, i === 0 && onProgress ? { ...options, onProgress } : options),
  );
  const settled = await Promise.allSettled(loads);
  const models = settled.flatMap((load) => (load.status === 'fulfilled' ? [load.value] : []));
  const failed = settled.find((load) => load.status === 'rejected');
  if (!failed) return new PoolModel(models, threads);
  for (const model of models) model.dispose();
  throw failed.reason;
}

class PoolModel extends RemoteModel {
  readonly config: ModelConfig;
  readonly #models: PretrainedModel[];
  /** Calls under way in each. */
  readonly #busy: number[];

  constructor(
    models: PretrainedModel[],
    readonly threads: Threads,
  ) {
    super();
    this.config = models[0]!.config;
    this.#models = models;
    this.#busy = models.map(() => 0);
  }

  get disposed(): boolean {
    return this.#models.every((model) => model.disposed);
  }

  protected call<M extends Method>(method: M, args: Arguments<M>): Called<M> {
    return this.#run((model) =>
      (model[method] as (...args: unknown[]) => Promise<unknown>).apply(model, args),
    ) as Called<M>;
  }

  override async embed(texts: ModelInput, options?: EmbedOptions): Promise<Tensor> {
    const { signal, onProgress, textPairs, ...rest } = readCall('embed', options);
    const input = readInput(texts);
    const total = countTexts(input);
    // Four shares for each: the last ones even out what the others took longer for.
    const size = Math.max(8, Math.min(256, Math.ceil(total / (4 * this.threads.count))));
    if (total <= size) return this.#run((model) => model.embed(input, options));
    const stop = new AbortController();
    const onAbort = () => stop.abort(signal!.reason);
    signal?.throwIfAborted();
    signal?.addEventListener('abort', onAbort);
    const parts: Tensor[] = [];
    let next = 0;
    let done = 0;
    const work = async () => {
      while (next < total) {
        const from = next;
        next += size;
        const pairs = Array.isArray(textPairs) ? textPairs.slice(from, from + size) : textPairs;
        const share = { ...rest, ...(pairs !== undefined && { textPairs: pairs }), signal: stop.signal };
        const vectors = await this.#run((model) => model.embed(shareOf(input, from, from + size), share));
        parts[from / size] = vectors;
        done += vectors.shape[0]!;
        onProgress?.({ done, total });
      }
    };
    try {
      await Promise.all(this.#models.map(work));
    } catch (error) {
      stop.abort();
      throw error;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
    const width = parts[0]!.shape[1]!;
    const data = new Float32Array(total * width);
    parts.forEach((part, i) => {
      data.set(part.data, i * size * width);
    });
    return new Tensor(data, [total, width]);
  }

  dispose(): void {
    for (const model of this.#models) model.dispose();
  }

  /** In the worker that has least to do. */
  async #run<T>(call: (model: PretrainedModel) => Promise<T>): Promise<T> {
    const at = this.#busy.indexOf(Math.min(...this.#busy));
    this.#busy[at]!++;
    try {
      return await call(this.#models[at]!);
    } finally {
      this.#busy[at]!--;
    }
  }
}

function shareOf(input: ModelInput, from: number, to: number): ModelInput {
  if (Array.isArray(input)) return input.slice(from, to) as string[];
  const { inputIds, attentionMask, tokenTypeIds } = input as TokenIds;
  return {
    inputIds: inputIds.slice(from, to),
    ...(attentionMask && { attentionMask: attentionMask.slice(from, to) }),
    ...(tokenTypeIds && { tokenTypeIds: tokenTypeIds.slice(from, to) }),
  };
}
