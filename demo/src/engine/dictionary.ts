/** Describe a thing, get the word: the 20,000 words that ship with the model, searched by the library. */

import { type PretrainedModel, type TextHit, TextIndex } from 'heed';
import indexUrl from 'heed/model/dictionary/index.safetensors?url';
import wordsUrl from 'heed/model/dictionary/words.txt?url';
import type { HeadMask } from './models';

export interface Definition {
  words: TextHit[];
  searched: number;
  milliseconds: number;
}

const shownWords = 12;

export const loadDictionary = (): Promise<TextIndex> =>
  TextIndex.load({
    'words.txt': new URL(wordsUrl, import.meta.url),
    'index.safetensors': new URL(indexUrl, import.meta.url),
  });

export async function define(
  dictionary: TextIndex,
  model: PretrainedModel,
  description: string,
  headMask: HeadMask,
): Promise<Definition> {
  const start = performance.now();
  const { dimensions } = dictionary;
  const query = await model.embed([description], { dimensions, normalize: true, ...(headMask.length && { headMask }) });
  const words = dictionary.search(query, { topK: shownWords });
  return { words, searched: dictionary.texts.length, milliseconds: performance.now() - start };
}
