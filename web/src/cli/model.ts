/** Opens the model that a command line names. */
import { readdirSync, statSync } from 'node:fs';
import { availableParallelism, freemem } from 'node:os';
import { join } from 'node:path';
import { type EmbedOptions, load, type PretrainedModel } from '../index.js';
import { refuseBoth } from './options.js';
import { Progress } from './progress.js';
import type { Input } from './records.js';
import { watchTruncation } from './truncation.js';

// Options as commander gives them: camelCase, undefined if not given.
export interface ModelOptions {
  model?: string;
  /** The hub of models that are given by their id. */
  host?: string;
  /** Where files from the network are kept; false: nowhere. Default: where the library keeps them. */
  cache?: string | boolean;
  /** Whether to ask for newer files than those kept. */
  refresh?: boolean;
  dtype?: 'fp32' | 'q8';
  /** Whether texts that are too long are cut; commander's default is true. */
  truncation?: boolean;
}

export interface ParallelOptions {
  workers?: number | 'auto';
  threads?: number | 'auto';
}

export type EmbeddingOptions = Pick<EmbedOptions, 'pooling' | 'dimensions' | 'prompt'>;

/** The options of `fromPretrained` that say where a model is read from. Files from the network are kept, as a command that is run again would otherwise download them again. */
export const remoteOptions = ({ host, cache = true, refresh }: ModelOptions) => ({ remoteHost: host, cache, refresh });

/** `input`: what the model is for, by whose size the number of workers is chosen if it is not given. */
export async function openModel(
  { model: source, dtype, truncation = true, workers, threads, ...remote }: ModelOptions & ParallelOptions,
  { input, signal }: { input?: Input; signal?: AbortSignal } = {},
): Promise<PretrainedModel> {
  refuseBoth('--workers', '--threads', workers !== undefined && threads !== undefined);
  const heed = await load({ threads });
  using progress = new Progress('loading', 'bytes');
  const onProgress = ({ loaded, total }: { loaded: number; total: number | null }) =>
    progress.update(loaded, total ? loaded / total : undefined);
  const chosen = workers ?? (threads === undefined && input ? workersFor(input, source) : undefined);
  const options = { dtype, workers: chosen, onProgress, signal, ...remoteOptions(remote) };
  const model = await heed.fromPretrained(source, options);
  return watchTruncation(model, truncation);
}

/**
 * A worker takes 0.1 to 0.15 s of processor time to start, in which the smallest model embeds about 3 KiB of text, and larger models less. With twice as much for each worker, several
 * are faster than none.
 */
const LEAST_SHARE = 8 << 10;
/** Of a worker, besides its copy of the model. */
const WORKER_BYTES = 64 << 20;

/** A worker for each core, up to 8, as far as each has enough to do and their copies of the model fit into half of the free memory. None instead of one. */
function workersFor(input: Input, model: string | undefined): number | undefined {
  const most = Math.min(availableParallelism(), 8, Math.floor((input.bytes ?? 0) / LEAST_SHARE));
  if (most < 2) return undefined;
  const bytes = sizeOfModel(model);
  if (bytes === null) return undefined;
  const each = WORKER_BYTES + 2 * bytes; // weights are often stored in 16 bits, and computed in 32
  const count = Math.min(most, Math.floor(freemem() / 2 / each));
  return count > 1 ? count : undefined;
}

/** The size of a model's weights; null if it is not on this machine. */
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
