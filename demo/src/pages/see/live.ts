/** What the first page computes with the model; the built-in examples do without it. */
import type { PretrainedModel } from 'heed';
import { loadDictionary } from '../../engine/dictionary';
import { inTurn } from '../../engine/heed';
import { type Reading, readingOf } from '../../engine/reading';
import { cosine, type DescribedHead } from '../../engine/senses';
import { nearest, type Trace, trace, type WordVectors, withoutAttention } from '../../engine/stage';

export const traceAll = (
  model: PretrainedModel,
  texts: readonly string[],
  off: readonly number[],
  described: readonly DescribedHead[],
): Promise<{ found: Trace[]; milliseconds: number }> =>
  inTurn(async () => {
    const found: Trace[] = [];
    const start = performance.now();
    for (const text of texts) found.push(await trace(model, text, off, described));
    return { found, milliseconds: performance.now() - start };
  });

export const read = (
  model: PretrainedModel,
  texts: readonly string[],
): Promise<{ readings: Reading[]; similarity: number }> =>
  inTurn(async () => {
    const readings = await readingOf(model, texts);
    const { data, shape } = await model.embed([...texts]);
    return { readings, similarity: cosine(data.subarray(0, shape[1]!), data.subarray(shape[1]!)) };
  });

const known: WordVectors = new Map();

export async function wordsOf(
  model: PretrainedModel,
  token: string,
  vectors: readonly Float32Array[],
): Promise<string[][]> {
  const dictionary = await loadDictionary(model);
  return inTurn(() => nearest(model, dictionary, known, token, vectors));
}

/** The queries, keys and values of a sentence in a head, for “Compute”. */
export async function vectorsOf(
  model: PretrainedModel,
  { layer, head }: { layer: number; head: number },
  sentence: string,
  off: readonly number[],
) {
  const sites = ['queries', 'keys', 'values'].map((name) => `layers.${layer}.${name}`);
  const edit = off.map(withoutAttention);
  const { activations } = await inTurn(() =>
    model.encode([sentence], { read: sites, ...(edit.length > 0 && { edit }) }),
  );
  const [queries, keys, values] = sites.map((site) => (activations![site]!.toArray() as number[][][][])[0]![head]!) as [
    number[][],
    number[][],
    number[][],
  ];
  return { queries, keys, values };
}
