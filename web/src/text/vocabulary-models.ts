/**
 * The models of tokenizer.json, which split words into tokens of a vocabulary, with the same results as the Rust
 * library `tokenizers`.
 */
import { bytePairs } from './byte-pairs.js';
import { type Config, unsupported } from './tokenizer-settings.js';
import { unigram } from './unigram.js';
import { idsOf, typeOf, unknownId, type VocabularyModel } from './vocabulary.js';
import { wordPiece } from './word-piece.js';

/** @throws HeedError UNSUPPORTED for an unknown type */
export function modelOf(config: Config): VocabularyModel {
  switch (config.type ?? typeOf(config)) {
    case 'WordPiece':
      return wordPiece(config);
    case 'WordLevel':
      return wordLevel(config);
    case 'BPE':
      return bytePairs(config);
    case 'Unigram':
      return unigram(config);
    default:
      throw unsupported('model', 'a WordPiece, BPE, Unigram or WordLevel model', config.type);
  }
}

function wordLevel(config: Config): VocabularyModel {
  const ids = idsOf(config);
  const split = (word: string) => {
    const id = ids.get(word);
    const token =
      id === undefined ? { id: unknownId(ids, config.unk_token), text: String(config.unk_token) } : { id, text: word };
    return [{ ...token, start: 0, end: word.length }];
  };
  return { ids, split };
}
