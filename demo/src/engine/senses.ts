/** Which of a model's heads do what most, and what counts as a word. */
import type { PretrainedModel, Tensor } from 'heed';

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

const special = (token: string): boolean => /^(\[(CLS|SEP|PAD|MASK|UNK)\]|<.*>)$/.test(token);
export const isWord = (token: string): boolean => !special(token) && /\p{L}|\p{N}/u.test(token);

export const rounded = (value: number): number => Math.round(1000 * value) / 1000;

export function cosine(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let [dot, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    dot += a[i]! * b[i]!;
    aa += a[i]! * a[i]!;
    bb += b[i]! * b[i]!;
  }
  return dot / Math.sqrt(aa * bb);
}

/** The weights of a query, from the attention weights of one sentence: layers of [1, heads, length, length]. */
export function attentionRow(attentions: readonly Tensor[], layer: number, head: number, from: number): number[] {
  const { data, shape } = attentions[layer]!;
  const length = shape.at(-1)!;
  const start = (head * length + from) * length;
  return Array.from(data.subarray(start, start + length));
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
    const { tokens, attentions } = await model.encode([sentence], { outputAttentions: true });
    const names = tokens[0]!;
    for (const [at, token] of names.entries()) {
      if (!isWord(token)) continue;
      const hasPrevious = isWord(names[at - 1] ?? '');
      const hasNext = isWord(names[at + 1] ?? '');
      counts.itself++;
      counts.previous += Number(hasPrevious);
      counts.next += Number(hasNext);
      counts.others += Number(token === word);
      for (const [i, { layer, head }] of places.entries()) {
        const weights = attentionRow(attentions!, layer, head, at);
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
