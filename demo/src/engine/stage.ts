/**
 * A sentence on its way through a model: the attention weights of every layer, each token's vector after every layer, and the dictionary's words that are
 * nearest to it. The first page shows them; demo/measure.mjs measures its examples.
 */
import type { PretrainedModel, TextIndex } from 'heed';
import { offered } from '../../../examples/support/answers.mjs';
import { attentionRow, cosine, type DescribedHead, type HeadKind } from './senses';

/** Attention weights as [query][key] of one sentence. */
export type Weights = readonly (readonly number[])[];

export interface Trace {
  sentence: string;
  tokens: readonly string[];
  /** The layers whose attention is switched off, counted from 1. */
  off: readonly number[];
  /** For each layer that the model has, the mean over its heads. */
  means: readonly Weights[];
  /** The described heads in layers that the model has. */
  heads: Partial<Record<HeadKind, Weights>>;
  /** For each layer and each of its heads; left out of what is built in. */
  all?: Weights[][];
  /** For each token, its vector before the first layer and after each; left out of what is built in. */
  states?: Float32Array[][];
}

/** The edit that switches off the attention of a layer, counted from 1: its output is not added. */
export const withoutAttention = (layer: number) => ({ site: `layers.${layer - 1}.attention`, scale: 0 });

export async function trace(
  model: PretrainedModel,
  sentence: string,
  off: readonly number[],
  described: readonly DescribedHead[],
): Promise<Trace> {
  const { numLayers, numHeads } = model.config;
  const edit = off.filter((layer) => layer <= numLayers).map(withoutAttention);
  const { tokens, attentions, hiddenStates } = await model.encode([sentence], {
    outputAttentions: true,
    outputHiddenStates: true,
    ...(edit.length > 0 && { edit }),
  });
  const names = tokens[0]!;
  const all = Array.from({ length: numLayers }, (_, layer) =>
    Array.from(
      { length: numHeads },
      (_, head): Weights => names.map((_, from) => attentionRow(attentions!, layer, head, from)),
    ),
  );
  const width = model.config.embedDim;
  return {
    sentence,
    tokens: names,
    off: [...off],
    means: all.map(meanOf),
    heads: Object.fromEntries(
      described.flatMap(({ kind, layer, head }) => (layer < numLayers ? [[kind, all[layer]![head]!]] : [])),
    ),
    all,
    states: names.map((_, at) => hiddenStates!.map(({ data }) => data.slice(at * width, (at + 1) * width))),
  };
}

const meanOf = (heads: readonly Weights[]): Weights =>
  heads[0]!.map((row, from) =>
    row.map((_, to) => heads.reduce((sum, head) => sum + head[from]![to]!, 0) / heads.length),
  );

/** Words that are shown beside a layer. */
const wordsPerLayer = 3;
/** Words of the dictionary that are compared for each vector: those that its index finds nearest. */
const candidates = 100;

/** The vectors of words, each computed once. */
export type WordVectors = Map<string, Float32Array>;

/**
 * For each of a token's vectors, the nearest words: among the candidates that the dictionary's index selects, those whose own vectors, as the model gives them for the
 * word alone, have the largest cosine. (The index has vectors of words with their definitions, which answer descriptions.) Words that contain the token, or are part of it, are left out.
 */
export async function nearest(
  model: PretrainedModel,
  dictionary: TextIndex,
  known: WordVectors,
  token: string,
  vectors: readonly Float32Array[],
): Promise<string[][]> {
  const plain = token.replace(/^##/, '');
  const isOffered = (word: string) =>
    offered(word) &&
    word !== plain &&
    !(plain.length > 2 && word.includes(plain)) &&
    !(word.length > 2 && plain.includes(word));
  const found = vectors.map((vector) =>
    dictionary
      .search(vector, { topK: candidates })
      .map(({ text }) => text)
      .filter(isOffered),
  );
  const missing = [...new Set(found.flat())].filter((word) => !known.has(word));
  if (missing.length > 0) {
    const { data, shape } = await model.embed(missing, { normalize: true });
    const width = shape[1]!;
    for (const [i, word] of missing.entries()) known.set(word, data.slice(i * width, (i + 1) * width));
  }
  return vectors.map((vector, i) =>
    found[i]!.map((word) => ({ word, near: cosine(known.get(word)!, vector) }))
      .sort((a, b) => b.near - a.near)
      .slice(0, wordsPerLayer)
      .map(({ word }) => word),
  );
}
