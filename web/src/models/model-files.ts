/** Where a model's folder has its configuration, its tokenizer and its weights: for loading it, and for what reads folders without loading them. */
import { type HeedError, invalid } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import type { ModelFolder, OpenFile } from '../io/files.js';
import { discard } from '../io/list-files.js';
import type { SentenceConfig } from './families/sentence-transformers.js';

/** What the folder of a GLiNER has in place of config.json. */
export const GLINER_CONFIG = 'gliner_config.json';

export interface ModelFiles {
  /** The path before the names of the model's files; empty unless modules.json names a folder of their own. */
  within: string;
  /** config.json, or gliner_config.json. Null only for a StaticEmbedding, which may have none. */
  configFile: OpenFile | null;
  /** tokenizer.json. Null if there is none: the model then takes token ids only. */
  tokenizerFile: OpenFile | null;
}

/**
 * Opens the files that are read before the weights. `readSentence` is called if the folder lacks one of them at its root; null: it cannot be read.
 * @throws HeedError NOT_FOUND if a folder other than that of a StaticEmbedding has no config.json
 */
export async function openModelFiles(
  folder: ModelFolder,
  readSentence: () => Promise<SentenceConfig | null>,
  signal: SignalLike | undefined,
): Promise<ModelFiles> {
  const openIn = async (within: string): Promise<ModelFiles> => {
    const open = (name: string) => folder.open(within + name, { signal });
    const [configFile, tokenizerFile] = await Promise.all([open('config.json'), open('tokenizer.json')]);
    return { within, configFile, tokenizerFile };
  };
  let files = await openIn('');
  if (files.configFile && files.tokenizerFile) return files;
  const sentence = await readSentence();
  if (sentence?.modelFolder) {
    for (const file of [files.configFile, files.tokenizerFile]) if (file) await discard(file);
    files = await openIn(sentence.modelFolder);
  }
  if (!sentence?.isStatic)
    files.configFile ??=
      (await folder.open(files.within + GLINER_CONFIG, { signal })) ??
      (await folder.open(`${files.within}config.json`, { required: true, signal }));
  return files;
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
