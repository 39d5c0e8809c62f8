/** How a model reads a text: what its vocabulary lacks, what is in pieces, what is cut off. Pages say so where it happens. */
import type { PretrainedModel } from 'heed';

export interface Reading {
  /** Parts of the text that became the unknown token. */
  unknown: string[];
  /** Whether nothing else is left of the text. */
  isAllUnknown: boolean;
  /** The words that were divided, with their tokens. */
  divided: { word: string; pieces: string[] }[];
  /** Tokens beyond the model's limit, which are not read. */
  notRead: number;
}

const unknownTokens = ['[UNK]', '<unk>'];
/** Tokens that continue a word, as BERT's vocabulary marks them. */
const continues = (token: string): boolean => token.startsWith('##');

export async function readingOf(model: PretrainedModel, texts: readonly string[]): Promise<Reading[]> {
  const { tokens, offsets, truncated } = await model.tokenize([...texts]);
  return texts.map((text, i) => read(text, tokens[i]!, offsets[i]!, truncated[i]!));
}

function read(text: string, tokens: string[], offsets: [number, number][], notRead: number): Reading {
  const isUnknown = tokens.map((token) => unknownTokens.includes(token));
  const unknown = tokens.flatMap((_, at) => (isUnknown[at] ? [text.slice(...offsets[at]!)] : []));
  // Special tokens have empty offsets.
  const isAllUnknown =
    unknown.length > 0 && tokens.every((_, at) => isUnknown[at] || offsets[at]![0] === offsets[at]![1]);
  const divided: Reading['divided'] = [];
  for (let at = 0; at < tokens.length; at++) {
    if (continues(tokens[at]!) || !continues(tokens[at + 1] ?? '')) continue;
    let end = at + 1;
    while (continues(tokens[end + 1] ?? '')) end++;
    divided.push({ word: text.slice(offsets[at]![0], offsets[end]![1]), pieces: tokens.slice(at, end + 1) });
  }
  return { unknown, isAllUnknown, divided, notRead };
}
