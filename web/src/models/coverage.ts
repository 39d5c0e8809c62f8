/** How well the vocabulary of a model covers texts. */
import type { TokenizeResult } from './model.js';

/** How well a vocabulary covers a text. Shares are numbers from 0 to 1, and 0 for a text without words. */
export interface VocabularyCoverage {
  /** The number of words: runs of letters. An ideogram is a word of its own. */
  words: number;
  /** The share of words with the unknown token, or without any. They mean nothing to the model. */
  unknown: number;
  /** The share of words that consist of several tokens, all of them known: the proportion of continued words. */
  continued: number;
  /** The mean number of tokens per word: the fertility of the tokenizer. */
  fertility: number;
}

const WORDS = /\p{Ideographic}|(?:(?!\p{Ideographic})[\p{L}\p{M}])+/gu;

/** The unknown tokens of the tokenizers of Hugging Face's classes. */
const UNKNOWN = new Set(['[UNK]', '<unk>', '<UNK>', 'UNK']);

/**
 * How well the vocabulary covers each text, from the text's tokens. null for a text with words whose tokens have no
 * ranges in it, because a chat template has put it into a message.
 */
export async function coverageOf(
  texts: readonly string[],
  found: Pick<TokenizeResult, 'tokens' | 'offsets' | 'parts'>,
  pause: () => Promise<void>,
): Promise<(VocabularyCoverage | null)[]> {
  const all: (VocabularyCoverage | null)[] = [];
  for (const [n, text] of texts.entries()) {
    const tokens = found.tokens[n]!;
    const own = tokens.flatMap((token, i) => {
      const [start, end] = found.offsets[n]![i]!;
      return found.parts[n]![i] === 0 ? [{ token, start, end }] : [];
    });
    const isMessage = own.length === 0 && tokens.length > 0 && text.search(WORDS) >= 0;
    all.push(isMessage ? null : await coverageOfText(text, own, pause));
  }
  return all;
}

/** `tokens`: those of the text, in its order, with their ranges [start, end) in it. */
async function coverageOfText(
  text: string,
  tokens: { token: string; start: number; end: number }[],
  pause: () => Promise<void>,
): Promise<VocabularyCoverage> {
  const found = { words: 0, unknown: 0, continued: 0, tokens: 0 };
  let first = 0;
  for (const { 0: word, index: start } of text.matchAll(WORDS)) {
    while (first < tokens.length && tokens[first]!.end <= start) first++;
    let count = 0;
    let isUnknown = false;
    for (let i = first; i < tokens.length && tokens[i]!.start < start + word.length; i++) {
      count++;
      isUnknown ||= UNKNOWN.has(tokens[i]!.token);
    }
    found.words++;
    found.tokens += count;
    // Static embeddings leave unknown tokens out.
    if (isUnknown || count === 0) found.unknown++;
    else if (count > 1) found.continued++;
    if (found.words % 1000 === 0) await pause();
  }
  const share = (part: number) => (found.words === 0 ? 0 : part / found.words);
  return {
    words: found.words,
    unknown: share(found.unknown),
    continued: share(found.continued),
    fertility: share(found.tokens),
  };
}
