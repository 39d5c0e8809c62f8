/** The words of the reverse dictionary. */
import { TextIndex } from 'heed';
import indexUrl from 'heed/model/dictionary/index.safetensors?url';
import wordsUrl from 'heed/model/dictionary/words.txt?url';

let dictionary: Promise<TextIndex> | undefined;

/** The words of the reverse dictionary and their vectors; loaded once, or again after a failure. */
export function loadDictionary(): Promise<TextIndex> {
  dictionary ??= TextIndex.load({
    'words.txt': new URL(wordsUrl, import.meta.url),
    'index.safetensors': new URL(indexUrl, import.meta.url),
  });
  dictionary.catch(() => {
    dictionary = undefined;
  });
  return dictionary;
}
