/**
 * Correlation of embeddings' similarities with reference scores, as in sentence-transformers'
 * EmbeddingSimilarityEvaluator.
 */
import { describe, guarded, invalid } from '../base/error.js';
import { finite, lengthOf, listOf, oneOf, optional, readOptions, type Schema, signal, text } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import { type ModelConfig, type PretrainedModel, requireModel } from '../models/index.js';

/** Correlations of two lists of numbers, from -1 to 1; NaN if all numbers of a list are equal, as in SciPy. */
export interface Correlations {
  /** Pearson's correlation of the numbers. */
  pearson: number;
  /** Spearman's correlation: Pearson's correlation of the numbers' ranks. Ties get their mean rank. */
  spearman: number;
}

const numbers = listOf(finite, 'an array of numbers');

/**
 * Computes Pearson's and Spearman's correlation of similarities with reference scores.
 *
 * @example
 * const { pearson, spearman } = embeddingSimilarityMetrics([0.1, 0.5, 0.9], [1, 4, 5]);
 * [pearson, spearman]; // [0.961, 1]
 * @throws HeedError SHAPE_MISMATCH for lists of different lengths; INVALID_ARGUMENT for fewer than two numbers, NaN or
 *   infinities
 */
export function embeddingSimilarityMetrics(similarities: readonly number[], scores: readonly number[]): Correlations {
  const [x, y] = [numbers(similarities, 'similarities'), numbers(scores, 'scores')];
  if (x.length !== y.length)
    throw invalid('scores', `${x.length} numbers, one per similarity`, `${y.length}`, 'SHAPE_MISMATCH');
  if (x.length < 2) throw invalid('similarities', 'at least two numbers', `${x.length}`);
  return { pearson: correlation(x, y), spearman: correlation(ranksOf(x), ranksOf(y)) };
}

function correlation(x: readonly number[], y: readonly number[]): number {
  const centered = (values: readonly number[]) => {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    return values.map((value) => value - mean);
  };
  const [a, b] = [centered(x), centered(y)];
  const product = (u: readonly number[], v: readonly number[]) => u.reduce((sum, value, i) => sum + value * v[i]!, 0);
  return product(a, b) / Math.sqrt(product(a, a) * product(b, b));
}

/** The rank of each value, from 1. Ties get their mean rank. */
function ranksOf(values: readonly number[]): number[] {
  const order = values.map((_, i) => i).sort((a, b) => values[a]! - values[b]!);
  const ranks = new Array<number>(values.length);
  for (let first = 0; first < order.length; ) {
    let end = first + 1;
    while (end < order.length && values[order[end]!] === values[order[first]!]) end++;
    for (const i of order.slice(first, end)) ranks[i] = (first + 1 + end) / 2;
    first = end;
  }
  return ranks;
}

/** Two texts and their reference similarity, in any scale. */
export interface SimilarityExample {
  /** A text. */
  readonly a: string;
  /** Another text. */
  readonly b: string;
  /** How similar they are, on any scale. */
  readonly score: number;
}

/** Options of `evaluateEmbeddingSimilarity`. */
export interface SimilarityOptions {
  /** Similarity of two vectors; distances are negated. Default: the model's `config.similarity`, else 'cosine'. */
  similarity?: 'cosine' | 'dot' | 'euclidean' | 'manhattan' | undefined;
  /** Aborts the call, which then rejects with the signal's reason. */
  signal?: SignalLike | undefined;
}

const MEASURES = {
  cosine: (a: Float32Array, b: Float32Array) => dot(a, b) / (Math.sqrt(dot(a, a) * dot(b, b)) || 1),
  dot,
  euclidean: (a: Float32Array, b: Float32Array) => -Math.sqrt(a.reduce((sum, v, i) => sum + (v - b[i]!) ** 2, 0)),
  manhattan: (a: Float32Array, b: Float32Array) => -a.reduce((sum, v, i) => sum + Math.abs(v - b[i]!), 0),
};

function dot(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, v, i) => sum + v * b[i]!, 0);
}

const schema = {
  similarity: optional(oneOf(Object.keys(MEASURES) as (keyof typeof MEASURES)[]), null),
  signal,
} satisfies Schema<SimilarityOptions>;

/**
 * Embeds pairs of texts and correlates the similarities of their vectors with the pairs' scores, as in the STS
 * benchmarks.
 *
 * @example
 * const pairs = [{ a: 'a cat', b: 'a kitten', score: 5 }, { a: 'a cat', b: 'a dog', score: 3 }, { a: 'a cat', b: 'a car', score: 0 }];
 * const { spearman } = await evaluateEmbeddingSimilarity(model, pairs);
 * @throws HeedError INVALID_ARGUMENT for examples without texts or scores, and for fewer than two examples
 */
export async function evaluateEmbeddingSimilarity(
  model: Pick<PretrainedModel, 'embed'> & { config?: Pick<ModelConfig, 'similarity'> | undefined },
  examples: readonly SimilarityExample[],
  options?: SimilarityOptions,
): Promise<Correlations & { count: number }> {
  const name = 'evaluateEmbeddingSimilarity';
  const read = readOptions(name, schema, options);
  requireModel(name, model, 'embed');
  const rows = guarded('examples', () => {
    if (!Array.isArray(examples)) throw invalid('examples', '[{ a, b, score }, ...]', describe(examples));
    return Array.from({ length: lengthOf(examples, 'examples') }, (_, i) => {
      const { a, b, score } = (examples[i] ?? {}) as SimilarityExample;
      const at = `examples[${i}]`;
      return { a: text(a, `${at}.a`), b: text(b, `${at}.b`), score: finite(score, `${at}.score`) };
    });
  });
  if (rows.length < 2) throw invalid('examples', 'at least two', `${rows.length}`);
  const texts = [...new Set(rows.flatMap(({ a, b }) => [a, b]))];
  const { data, shape } = await model.embed(texts, read.signal ? { signal: read.signal } : {});
  const width = shape[1]!;
  const places = new Map(texts.map((each, i) => [each, i * width]));
  const vector = (of: string) => data.subarray(places.get(of)!, places.get(of)! + width);
  const measure = MEASURES[read.similarity ?? model.config?.similarity ?? 'cosine'];
  const similarities = rows.map(({ a, b }) => measure(vector(a), vector(b)));
  const scores = rows.map(({ score }) => score);
  return { count: rows.length, ...embeddingSimilarityMetrics(similarities, scores) };
}
