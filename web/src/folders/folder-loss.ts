/** Compares the vectors of texts between two folders. */
import { invalid } from '../base/error.js';
import type { Runtime } from '../base/owned.js';
import type { SignalLike } from '../base/platform.js';
import type { ModelFolder } from '../io/files.js';
import type { ModelSource } from '../io/source.js';
import { loadPretrained } from '../models/load-pretrained.js';
import { dot } from '../models/quantized.js';

/** The cosine similarity of vectors before and after. */
export interface VectorSimilarity {
  mean: number;
  worst: number;
  /** The text with the worst similarity. */
  text: string;
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
  };
}

/** The cosine of row n of `a` and row n of `b`. */
function cosineOf(a: Float32Array, b: Float32Array, n: number, width: number): number {
  return dot(a, n, b, n, width) / (Math.sqrt(dot(a, n, a, n, width) * dot(b, n, b, n, width)) || 1);
}
