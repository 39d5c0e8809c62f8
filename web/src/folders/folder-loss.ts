/** Compares the vectors of texts between two folders. */
import { invalid } from '../base/error.js';
import type { Runtime } from '../base/owned.js';
import type { SignalLike } from '../base/platform.js';
import { best } from '../base/scores.js';
import type { ModelFolder } from '../io/files.js';
import type { ModelSource } from '../io/source.js';
import { loadPretrained } from '../loading/load-pretrained.js';
import { dot } from '../models/quantized.js';

/** The cosine similarity of vectors before and after. */
export interface VectorSimilarity {
  /** The mean cosine. */
  mean: number;
  /** The smallest cosine. */
  worst: number;
  /** The text with the worst similarity. */
  text: string;
  /**
   * What retrieval keeps: the mean share of a text's 10 nearest texts that are still among its 10 nearest. null for
   * fewer than 30 texts; for more than 200, 200 of them are the queries.
   */
  neighbours: number | null;
}

/** Embeds texts. `owner`: the name of the call, for messages. `folder`: the source's folder, if it is already open. */
export async function embedded(
  owner: string,
  runtime: Runtime,
  source: ModelSource,
  dtype: 'fp32' | 'q8',
  texts: readonly string[],
  signal: SignalLike | undefined,
  folder?: ModelFolder,
) {
  const model = await loadPretrained(runtime, source, { dtype, signal }, folder);
  try {
    if (!model.config.hasTokenizer)
      throw invalid(`${owner}.texts`, 'no texts for a folder without tokenizer.json', `${texts.length}`, 'UNSUPPORTED');
    return await model.embed(texts, { signal });
  } finally {
    model.dispose();
  }
}

/** The number of nearest texts that are compared, and of texts whose nearest ones are. */
const [NEIGHBOURS, QUERIES] = [10, 200];

export type Vectors = Awaited<ReturnType<typeof embedded>>;

/** The cosine similarity of the texts' vectors before and after. */
export function lossOf(texts: readonly string[], before: Vectors, after: Vectors): VectorSimilarity {
  const width = before.shape[1]!;
  const cosines = texts.map((_, n) => cosineOf(before.data, after.data, n, width));
  const worst = cosines.reduce((least, cosine, n) => (cosine < cosines[least]! ? n : least), 0);
  return {
    mean: cosines.reduce((sum, cosine) => sum + cosine, 0) / cosines.length,
    worst: cosines[worst]!,
    text: texts[worst]!,
    neighbours: texts.length < 30 ? null : sharedNeighbours(before, after),
  };
}

/** The mean share of a vector's nearest vectors before that are among its nearest ones after. */
function sharedNeighbours(before: Vectors, after: Vectors): number {
  const count = before.shape[0]!;
  const queries = Math.min(count, QUERIES);
  let shared = 0;
  for (let i = 0; i < queries; i++) {
    const n = Math.floor((i * count) / queries);
    const others = new Set(nearest(after, n));
    shared += nearest(before, n).filter((other) => others.has(other)).length;
  }
  return shared / (queries * NEIGHBOURS);
}

/** The vectors with the largest cosines to vector n. */
function nearest({ data, shape }: Vectors, n: number): number[] {
  const [count, width] = shape as [number, number];
  const similarity = (i: number) => dot(data, n, data, i, width) / Math.sqrt(dot(data, i, data, i, width) || 1);
  const similarities = Float64Array.from({ length: count }, (_, i) => (i === n ? -Infinity : similarity(i)));
  return best(similarities, NEIGHBOURS).map(({ index }) => index);
}

/** The cosine of row n of `a` and row n of `b`. */
function cosineOf(a: Float32Array, b: Float32Array, n: number, width: number): number {
  return dot(a, n, b, n, width) / (Math.sqrt(dot(a, n, a, n, width) * dot(b, n, b, n, width)) || 1);
}
