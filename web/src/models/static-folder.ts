/** Where a folder has its configuration and its weights, for what reads folders without loading them. */
import { type HeedError, invalid } from '../error.js';
import type { ModelFolder, OpenFile } from '../io/files.js';
import { discard } from '../io/list-files.js';
import type { SignalLike } from '../platform.js';
import type { SentenceConfig } from './sentence-transformers.js';

/**
 * config.json, whether there is a tokenizer, and the path before the names of the tokenizer and of the weights. Only a StaticEmbedding of sentence-transformers may have no config.json (null), and its files in a
 * folder of their own. `readSentence` is called if the root lacks one of its files.
 * @throws HeedError NOT_FOUND if other folders have no config.json
 */
export async function openConfig(
  folder: ModelFolder,
  readSentence: () => Promise<SentenceConfig | null>,
  signal: SignalLike | undefined,
): Promise<{ configFile: OpenFile | null; hasTokenizer: boolean; within: string }> {
  const configFile = await folder.open('config.json', { signal });
  const hasTokenizer = await peek(folder, 'tokenizer.json', signal);
  if (configFile && hasTokenizer) return { configFile, hasTokenizer, within: '' };
  const within = (await readSentence())?.staticFolder ?? null;
  if (!configFile && within === null) await folder.open('config.json', { required: true, signal });
  if (!within) return { configFile, hasTokenizer, within: '' };
  return { configFile, hasTokenizer: await peek(folder, `${within}tokenizer.json`, signal), within };
}

/** Whether there is such a file, which is not read. */
export async function peek(folder: ModelFolder, path: string, signal: SignalLike | undefined): Promise<boolean> {
  const file = await folder.open(path, { signal });
  if (file) await discard(file);
  return file !== null;
}

/** The error for a StaticEmbedding whose files are not where those of an encoder are. */
export function notAtRoot(argument: string): HeedError {
  const expected = 'a folder with config.json and with its weights and its tokenizer at its root';
  return invalid(argument, expected, "a StaticEmbedding's", 'UNSUPPORTED');
}
