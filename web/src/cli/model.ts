/** Opens the model that is specified on the command line. */
import { readdirSync, statSync } from 'node:fs';
import { availableParallelism, freemem } from 'node:os';
import { join } from 'node:path';
import { type EmbedOptions, load, type PretrainedModel } from '../index.js';
import type { TextRole } from '../node/index.js';
import { refuseBoth } from './options.js';
import { Progress } from './progress.js';
import type { Input } from './records.js';
import { watchTruncation } from './truncation.js';

// Options as commander returns them: in camelCase, undefined if not given.
export interface ModelOptions {
  model?: string;
  /** Hub of models that are specified by their id. */
  remoteHost?: string;
  /** Folder in which files from the network are cached, or false for none. Default: the library's folder. */
  cache?: string | boolean;
  /** Whether to check for files newer than the cached ones. */
  refresh?: boolean;
  dtype?: 'fp32' | 'q8';
  /** Whether to reject a model with settings that heed does not know. */
  strict?: boolean;
  /** Whether texts that are too long are truncated. commander's default is true. */
  truncation?: boolean;
}

export interface ParallelOptions {
  workers?: number | 'auto';
  threads?: number | 'auto';
}

export type EmbeddingOptions = Pick<EmbedOptions, 'pooling' | 'dimensions' | 'prompt'> & { role?: TextRole };

/**
 * The options of `fromPretrained` that specify the source. Files from the network are cached by default, because
 * commands are often run again.
 */
export const remoteOptions = ({ remoteHost, cache = true, refresh }: ModelOptions) => ({ remoteHost, cache, refresh });

/** What opens models: the object of `load()`, of heed or of heed/train. */
interface Opener<Model> {
  fromPretrained(source: string | undefined, options: object): Promise<Model>;
}

/** Loads the model, and shows the progress. `more`: more options of `fromPretrained`. */
export async function loadModel<Model>(heed: Opener<Model>, options: ModelOptions, more: object = {}): Promise<Model> {
  const { model, dtype, strict } = options;
  using progress = new Progress('loading', 'bytes');
  const { onProgress } = progress;
  return await heed.fromPretrained(model, { dtype, strict, onProgress, ...remoteOptions(options), ...more });
}

/**
 * Opens the model for commands that stream texts. `input`: the texts, whose size determines the default number of
 * workers.
 */
export async function openModel(
  options: ModelOptions & ParallelOptions,
  { input, signal }: { input?: Input; signal?: AbortSignal } = {},
): Promise<PretrainedModel> {
  const { truncation = true, workers, threads } = options;
  refuseBoth('--workers', '--threads', workers !== undefined && threads !== undefined);
  const chosen = workers ?? (threads === undefined && input ? workersFor(input, options.model) : undefined);
  const model = await loadModel<PretrainedModel>(await load({ threads }), options, { workers: chosen, signal });
  return watchTruncation(model, truncation);
}

/**
 * Minimum bytes of text per worker. A worker takes 0.1 to 0.15 s of CPU time to start, in which the smallest model
 * embeds about 3 KiB of text and larger models less. With at least this much text per worker, several workers are
 * faster than none.
 */
const LEAST_SHARE = 8 << 10;
/** Memory of a worker, in addition to its copy of the model. */
const WORKER_BYTES = 64 << 20;

/**
 * Number of workers: one per CPU core, up to 8, limited so that each has enough to do and that their copies of the
 * model fit into half of the free memory. undefined (no workers) if fewer than two.
 */
function workersFor(input: Input, model: string | undefined): number | undefined {
  const most = Math.min(availableParallelism(), 8, Math.floor((input.bytes ?? 0) / LEAST_SHARE));
  if (most < 2) return undefined;
  const bytes = sizeOfModel(model);
  if (bytes === null) return undefined;
  const each = WORKER_BYTES + 2 * bytes; // weights are often stored in 16 bits and expanded to 32
  const count = Math.min(most, Math.floor(freemem() / 2 / each));
  return count > 1 ? count : undefined;
}

/** Size of a model's weights; null if it is not on this machine. */
function sizeOfModel(source: string | undefined): number | null {
  if (source === undefined) return 0; // the package's own is small
  try {
    if (statSync(source).isFile()) return statSync(source).size;
    const names = readdirSync(source).filter((name) => name.endsWith('.safetensors'));
    return names.reduce((sum, name) => sum + statSync(join(source, name)).size, 0);
  } catch {
    return null;
  }
}
