/** The words of the reverse dictionary. */
import type { PretrainedModel, TextIndex } from 'heed';
import indexUrl from '../../../web/model/dictionary/index.safetensors?url';
import wordsUrl from '../../../web/model/dictionary/words.txt?url';
import { heed } from './heed';

let dictionary: Promise<TextIndex> | undefined;

/** The words of the reverse dictionary and their vectors, if they are those of the model; loaded once, or again after a failure. */
export function loadDictionary(embedder: PretrainedModel): Promise<TextIndex> {
  const files = {
    'words.txt': new URL(wordsUrl, import.meta.url),
    'index.safetensors': new URL(indexUrl, import.meta.url),
  };
  dictionary ??= heed.peek()!.TextIndex.load(files, { embedder });
  dictionary.catch(() => {
    dictionary = undefined;
  });
  return dictionary;
}
