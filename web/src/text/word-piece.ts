/** WordPiece, the model of BERT's tokenizers: the longest tokens of the vocabulary, from the left. */
import type { Config } from './tokenizer-settings.js';
import { idsOf, type Piece, unknownId, type VocabularyModel } from './vocabulary.js';

export function wordPiece(config: Config): VocabularyModel {
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
