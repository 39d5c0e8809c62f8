/**
 * The models of tokenizer.json, which split words into tokens of a vocabulary, with the same results as the Rust
 * library `tokenizers`.
 */
import { bytePairs } from './byte-pairs.js';
import { type Config, unsupported } from './tokenizer-settings.js';
import { unigram } from './unigram.js';
import { idsOf, type Piece, unknownId, type VocabularyModel } from './vocabulary.js';

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

/** Infers the type of a model in a file of an old version, which does not name it. */
function typeOf({ vocab, merges, max_input_chars_per_word: limit, continuing_subword_prefix: prefix }: Config): string {
  if (Array.isArray(vocab)) return 'Unigram';
  if (merges) return 'BPE';
  return limit === undefined && prefix === undefined ? 'WordLevel' : 'WordPiece';
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

function wordPiece(config: Config): VocabularyModel {
  const ids = idsOf(config);
  const {
    continuing_subword_prefix: prefix = '##',
    max_input_chars_per_word: limit = 100,
    unk_token: unknown,
  } = config;
  let longest = 0;
  for (const token of ids.keys()) longest = Math.max(longest, token.length);
  const unknownWord = (word: string) => [
    { id: unknownId(ids, unknown), text: String(unknown), start: 0, end: word.length },
  ];
  const split = (word: string) => {
    if (word.length > (limit as number) && [...word].length > (limit as number)) return unknownWord(word);
    const pieces: Piece[] = [];
    for (let start = 0; start < word.length; ) {
      let end = Math.min(word.length, start + longest);
      for (; end > start; end--) {
        const text = start > 0 ? prefix + word.slice(start, end) : word.slice(start, end);
        const id = ids.get(text);
        if (id === undefined) continue;
        pieces.push({ id, text, start, end });
        break;
      }
      if (end === start) return unknownWord(word);
      start = end;
    }
    return pieces;
  };
  return { ids, split };
}
