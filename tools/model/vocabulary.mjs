// Chooses the entries of the vocabulary that the bundled model keeps.
import { loadTokenizer } from 'heed';
import { wordFrequencies, wordnet } from './sources.mjs';

/** Entries that are kept however rare they are. They can spell every Latin text, and wordfreq does not tell numbers apart. */
const ALWAYS = [
  /^(##)?[!-~]$/, // ASCII characters
  /^(##)?[a-z]{2,3}$/,
  /^(##)?\d{2}$/,
  /^(1\d|20)\d\d$/, // years
  /^[1-9]\d*0+$/, // round numbers
  /^\d+(st|nd|rd|th|s)$/,
];

/** The weight of WordNet's glosses, relative to texts of all kinds. */
const GLOSSES = 0.5;

/**
 * The entries of a WordPiece vocabulary to keep: those above and the most frequent others, `count` in all.
 * @returns {Promise<string[]>}
 */
export async function commonTokens(folder, vocabulary, count) {
  const tokenizer = await loadTokenizer(folder);
  const tokensOf = (text) => tokenizer.tokenize(text, { addSpecialTokens: false, truncation: false }).tokens[0];
  const counted = (texts) => {
    const counts = new Map();
    let total = 0;
    for (const [text, weight] of texts)
      for (const token of tokensOf(text)) {
        counts.set(token, (counts.get(token) ?? 0) + weight);
        total += weight;
      }
    return { counts, total };
  };
  const use = counted(await wordFrequencies());
  const glosses = counted((await wordnet()).map(({ gloss, examples }) => [[gloss, ...examples].join(' '), 1]));
  const shareOf = ({ counts, total }, token) => (counts.get(token) ?? 0) / total;
  const rank = (token) => shareOf(use, token) + GLOSSES * shareOf(glosses, token);
  const special = vocabulary.filter((token) => /^\[.+\]$/.test(token) && !token.startsWith('[unused'));
  const always = vocabulary.filter((token) => ALWAYS.some((pattern) => pattern.test(token)));
  const kept = new Set([...special, ...always]);
  const others = vocabulary.filter((token) => !kept.has(token)).map((token) => ({ token, share: rank(token) }));
  others.sort((a, b) => b.share - a.share);
  return [...kept, ...others.slice(0, count - kept.size).map(({ token }) => token)];
}
