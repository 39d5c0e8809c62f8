/**
 * Locates a model's configuration, tokenizer and weights in its folder, for loading it and for reading it without
 * loading.
 */
import { type HeedError, invalid } from '../base/error.js';
import type { SignalLike } from '../base/platform.js';
import { discard, type ModelFolder, type OpenFile } from '../io/files.js';
import type { SentenceConfig } from './families/sentence-config.js';
import { isStaticIn } from './families/steps.js';
import { ADAPTER, withOtherFiles } from './families/weight-files.js';

/** The file that replaces config.json in a GLiNER's folder. */
export const GLINER_CONFIG = 'gliner_config.json';

export interface ModelFiles {
  /** The path of the subfolder with the model's files, if modules.json names one; otherwise empty. */
  within: string;
  /** config.json or gliner_config.json. Null only for a StaticEmbedding, which may have neither. */
  configFile: OpenFile | null;
  /** tokenizer.json. Null if absent: the model then accepts only token ids. */
  tokenizerFile: OpenFile | null;
}

/**
 * Opens the files that are read before the weights. `readSentence` is called if one of them is missing at the root; it
 * returns null if its file cannot be read. `isRoute`: whether only the folder that it names counts.
 * @throws HeedError NOT_FOUND if config.json is missing, except for a StaticEmbedding
 */
export async function openModelFiles(
  folder: ModelFolder,
  readSentence: () => Promise<SentenceConfig | null>,
  signal: SignalLike | undefined,
  isRoute: () => Promise<boolean> = async () => false,
): Promise<ModelFiles> {
  const openIn = async (within: string): Promise<ModelFiles> => {
    const open = (name: string) => folder.open(within + name, { signal });
    const [configFile, tokenizerFile] = await Promise.all([open('config.json'), open('tokenizer.json')]);
    return { within, configFile, tokenizerFile };
  };
  let files = await openIn('');
  // Asked after the files at the root have been requested, because the answer takes requests, too.
  if (files.configFile && files.tokenizerFile && !(await isRoute())) return files;
  const sentence = await readSentence();
  if (sentence?.modelFolder) {
    for (const file of [files.configFile, files.tokenizerFile]) if (file) await discard(file);
    files = await openIn(sentence.modelFolder);
  }
  if (!isStaticIn(sentence))
    files.configFile ??=
      (await folder.open(files.within + GLINER_CONFIG, { signal })) ??
      (await folder.open(`${files.within}config.json`, { required: true, signal }).catch(async (error) => {
        throw await withOtherFiles(error, folder, files.within, ADAPTER);
      }));
  return files;
}

/** Whether a file exists; does not read it. */
export async function peek(folder: ModelFolder, path: string, signal: SignalLike | undefined): Promise<boolean> {
  const file = await folder.open(path, { signal });
  if (file) await discard(file);
  return file !== null;
}

/** Makes the error for a folder without the files `missing`, which modules.json may place in the folder `within`. */
export function notAtRoot(argument: string, missing: readonly string[], within = ''): HeedError {
  const expected = 'a folder with config.json, weights and tokenizer at its root';
  const elsewhere = within ? `, as modules.json says that the model is in '${within}'` : '';
  return invalid(argument, expected, `a folder without ${missing.join(' and ')}${elsewhere}`, 'UNSUPPORTED');
}
