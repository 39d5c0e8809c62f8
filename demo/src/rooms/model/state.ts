/** The reader's own model: where it comes from, how far it has loaded, and its views. */
import { effect, signal } from '@preact/signals';
import { proxy } from 'comlink';
import type { LoadProgress } from 'heed';
import { asFailure, engine, type Failure, share } from '../../engine/client';
import type { ModelSource, ModelSummary } from '../../engine/models';
import { choice, text } from '../../state/codecs';
import { urlState } from '../../state/url';
import { followExplorer, makeExplorer } from '../text/state';

export const dtype = urlState<'fp32' | 'q8'>('model', 'dtype', 'fp32', choice('fp32', 'q8'));
/** The folder's URL, where it is one; dropped files cannot be in a link. */
export const url = urlState('model', 'url', '', text);
export const files = signal<{ path: string; file: File }[]>([]);
export const summary = signal<ModelSummary | undefined>(undefined);
export const progress = signal<{ share: number; file: string } | null>(null);
export const failure = signal<(Failure & { download?: string[] }) | null>(null);
let opened: { source: ModelSource; dtype: 'fp32' | 'q8' } | undefined;

export const explorer = makeExplorer(
  'model',
  'own',
  summary,
  [
    'A quick brown fox jumps over the lazy dog.',
    'The fast auburn fox leaps over a sleepy hound.',
    'Interest rates rose again in spring.',
  ].join('\n'),
);

export function followModel(): void {
  followExplorer(explorer, 'model');
  // Other weights are asked for: the same model is read again.
  effect(() => {
    const asked = dtype.value;
    if (progress.value === null && opened && asked !== opened.dtype) void open(opened.source);
  });
}

/** Reads the folder into the worker. What was open stays open if this fails. */
async function open(source: ModelSource): Promise<void> {
  if (progress.value) return;
  opened = { source, dtype: dtype.value };
  failure.value = null;
  progress.value = { share: 0, file: '' };
  let reading = true;
  try {
    // Reports come by a channel of their own: one may arrive after all is over.
    const report = proxy((state: LoadProgress) => {
      if (reading) progress.value = { share: share(state), file: state.file };
    });
    summary.value = await engine.open('own', source, dtype.value, report);
  } catch (reason) {
    const found = asFailure(reason);
    failure.value = found;
    if (found.code === 'NETWORK' && source.kind === 'url' && new URL(source.url).origin !== location.origin)
      failure.value = { ...found, download: needed.map((name) => new URL(name, withSlash(source.url)).href) };
  } finally {
    reading = false;
    progress.value = null;
  }
}

/** What an encoder needs, for those who have to fetch it themselves. */
const needed = ['config.json', 'tokenizer.json', 'model.safetensors'];

const withSlash = (url: string): string => (url.endsWith('/') ? url : `${url}/`);

/** The address of a hub's page about a folder becomes that of the folder's files. */
const asFolder = (url: string): string => url.replace(/\/(?:tree|blob)\/([^/?#]+)\/?$/, '/resolve/$1/');

export function openUrl(): Promise<void> | undefined {
  const asked = url.value.trim();
  if (asked === '') return undefined;
  files.value = [];
  try {
    return open({ kind: 'url', url: new URL(asFolder(asked), document.baseURI).href });
  } catch {
    failure.value = { message: `“${asked}” is no URL. It should look like https://example.org/models/my-encoder/.` };
    return undefined;
  }
}

/** Checks what can be said before anything is read, in words that say what to do. */
export function openFiles(dropped: { path: string; file: File }[]): Promise<void> | undefined {
  files.value = [];
  summary.value = undefined;
  opened = undefined;
  const found = belowConfig(dropped);
  if (!found) {
    const names = dropped.slice(0, 4).map(({ path }) => path);
    failure.value = {
      message:
        dropped.length === 0
          ? 'The folder is empty. Drop one with config.json, tokenizer.json and model.safetensors.'
          : `This is no model folder: it has no config.json (but ${names.join(', ')}${dropped.length > 4 ? ' …' : ''}). Drop the folder that a Hugging Face model page’s “Files” tab shows.`,
    };
    return undefined;
  }
  const weights = found.filter(({ path }) => path.endsWith('.safetensors'));
  const size = weights.reduce((sum, { file }) => sum + file.size, 0);
  if (weights.length === 0) {
    const others = found.filter(({ path }) => /\.(bin|onnx|h5|gguf|pt)$/.test(path)).map(({ path }) => path);
    failure.value = {
      message: `The folder has no .safetensors file${others.length ? `, only ${others.join(', ')}` : ''}. heed reads weights in that format; most models on Hugging Face bring it.`,
    };
    return undefined;
  }
  if (size > largestWeights) {
    failure.value = {
      message: `The weights are ${(size / 1e9).toFixed(1)} GB. A tab can hold about ${largestWeights / 1e9} GB; try a smaller model of the same family.`,
    };
    return undefined;
  }
  files.value = found;
  return open({ kind: 'files', files: found });
}

/** A wasm memory ends at 4 GB, and activations need room beside the weights. */
const largestWeights = 3e9;

/** The files of the folder that holds config.json, by their paths below it: people also drop the folder above. */
function belowConfig(dropped: { path: string; file: File }[]): { path: string; file: File }[] | undefined {
  const configs = dropped
    .filter(({ path }) => /(^|\/)config\.json$/.test(path))
    .sort((a, b) => a.path.length - b.path.length);
  const config = configs[0];
  if (!config) return undefined;
  const folder = config.path.slice(0, -'config.json'.length);
  return dropped
    .filter(({ path }) => path.startsWith(folder))
    .map(({ path, file }) => ({ path: path.slice(folder.length), file }));
}
