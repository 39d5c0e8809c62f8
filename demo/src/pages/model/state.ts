/** The reader's own model: its source, the progress of loading it, and its views. */
import { effect, signal } from '@preact/signals';
import type { ModelSource } from 'heed';
import { asFailure, type Failure, inTurn, type OpenModel, own as opened, openModel } from '../../engine/heed';
import { choice, text } from '../../state/codecs';
import { urlState } from '../../state/url';
import { addressOf, type Checkpoint, foldersOf } from './address';
import type { LocalFile } from './drop';
import { addPictures, followPictures } from './pictures/state';

export const dtype = urlState<'fp32' | 'q8'>(['meaning', 'inside'], 'dtype', 'fp32', choice('fp32', 'q8'));
/** The URL of the model folder. Local files cannot be part of a link. */
export const url = urlState(['meaning', 'inside'], 'url', '', text);
export const files = signal<LocalFile[]>([]);
export { opened };
export interface Progress {
  /** What is being opened. */
  from: string;
  file: string;
  done: number;
  /** Bytes of all files; null until the host has reported their sizes. */
  total: number | null;
}

export const progress = signal<Progress | null>(null);
/** Whether the reader cancelled the last loading. */
export const stopped = signal(false);
export const failure = signal<ModelFailure | null>(null);
/** Whether files of models that were downloaded earlier are kept in this browser. */
export const kept = signal(false);

interface ModelFailure extends Failure {
  advice?: string;
  /** The URLs of files to be saved by hand. */
  download?: string[];
}

/** What was opened last. */
let last: { sources: ModelSource[]; dtype: 'fp32' | 'q8' } | undefined;
let loading: AbortController | undefined;

let isFollowed = false;

/** Follows the settings from the first call on. */
export function followModel(): void {
  if (isFollowed) return;
  isFollowed = true;
  followPictures(opened);
  void followKept();
  effect(() => {
    const chosen = dtype.value;
    if (progress.value === null && last && chosen !== last.dtype) void open(last.sources);
  });
}

/** The cache storage in which the library keeps files (its option `cache: true`). */
const cacheName = 'heed';

export async function followKept(): Promise<void> {
  kept.value = typeof caches !== 'undefined' && (await caches.has(cacheName).catch(() => false));
}

export async function deleteKept(): Promise<void> {
  await caches.delete(cacheName);
  await followKept();
}

export function stop(): void {
  loading?.abort();
}

/** Loads a model from the first of the sources that has one. If that fails, the previous model stays open. */
async function open(sources: ModelSource[]): Promise<void> {
  if (progress.value) return;
  const before = last;
  last = { sources, dtype: dtype.value };
  failure.value = null;
  stopped.value = false;
  loading = new AbortController();
  const { signal } = loading;
  let source = sources[0]!;
  try {
    for (const [i, candidate] of sources.entries()) {
      source = candidate;
      try {
        replace(await openFrom(candidate, signal));
        break;
      } catch (reason) {
        if (i === sources.length - 1 || asFailure(reason).code !== 'NOT_FOUND') throw reason;
      }
    }
  } catch (reason) {
    if (signal.aborted) {
      stopped.value = true;
      last = before;
      // The precision of the model that is still open; with another, that model would be opened again.
      if (before) dtype.value = before.dtype;
    } else failure.value = explained(asFailure(reason), source);
  } finally {
    progress.value = null;
    void followKept();
  }
}

function openFrom(source: ModelSource, signal: AbortSignal): Promise<OpenModel> {
  const isUrl = typeof source === 'string';
  const from = isUrl ? new URL(source).host : 'your files';
  progress.value = { from, file: '', done: 0, total: null };
  return openModel(source, {
    dtype: dtype.value,
    signal,
    // Revisions of a hub; files in other folders may change from one visit to the next.
    cache: isUrl && source.includes('/resolve/'),
    onProgress: ({ file, done, total }) => {
      progress.value = { from, file: file.name.split('/').at(-1)!, done, total };
    },
  });
}

/** Adds what the reader can do about a folder on a host that cannot be opened. */
function explained(found: Failure, source: ModelSource): ModelFailure {
  if (typeof source !== 'string') return found;
  const { host, origin } = new URL(source);
  if (found.code === 'NOT_FOUND')
    return { ...found, advice: `${host} answered, but has no model at this address. Check its spelling.` };
  // Offline, the script of the model's worker may be out of reach as well.
  if (!navigator.onLine && (found.code === 'NETWORK' || found.code === 'WORKER_FAILED'))
    return { ...found, advice: 'You are offline. Connect to the network, then open it again.' };
  if (found.code !== 'NETWORK') return found;
  if (/got (401|403) /.test(found.message))
    return {
      ...found,
      advice: `${host} refuses access: there may be no model of this name, or it may be private or need an agreement to its terms.`,
    };
  if (origin === location.origin || /got \d/.test(found.message)) return found;
  return {
    ...found,
    advice: `${host} may be out of reach, or may not allow other sites to read its files. If you can open these links, save the files into one folder and drop it here.`,
    download: required.map((name) => new URL(name, source.replace(/\/?$/, '/')).href),
  };
}

function replace(next: OpenModel | undefined): void {
  const previous = opened.value?.model;
  opened.value = next;
  // After the calls that have already been queued.
  void inTurn(async () => previous?.dispose());
}

/** The files that an encoder needs. */
const required = ['config.json', 'tokenizer.json', 'model.safetensors'];

export function openUrl(): void {
  if (progress.value) return;
  const given = url.value.trim();
  if (given === '') return;
  files.value = [];
  // The library's name for a model on a hub; here the reader names the host.
  if (/^[\w-]+\/[\w.-]+$/.test(given)) {
    failure.value = {
      message: `“${given}” names no host. For a model on Hugging Face, enter https://huggingface.co/${given}.`,
    };
    return;
  }
  const folders = foldersOf(given, document.baseURI);
  if (folders) void open(folders);
  else
    failure.value = { message: `“${given}” is not a URL. Enter one such as https://example.org/models/my-encoder/.` };
}

export function openCheckpoint(checkpoint: Checkpoint): void {
  if (progress.value) return;
  url.value = addressOf(checkpoint);
  openUrl();
}

/** Does nothing while another model is being loaded. Pictures go to the model that is open, if it takes them. */
export function openFiles(chosen: LocalFile[]): void {
  if (progress.value) return;
  const images = chosen.map(({ file }) => file).filter(({ type }) => type.startsWith('image/'));
  if (opened.value?.model.config.hasImageEncoder && images.length > 0 && modelFolder(chosen).length === 0)
    return void addPictures(images);
  replace(undefined);
  last = undefined;
  const found = modelFolder(chosen);
  const message = problemOf(chosen, found);
  files.value = message ? [] : found;
  if (message) failure.value = { message };
  else void open([Object.fromEntries(found.map(({ path, file }) => [path, file]))]);
}

/** Checks what can be checked before the files are read. */
function problemOf(chosen: LocalFile[], found: LocalFile[]): string | undefined {
  if (chosen.length === 0)
    return 'The folder is empty. Choose one that contains config.json, tokenizer.json and model.safetensors.';
  if (found.length === 0) {
    const names = chosen.slice(0, 4).map(({ path }) => path);
    return `This is not a model folder: it contains ${names.join(', ')}${chosen.length > 4 ? ' …' : ''}, but no config.json. Choose a folder with the files that a Hugging Face model page lists under “Files”.`;
  }
  const weights = found.filter(({ path }) => path.endsWith('.safetensors'));
  if (weights.length === 0) {
    const others = found.filter(({ path }) => /\.(bin|onnx|h5|gguf|pt)$/.test(path)).map(({ path }) => path);
    return `The folder contains no .safetensors file${others.length ? `, only ${others.join(', ')}` : ''}. heed reads weights in that format, which most models on Hugging Face provide.`;
  }
  const size = weights.reduce((sum, { file }) => sum + file.size, 0);
  if (size > largestWeights)
    return `The weights are ${(size / 1e9).toFixed(1)} GB. A tab can hold about ${largestWeights / 1e9} GB; choose a smaller model of the same family.`;
  return undefined;
}

/** WebAssembly memory is limited to 4 GB, and activations need some of it. */
const largestWeights = 3e9;

/** The files of the outermost folder that has a config.json, with their paths relative to it; the reader may choose a parent folder. */
function modelFolder(chosen: LocalFile[]): LocalFile[] {
  const [config] = chosen
    .filter(({ path }) => /(^|\/)config\.json$/.test(path))
    .sort((a, b) => a.path.length - b.path.length);
  if (!config) return [];
  const folder = config.path.slice(0, -'config.json'.length);
  return chosen
    .filter(({ path }) => path.startsWith(folder))
    .map(({ path, file }) => ({ path: path.slice(folder.length), file }));
}
