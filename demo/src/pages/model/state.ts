/** The reader's own model: its source, the progress of loading it, and its views. */
import { effect, signal } from '@preact/signals';
import type { ModelSource } from 'heed';
import { asFailure, type Failure, inTurn, type OpenModel, openModel, share } from '../../engine/heed';
import { choice, text } from '../../state/codecs';
import { urlState } from '../../state/url';
import { followExplorer, makeExplorer } from '../text/state';
import type { LocalFile } from './drop';

export const dtype = urlState<'fp32' | 'q8'>('model', 'dtype', 'fp32', choice('fp32', 'q8'));
/** The URL of the model folder. Local files cannot be part of a link. */
export const url = urlState('model', 'url', '', text);
export const files = signal<LocalFile[]>([]);
export const opened = signal<OpenModel | undefined>(undefined);
export const progress = signal<{ share: number; file: string } | null>(null);
export const failure = signal<(Failure & { download?: string[] }) | null>(null);
/** What was opened last. */
let last: { source: ModelSource; dtype: 'fp32' | 'q8' } | undefined;

export const explorer = makeExplorer(
  'model',
  'own',
  opened,
  [
    'A quick brown fox jumps over the lazy dog.',
    'The fast auburn fox leaps over a sleepy hound.',
    'Interest rates rose again in spring.',
  ].join('\n'),
);

export function followModel(): void {
  followExplorer(explorer, 'model');
  effect(() => {
    const chosen = dtype.value;
    if (progress.value === null && last && chosen !== last.dtype) void open(last.source);
  });
}

/** Loads a model. If that fails, the previous model stays open. */
async function open(source: ModelSource): Promise<void> {
  if (progress.value) return;
  last = { source, dtype: dtype.value };
  failure.value = null;
  progress.value = { share: 0, file: '' };
  try {
    const next = await openModel(source, {
      dtype: dtype.value,
      onProgress: (state) => {
        progress.value = { share: share(state), file: state.file };
      },
    });
    replace(next);
  } catch (reason) {
    const found = asFailure(reason);
    const blocked =
      found.code === 'NETWORK' && typeof source === 'string' && new URL(source).origin !== location.origin;
    failure.value = blocked
      ? { ...found, download: required.map((name) => new URL(name, source.replace(/\/?$/, '/')).href) }
      : found;
  } finally {
    progress.value = null;
  }
}

function replace(next: OpenModel | undefined): void {
  const previous = opened.value?.model;
  opened.value = next;
  // After the calls that have already been queued.
  void inTurn(async () => previous?.dispose());
}

/** The files that an encoder needs. */
const required = ['config.json', 'tokenizer.json', 'model.safetensors'];

/** Turns the address of a folder's page on a model hub into that of its files. */
const filesOf = (url: string): string => url.replace(/\/(?:tree|blob)\/([^/?#]+)\/?$/, '/resolve/$1/');

export function openUrl(): void {
  const given = url.value.trim();
  if (given === '') return;
  files.value = [];
  if (URL.canParse(given, document.baseURI)) void open(new URL(filesOf(given), document.baseURI).href);
  else
    failure.value = { message: `“${given}” is not a URL. Enter one such as https://example.org/models/my-encoder/.` };
}

export function openFiles(chosen: LocalFile[]): void {
  replace(undefined);
  last = undefined;
  const found = modelFolder(chosen);
  const message = problemOf(chosen, found);
  files.value = message ? [] : found;
  if (message) failure.value = { message };
  else void open(Object.fromEntries(found.map(({ path, file }) => [path, file])));
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
