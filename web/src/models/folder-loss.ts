/** How the vectors of texts differ between two folders. */
import { invalid } from '../error.js';
import type { ModelSource } from '../io/source.js';
import type { Runtime } from '../owned.js';
import type { SignalLike } from '../platform.js';
import { loadPretrained } from './pretrained.js';

/** Cosine similarity of vectors before and after. */
export interface Loss {
  mean: number;
  worst: number;
  /** The text with the worst. */
  text: string;
}

/** The vectors of texts. `owner`: the call, for messages. */
export async function embedded(
  owner: string,
  runtime: Runtime,
  source: ModelSource,
  dtype: 'fp32' | 'q8',
  texts: readonly string[],
  signal: SignalLike | undefined,
) {
  const model = await loadPretrained(runtime, source, { dtype, signal });
  try {
    if (!model.config.hasTokenizer)
      throw invalid(`${owner}.texts`, 'none for a folder without tokenizer.json', `${texts.length}`, 'UNSUPPORTED');
    return await model.embed(texts, { signal });
  } finally {
    model.dispose();
  }
}

export type Vectors = Awaited<ReturnType<typeof embedded>>;

/** The cosines of the vectors of texts before and after. */
export function lossOf(texts: readonly string[], before: Vectors, after: Vectors): Loss {
  const width = before.shape[1]!;
  const cosines = texts.map((_, n) => cosineOf(before.data, after.data, n * width, width));
  const worst = cosines.reduce((least, cosine, n) => (cosine < cosines[least]! ? n : least), 0);
  return {
    mean: cosines.reduce((sum, cosine) => sum + cosine, 0) / cosines.length,
    worst: cosines[worst]!,
    text: texts[worst]!,
  };
}

/** Of the `width` entries from `at` on; own code, as that of similarity() would have to be a chunk of its own. */
function cosineOf(a: Float32Array, b: Float32Array, at: number, width: number): number {
  let [product, aa, bb] = [0, 0, 0];
  for (let i = at; i < at + width; i++) {
    product += a[i]! * b[i]!;
    aa += a[i]! ** 2;
    bb += b[i]! ** 2;
  }
  return product / (Math.sqrt(aa * bb) || 1);
}
