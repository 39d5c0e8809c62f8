/** A word in two sentences: what goes into the encoder, what its heads attend to, and what comes out. The first page shows it; demo/measure.mjs measures its examples. */
import type { PretrainedModel } from 'heed';

export const headKinds = ['others', 'previous', 'next', 'itself'] as const;
export type HeadKind = (typeof headKinds)[number];

/** The head that does something most, of all heads. Layers and heads are counted from 0. */
export interface DescribedHead {
  kind: HeadKind;
  layer: number;
  head: number;
  /** The part of the weight that does so, on average over the measured sentences. */
  share: number;
}

/** A word in a sentence. */
export interface Occurrence {
  sentence: string;
  tokens: string[];
  /** The index of the word among them. */
  at: number;
  /** The word's row of weights in each described head that the model has. */
  rows: Partial<Record<HeadKind, number[]>>;
  /** The first entries of its vector before the first layer and after the last that the model has. */
  input: number[];
  output: number[];
  /** [layers][heads][tokens]: the word's row of weights in all heads. Left out of what is built in. */
  all?: number[][][];
}

export interface SenseView {
  word: string;
  pair: [Occurrence, Occurrence];
  /** The cosine of the two vectors of the word: before the first layer, then after each that the model has. */
  cosines: number[];
  /** The cosine of the sentences' vectors. */
  similarity: number;
}

/** Entries of a vector that are drawn. */
export const shownEntries = 48;

const special = (token: string): boolean => /^(\[(CLS|SEP|PAD|MASK|UNK)\]|<.*>)$/.test(token);
export const isWord = (token: string): boolean => !special(token) && /\p{L}|\p{N}/u.test(token);

const rounded = (value: number): number => Math.round(1000 * value) / 1000;

export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [dot, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    dot += a[i]! * b[i]!;
    aa += a[i]! * a[i]!;
    bb += b[i]! * b[i]!;
  }
  return dot / Math.sqrt(aa * bb);
}

/** The words that both token lists have, in the order of the first. */
export const sharedWords = (a: readonly string[], b: readonly string[]): string[] => [
  ...new Set(a.filter((token) => isWord(token) && b.includes(token))),
];

async function encoded(model: PretrainedModel, sentence: string) {
  const { tokens, attentions, hiddenStates } = await model.encode([sentence], {
    outputAttentions: true,
    outputHiddenStates: true,
  });
  const names = tokens[0]!;
  const length = names.length;
  const row = (layer: number, head: number, from: number): number[] => {
    const start = (head * length + from) * length;
    return Array.from(attentions![layer]!.data.subarray(start, start + length));
  };
  const states = (at: number) =>
    hiddenStates!.map(({ data, shape }) => data.subarray(at * shape[2]!, (at + 1) * shape[2]!));
  return { sentence, names, row, states };
}

/**
 * The word in both sentences, or, if it is not in both, the longest that is; null if they have none in common.
 */
export async function viewSense(
  model: PretrainedModel,
  sentences: readonly [string, string],
  wanted: string,
  heads: readonly DescribedHead[],
): Promise<SenseView | { tokens: [string[], string[]] }> {
  const both = [await encoded(model, sentences[0]), await encoded(model, sentences[1])] as const;
  const shared = sharedWords(both[0].names, both[1].names);
  const word = shared.includes(wanted) ? wanted : [...shared].sort((a, b) => b.length - a.length)[0];
  if (word === undefined) return { tokens: [both[0].names, both[1].names] };
  const { numLayers, numHeads } = model.config;
  const states = both.map(({ names, states }) => states(names.indexOf(word)));
  const occurrence = (i: 0 | 1): Occurrence => {
    const { sentence, names, row } = both[i];
    const at = names.indexOf(word);
    const rows = Object.fromEntries(
      heads
        .filter(({ layer }) => layer < numLayers)
        .map(({ kind, layer, head }) => [kind, row(layer, head, at).map(rounded)]),
    ) as Occurrence['rows'];
    const entries = (layer: number) => Array.from(states[i]!.at(layer)!.subarray(0, shownEntries), rounded);
    const all = Array.from({ length: numLayers }, (_, layer) =>
      Array.from({ length: numHeads }, (_, head) => row(layer, head, at)),
    );
    return { sentence, tokens: names, at, rows, input: entries(0), output: entries(-1), all };
  };
  const { data, shape } = await model.embed([...sentences]);
  return {
    word,
    pair: [occurrence(0), occurrence(1)],
    cosines: states[0]!.map((vector, layer) => rounded(cosine(vector, states[1]![layer]!))),
    similarity: rounded(cosine(data.subarray(0, shape[1]!), data.subarray(shape[1]!))),
  };
}

/**
 * Finds four heads among all heads of the model: those that give most weight to words that are not next to the query, to the previous token, to the next
 * token, and to the query itself. The weight is the mean over all words of the sentences.
 */
export async function describeHeads(
  model: PretrainedModel,
  examples: readonly { sentence: string; word: string }[],
): Promise<DescribedHead[]> {
  const { numLayers, numHeads } = model.config;
  const places = Array.from({ length: numLayers }, (_, layer) =>
    Array.from({ length: numHeads }, (_, head) => ({ layer, head })),
  ).flat();
  const sums = places.map(() => ({ others: 0, previous: 0, next: 0, itself: 0 }));
  const counts = { others: 0, previous: 0, next: 0, itself: 0 };
  for (const { sentence, word } of examples) {
    const { names, row } = await encoded(model, sentence);
    for (const [at, token] of names.entries()) {
      if (!isWord(token)) continue;
      const hasPrevious = isWord(names[at - 1] ?? '');
      const hasNext = isWord(names[at + 1] ?? '');
      counts.itself++;
      counts.previous += Number(hasPrevious);
      counts.next += Number(hasNext);
      counts.others += Number(token === word);
      for (const [i, { layer, head }] of places.entries()) {
        const weights = row(layer, head, at);
        const sum = sums[i]!;
        sum.itself += weights[at]!;
        if (hasPrevious) sum.previous += weights[at - 1]!;
        if (hasNext) sum.next += weights[at + 1]!;
        if (token === word)
          sum.others += weights.reduce(
            (all, weight, to) => all + (Math.abs(to - at) > 1 && isWord(names[to]!) ? weight : 0),
            0,
          );
      }
    }
  }
  return headKinds.map((kind) => {
    const best = sums.reduce((most, sum, i) => (sum[kind] > sums[most]![kind] ? i : most), 0);
    return { kind, ...places[best]!, share: rounded(sums[best]![kind] / counts[kind]) };
  });
}
