/**
 * Unigram language models: split a word into the tokens of the vocabulary with the maximum sum of scores (Kudo 2018,
 * https://arxiv.org/abs/1804.10959).
 */
import { byteToken, utf8 } from './byte-level.js';
import type { Config } from './tokenizer-settings.js';
import { type Piece, requireId, unknownId, type VocabularyModel } from './vocabulary.js';

/** The difference between the minimum score of the vocabulary and that of an unknown character. */
const UNKNOWN_PENALTY = 10;

export function unigram(config: Config): VocabularyModel {
  const vocab = config.vocab as [string, number][];
  const ids = new Map(vocab.map(([token], id) => [token, id]));
  const longest = vocab.reduce((length, [token]) => Math.max(length, token.length), 0);
  const unknownScore = vocab.reduce((least, [, score]) => Math.min(least, score), Infinity) - UNKNOWN_PENALTY;
  const unknown = config.unk_id == null ? null : requireId('model.unk_id', 'unk_id', config.unk_id);

  /** The boundaries of the best split. Adjacent unknown characters form one part. */
  const divide = (word: string): number[] => {
    const scores = new Float64Array(word.length + 1);
    const starts = new Int32Array(word.length + 1).fill(-1);
    const isUnknown = new Uint8Array(word.length + 1);
    const offer = (start: number, end: number, score: number, id: number | null) => {
      const sum = scores[start]! + score;
      if (starts[end]! >= 0 && sum <= scores[end]!) return;
      scores[end] = sum;
      starts[end] = start;
      isUnknown[end] = id === unknown ? 1 : 0;
    };
    for (let start = 0; start < word.length; ) {
      const next = start + (word.codePointAt(start)! > 0xffff ? 2 : 1);
      for (let end = next; end <= Math.min(word.length, start + longest); end++) {
        const id = ids.get(word.slice(start, end));
        if (id !== undefined) offer(start, end, vocab[id]![1], id);
        else if (end === next) offer(start, end, unknownScore, unknown);
      }
      start = next;
    }
    const boundaries = [word.length];
    for (let end = word.length; end > 0; end = starts[end]!) {
      if (isUnknown[end] && isUnknown[starts[end]!] && starts[end]! > 0) continue;
      boundaries.push(starts[end]!);
    }
    return boundaries.reverse();
  };

  /** The byte tokens of a text; null if the vocabulary lacks one of them. */
  const bytesOf = (text: string): [string, number][] | null => {
    const tokens = Array.from(utf8(text), byteToken);
    return tokens.every((token) => ids.has(token)) ? tokens.map((token) => [token, ids.get(token)!]) : null;
  };

  const split = (word: string): Piece[] => {
    const boundaries = divide(word);
    return boundaries.slice(1).flatMap((end, i) => {
      const start = boundaries[i]!;
      const text = word.slice(start, end);
      const id = ids.get(text);
      const bytes = id === undefined && config.byte_fallback === true ? bytesOf(text) : null;
      if (bytes) return bytes.map(([token, byteId]) => ({ id: byteId, text: token, start, end }));
      return [{ id: id ?? unknown ?? unknownId(ids, text), text, start, end }];
    });
  };
  return { ids, split };
}
