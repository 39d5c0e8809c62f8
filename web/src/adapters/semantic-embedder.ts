/**
 * `heed/semantic-embedder`: a class with the interface of `SemanticEmbedder`, the embedding API that Chrome is
 * prototyping (explainers-by-googlers/embedding-api), which runs a model of heed. Errors are those that a browser's own
 * class throws: TypeError, InvalidStateError and the signal's reason.
 */
import { describe, invalid } from '../base/error.js';
import { turn } from '../base/event-loop.js';
import type { SignalLike } from '../base/platform.js';
import { namedPrompt, PROMPT_NAMES } from '../models/index.js';
import type { Embedder } from './prompts.js';

export type TaskType =
  | 'semantic-similarity'
  | 'retrieval-query'
  | 'retrieval-document'
  | 'classification'
  | 'clustering';
export type EmbedderAvailability = 'unavailable' | 'downloadable' | 'downloading' | 'available';

/** The EventTarget for download progress. */
export interface DownloadMonitor {
  addEventListener(type: 'downloadprogress', listener: (event: { loaded: number; total: number }) => void): void;
}

export interface CreateOptions {
  /** Called with an EventTarget that receives `downloadprogress` events, whose `loaded` increases from 0 to 1. */
  monitor?: ((monitor: DownloadMonitor) => void) | undefined;
  /** Cancels the load. */
  signal?: SignalLike | undefined;
}

export interface EmbedderResult {
  /** One entry per text. */
  embeddings: { values: Float32Array }[];
}

/** A model that can be freed. */
export interface OwnedEmbedder extends Embedder {
  dispose(): void;
}

export interface EmbedderSession {
  /** Embeds one or several texts. `taskType` selects a prompt of the model's folder; without it, no prompt is used. */
  embed(
    input: string | readonly string[],
    options?: { taskType?: TaskType | undefined; signal?: SignalLike | undefined },
  ): Promise<EmbedderResult>;
  /** Frees the model. */
  destroy(): void;
}

export interface SemanticEmbedderClass {
  /**
   * Resolves to 'available' once a model has been loaded, 'downloading' during the first load, 'downloadable' before
   * it.
   */
  availability(): Promise<EmbedderAvailability>;
  create(options?: CreateOptions): Promise<EmbedderSession>;
}

/** Loads a model. Must pass `options` to `fromPretrained`. */
export type LoadEmbedder = (options: {
  onProgress: (progress: { loaded: number; total: number | null }) => void;
  signal?: SignalLike | undefined;
}) => Promise<OwnedEmbedder>;

/** Number of values of `loaded` in reported progress. */
const STEPS = 65536;

/** Names that published folders use for the prompts of each task. */
const TASK_PROMPTS: Record<TaskType, readonly string[]> = {
  'semantic-similarity': ['STS', 'semantic-similarity', 'text-matching'],
  'retrieval-query': PROMPT_NAMES.query,
  'retrieval-document': PROMPT_NAMES.document,
  classification: ['Classification', 'classification'],
  clustering: ['Clustering', 'clustering'],
};

/**
 * Creates the class, for browsers without one. Each `create()` loads a model with `load`, and `destroy()` disposes of
 * it.
 *
 * @example
 * const heed = await load();
 * globalThis.SemanticEmbedder ??= semanticEmbedder((options) => heed.fromPretrained(undefined, { ...options, worker: true }));
 * const embedder = await SemanticEmbedder.create();
 * const { embeddings } = await embedder.embed(['a fox', 'a dog'], { taskType: 'retrieval-document' });
 * embeddings[0].values; // Float32Array
 * @throws HeedError INVALID_ARGUMENT if `load` is not a function
 */
export function semanticEmbedder(load: LoadEmbedder): SemanticEmbedderClass {
  if (typeof load !== 'function')
    throw invalid('semanticEmbedder: load', 'a function that loads a model', describe(load));
  let state: EmbedderAvailability = 'downloadable';
  const key = Symbol('create');
  return class SemanticEmbedder implements EmbedderSession {
    readonly #model: OwnedEmbedder;
    #destroyed = false;

    constructor(caller: unknown, model: OwnedEmbedder) {
      if (caller !== key) throw new TypeError('Illegal constructor');
      this.#model = model;
    }

    static async availability(): Promise<EmbedderAvailability> {
      return state;
    }

    static async create({ monitor, signal }: CreateOptions = {}): Promise<EmbedderSession> {
      signal?.throwIfAborted();
      const target = new EventTarget();
      monitor?.(target as unknown as DownloadMonitor);
      let reported = -1;
      const report = (loaded: number) => {
        reported = loaded;
        target.dispatchEvent(progressEvent(loaded));
      };
      const onProgress = ({ loaded, total }: { loaded: number; total: number | null }) => {
        // In steps of 1/65536, as in the other APIs of built-in models (Writing Assistance APIs, "creating an AI model object").
        const share = total ? Math.floor(STEPS * Math.min(loaded / total, 1)) / STEPS : 0;
        if (share > reported && share < 1) report(share);
      };
      const before = state;
      if (before === 'downloadable') state = 'downloading';
      try {
        report(0);
        const model = await load({ onProgress, ...(signal && { signal }) });
        state = 'available';
        report(1);
        // A listener of the last event may abort, also asynchronously.
        await turn();
        if (signal?.aborted) {
          model.dispose();
          throw signal.reason;
        }
        return new SemanticEmbedder(key, model);
      } catch (error) {
        if (state === 'downloading') state = before;
        throw error;
      }
    }

    async embed(
      input: string | readonly string[],
      { taskType, signal }: { taskType?: TaskType | undefined; signal?: SignalLike | undefined } = {},
    ): Promise<EmbedderResult> {
      if (this.#destroyed) throw new DOMException('The embedder has been destroyed.', 'InvalidStateError');
      if (taskType !== undefined && !Object.hasOwn(TASK_PROMPTS, taskType))
        throw new TypeError(
          `taskType: expected one of ${Object.keys(TASK_PROMPTS).join(', ')}, got ${describe(taskType)}`,
        );
      const named = taskType === undefined ? {} : namedPrompt(this.#model.config.prompts, TASK_PROMPTS[taskType]);
      const texts = typeof input === 'string' ? [input] : input;
      const prompt = named.promptName === undefined ? { prompt: '' } : named;
      const vectors = await this.#model.embed(texts, { ...prompt, ...(signal && { signal }) });
      const width = vectors.shape[1]!;
      const row = (_: unknown, n: number) => ({ values: vectors.data.slice(n * width, (n + 1) * width) });
      return { embeddings: Array.from({ length: vectors.shape[0]! }, row) };
    }

    destroy(): void {
      if (this.#destroyed) return;
      this.#destroyed = true;
      this.#model.dispose();
    }
  };
}

/** A ProgressEvent, or in engines without it an Event with the same fields. */
function progressEvent(loaded: number): Event {
  const fields = { lengthComputable: true, loaded, total: 1 };
  return typeof ProgressEvent === 'function'
    ? new ProgressEvent('downloadprogress', fields)
    : Object.assign(new Event('downloadprogress'), fields);
}
