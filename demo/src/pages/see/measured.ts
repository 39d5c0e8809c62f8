/**
 * What is known of the examples before the model has loaded, in the short form in which demo/measure.mjs writes it: texts of words, and
 * weights as one character per percent.
 */
import { type HeadKind, isWord } from '../../engine/senses';
import type { Trace, Weights } from '../../engine/stage';

/** A sentence of an example. */
export interface Measured {
  sentence: string;
  /** Separated by spaces. */
  tokens: string;
  /** For each token, the words nearest to it, layer by layer, `a b c|d e f|`: an empty part is that of the layer before. Empty if they are not shown. */
  words: string[];
  /** Those of the example's word with attention switched off in all layers. */
  without: string;
  /** For each layer, the mean weights of its heads, the rows of the words only; not for a control, whose weights are not drawn. */
  means?: string[];
  heads?: Partial<Record<HeadKind, string>>;
}

/** The character of 0 %. */
const zero = 40;

/** `isShown`: which rows are written. */
export const writeWeights = (weights: Weights, isShown: readonly boolean[]): string =>
  weights
    .filter((_, from) => isShown[from])
    .map((row) => row.map((weight) => String.fromCharCode(zero + Math.round(100 * weight))).join(''))
    .join('');

/** Rows that were not written are empty. */
function readWeights(text: string, isShown: readonly boolean[]): number[][] {
  const { length } = isShown;
  let written = 0;
  return isShown.map((is) => {
    if (!is) return [];
    const start = length * written++;
    return Array.from(text.slice(start, start + length), (one) => (one.charCodeAt(0) - zero) / 100);
  });
}

export const writeWords = (layers: readonly (readonly string[])[]): string => {
  const parts = layers.map((words) => words.join(' '));
  return parts.map((part, i) => (i > 0 && part === parts[i - 1] ? '' : part)).join('|');
};

export function readWords(text: string): string[][] | undefined {
  if (text === '') return undefined;
  const layers: string[][] = [];
  for (const part of text.split('|')) layers.push(part === '' ? layers.at(-1)! : part.split(' '));
  return layers;
}

/** The sentence as the model computed it. */
export function readTrace({ sentence, tokens, means = [], heads = {} }: Measured): Trace {
  const names = tokens.split(' ');
  const read = (text: string) => readWeights(text, names.map(isWord));
  return {
    sentence,
    tokens: names,
    off: [],
    means: means.map(read),
    heads: Object.fromEntries(Object.entries(heads).map(([kind, text]) => [kind, read(text)])),
  };
}
