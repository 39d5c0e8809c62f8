/** Where a folder has its configuration and its weights, for what reads folders without loading them. As in load.ts. */
import { type HeedError, invalid } from '../error.js';
import type { ModelFolder, OpenFile } from '../io/files.js';
import { discard } from '../io/list-files.js';
import type { SignalLike } from '../platform.js';
import type { SentenceConfig } from './sentence-transformers.js';

/**
 * config.json, whether there is a tokenizer, and the path before the names of the model's files, if modules.json names a folder of their own. Only a StaticEmbedding may have no
 * config.json (null). `readSentence` is called if the root lacks one of the files.
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
  const { modelFolder: within, isStatic } = (await readSentence()) ?? { modelFolder: '', isStatic: false };
  if (configFile && !within) return { configFile, hasTokenizer, within };
  const path = `${within}config.json`;
  return {
    configFile: await (isStatic ? folder.open(path, { signal }) : folder.open(path, { required: true, signal })),
    hasTokenizer: within ? await peek(folder, `${within}tokenizer.json`, signal) : hasTokenizer,
    within,
  };
}

/** Whether there is such a file, which is not read. */
export async function peek(folder: ModelFolder, path: string, signal: SignalLike | undefined): Promise<boolean> {
  const file = await folder.open(path, { signal });
  if (file) await discard(file);
  return file !== null;
}

/** The error for folders whose files modules.json places elsewhere. */
export function notAtRoot(argument: string): HeedError {
  const expected = 'a folder with config.json and with its weights and its tokenizer at its root';
  return invalid(argument, expected, 'one without these', 'UNSUPPORTED');
}
