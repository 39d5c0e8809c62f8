/**
 * Finds similar pairs of vectors: paraphrases, duplicates, negatives for training. Follows sentence-transformers'
 * `util`.
 */
import { describe, guarded, invalid } from '../base/error.js';
import {
  count,
  finite,
  integer,
  oneOf,
  optional,
  type Reader,
  readOptions,
  type Schema,
  seed,
  size,
  sizeOrInfinity,
} from '../base/options.js';
import { generator } from '../base/random.js';
import type { Hit } from '../base/scores.js';
import {
  type Corpus,
  eachPair,
  eachUnorderedPair,
  Largest,
  largest,
  type Matrix,
  type ProductOptions,
  productSchema,
  readUnitRows,
  requireWidth,
} from '../search/index.js';

export interface ParaphraseOptions extends ProductOptions {
  /** A pair is considered only if one of its vectors is among the `topK` nearest to the other. Default 100. */
  topK?: number | undefined;
  /** Maximum number of returned pairs. Default 500,000. */
  maxPairs?: number | undefined;
  /** Minimum cosine of a pair. Default: no minimum. */
  threshold?: number | undefined;
}

/** Two rows i < j and their cosine (`score`). */
export interface Paraphrase {
  /** The cosine. */
  score: number;
  /** The row of the first vector. */
  i: number;
  /** The row of the second one, larger than `i`. */
  j: number;
}

const paraphraseSchema = {
  ...productSchema,
  topK: optional(sizeOrInfinity, 100),
  maxPairs: optional(sizeOrInfinity, 500_000),
  threshold: optional(finite, Number.NEGATIVE_INFINITY),
} satisfies Schema<ParaphraseOptions>;

/**
 * Compares all vectors [N,D] with each other and returns the pairs with the largest cosines, best first. Ties are
 * ordered by row index. Takes O(N²) time.
 *
 * @example
 * const [best] = await paraphraseMining([[1, 0], [0, 1], [0.8, 0.6]]);
 * [best.i, best.j, best.score]; // [0, 2, 0.8]
 * @throws HeedError INVALID_ARGUMENT for NaN or infinities
 */
export async function paraphraseMining(vectors: Corpus, options?: ParaphraseOptions): Promise<Paraphrase[]> {
  const read = readOptions('paraphraseMining', paraphraseSchema, options);
  const { topK, maxPairs } = read;
  const rows = readUnitRows('vectors', vectors);
  const least = Math.fround(read.threshold);
  const nearest = Array.from({ length: rows.count }, () => largest(topK));
  await eachUnorderedPair(rows, read, (i, j, score) => {
    if (!(score >= least)) return;
    if (score > nearest[i]!.least) nearest[i]!.push({ index: j, score });
    if (score > nearest[j]!.least) nearest[j]!.push({ index: i, score });
  });
  const found = nearest.map((hits) => hits.sorted());
  /** Whether row i is among the nearest rows found for row j; `score` is their cosine. */
  const isNearest = (i: number, j: number, score: number) => {
    const last = found[j]!.length < topK ? undefined : found[j]![topK - 1]!;
    return !last || score > last.score || (score === last.score && i <= last.index);
  };
  const pairs = new Largest<Paraphrase>(maxPairs, (a, b) => a.i - b.i || a.j - b.j);
  for (const [row, hits] of found.entries())
    for (const { index, score } of hits) {
      const [i, j] = [Math.min(row, index), Math.max(row, index)];
      // Add each pair once: from row i, or from row j if i's list does not contain j.
      if (row === i || !isNearest(row, index, score)) pairs.push({ score, i, j });
    }
  return pairs.sorted();
}

export interface DeduplicateOptions extends ProductOptions {
  /** Minimum cosine of two vectors that count as duplicates. Default 0.95. */
  threshold?: number | undefined;
}

/** What `deduplicate` returns. */
export interface Deduplicated {
  /** Indices of the rows that are kept, ascending. */
  kept: number[];
  /** The dropped rows: `index`, with the nearest row kept before it (`of`) and their cosine (`score`). */
  duplicates: { index: number; of: number; score: number }[];
}

const deduplicateSchema = { ...productSchema, threshold: optional(finite, 0.95) } satisfies Schema<DeduplicateOptions>;
/** Rows per step: compared with the rows kept before and with each other. */
const STEP = 512;

/**
 * Removes near-duplicates from vectors [N,D], such as those of boilerplate in crawled pages: drops each vector whose
 * cosine with an earlier kept vector is at least `threshold`.
 *
 * @example
 * const { kept } = await deduplicate([[1, 0], [0.99, 0.01], [0, 1]]);
 * kept; // [0, 2]
 * @throws HeedError INVALID_ARGUMENT for NaN or infinities
 */
export async function deduplicate(vectors: Corpus, options?: DeduplicateOptions): Promise<Deduplicated> {
  const { onProgress, ...read } = readOptions('deduplicate', deduplicateSchema, options);
  const rows = readUnitRows('vectors', vectors);
  const { width } = rows;
  const least = Math.fround(read.threshold);
  const kept: number[] = [];
  const duplicates: Deduplicated['duplicates'] = [];
  // Kept rows are moved to the front of the copy made by readUnitRows.
  const matrix = (first: number, count: number): Matrix => ({
    data: rows.data.subarray(first * width, (first + count) * width),
    count,
    width,
  });
  for (let first = 0; first < rows.count; first += STEP) {
    const block = matrix(first, Math.min(STEP, rows.count - first));
    const nearest = Array.from({ length: block.count }, () => ({ of: -1, score: Number.NEGATIVE_INFINITY }));
    const note = (n: number, of: number, score: number) => {
      if (score > nearest[n]!.score) nearest[n] = { of, score };
    };
    await eachPair(block, matrix(0, kept.length), read, (n, m, score) => note(n, kept[m]!, score));
    const inner = new Float32Array(block.count ** 2);
    await eachPair(block, block, read, (n, m, score) => {
      inner[n * block.count + m] = score;
    });
    const before = kept.length;
    for (let n = 0; n < block.count; n++) {
      for (const of of kept.slice(before)) note(n, of, inner[n * block.count + of - first]!);
      if (nearest[n]!.score >= least) duplicates.push({ index: first + n, ...nearest[n]! });
      else kept.push(first + n);
    }
    for (let m = before; m < kept.length; m++)
      rows.data.copyWithin(m * width, kept[m]! * width, (kept[m]! + 1) * width);
    onProgress?.({ done: first + block.count, total: rows.count });
  }
  return { kept, duplicates };
}

export interface HardNegativesOptions extends ProductOptions {
  /** For each anchor, the corpus row or rows that are its positives. Default: row n for anchor n. */
  positives?: readonly (number | readonly number[])[] | undefined;
  /** Maximum number of negatives per anchor. Default 3. */
  numNegatives?: number | undefined;
  /**
   * Number of nearest candidates to skip, after the conditions on scores, because they may be unlabeled positives.
   * Default 0.
   */
  rangeMin?: number | undefined;
  /**
   * Number of nearest rows, excluding positives, that are candidates. Default: `rangeMin + numNegatives`, or, if one of
   * the four conditions on scores is given, `rangeMin + 10 * numNegatives`.
   */
  rangeMax?: number | undefined;
  /** Maximum cosine of a candidate with the anchor. Default: no maximum. */
  maxScore?: number | undefined;
  /** Minimum cosine of a candidate with the anchor. Default: no minimum. */
  minScore?: number | undefined;
  /**
   * Candidates must satisfy cosine <= p - `absoluteMargin`, where p is the smallest cosine of the anchor with its
   * positives.
   */
  absoluteMargin?: number | undefined;
  /**
   * Candidates must satisfy cosine <= p * (1 - `relativeMargin`), where p is the smallest cosine of the anchor with its
   * positives. With 0.05, a negative is at most 95 % as similar as the positive.
   */
  relativeMargin?: number | undefined;
  /** 'top': takes the nearest candidates; 'random': takes a random sample of them. Default 'top'. */
  samplingStrategy?: 'top' | 'random' | undefined;
  /** Seed for `samplingStrategy: 'random'`. Default: random. */
  seed?: number | undefined;
}

const negativesSchema = {
  ...productSchema,
  positives: optional<unknown, null>((value) => value, null),
  numNegatives: optional(size, 3),
  rangeMin: optional(count, 0),
  rangeMax: optional(size, null),
  maxScore: optional(finite, null),
  minScore: optional(finite, null),
  absoluteMargin: optional(finite, null),
  relativeMargin: optional(finite, null),
  samplingStrategy: optional(oneOf(['top', 'random']), 'top' as const),
  seed,
} satisfies Schema<HardNegativesOptions>;

/**
 * Mines hard negatives for training: for each anchor [N,D], rows of the corpus [M,D] that are similar to it but not its
 * positives, nearest first. Returns fewer than `numNegatives` rows if fewer satisfy the conditions. Remove duplicate
 * texts from the corpus first (`deduplicate`), because a copy of a positive would be its hardest negative.
 *
 * @example
 * const [negatives] = await mineHardNegatives([[1, 0]], [[1, 0.1], [0.8, 0.6], [0, 1]], { numNegatives: 1 });
 * negatives[0].index; // 1
 * @throws HeedError SHAPE_MISMATCH if the widths differ, or the numbers of anchors and positives; INVALID_ARGUMENT for
 *   positives outside the corpus, NaN or infinities
 */
export async function mineHardNegatives(
  anchors: Corpus,
  corpus: Corpus,
  options?: HardNegativesOptions,
): Promise<Hit[][]> {
  const name = 'mineHardNegatives';
  const read = readOptions(name, negativesSchema, options);
  const { numNegatives, rangeMin, maxScore, minScore, absoluteMargin, relativeMargin } = read;
  const [queries, rows] = [readUnitRows('anchors', anchors), readUnitRows('corpus', corpus)];
  requireWidth('corpus', rows, queries.width);
  const positives = readPositives(`${name}.positives`, read.positives, queries.count, rows.count);
  const isLimited = [maxScore, minScore, absoluteMargin, relativeMargin].some((limit) => limit !== null);
  const rangeMax = read.rangeMax ?? rangeMin + numNegatives * (isLimited ? 10 : 1);
  if (rangeMax <= rangeMin) throw invalid(`${name}.rangeMax`, `more than rangeMin, ${rangeMin}`, `${rangeMax}`);
  const nearest = Array.from({ length: queries.count }, () => largest(rangeMax));
  /** The smallest score of each anchor with its positives. */
  const scores = new Float64Array(queries.count).fill(Number.POSITIVE_INFINITY);
  await eachPair(queries, rows, read, (n, index, score) => {
    if (positives[n]!.has(index)) scores[n] = Math.min(scores[n]!, score);
    else if (score > nearest[n]!.least) nearest[n]!.push({ index, score });
  });
  const random = generator(read.seed, 0);
  return nearest.map((hits, n) => {
    const most = Math.min(
      maxScore ?? Number.POSITIVE_INFINITY,
      absoluteMargin === null ? Number.POSITIVE_INFINITY : scores[n]! - absoluteMargin,
      relativeMargin === null ? Number.POSITIVE_INFINITY : scores[n]! * (1 - relativeMargin),
    );
    const fitting = hits.sorted().filter(({ score }) => score <= most && score >= (minScore ?? -Infinity));
    const candidates = fitting.slice(rangeMin);
    return read.samplingStrategy === 'random'
      ? sampled(candidates, numNegatives, random)
      : candidates.slice(0, numNegatives);
  });
}

/** `count` of the candidates, in order: those that are left if random ones are removed, one after another. */
function sampled<T>(candidates: readonly T[], count: number, random: () => number): T[] {
  const { length } = candidates;
  // A Fenwick tree: entry i has the number of candidates that are left among the (i & -i) ones that end with the i-th.
  const tree = Int32Array.from({ length: length + 1 }, (_, i) => i & -i);
  const isLeft = new Uint8Array(length).fill(1);
  for (let left = length; left > count; left--) {
    // The place among those that are left. The loop finds its index among all, and removes it from the tree.
    let place = Math.floor((random() / 2 ** 32) * left);
    let index = 0;
    for (let step = 2 ** Math.floor(Math.log2(length)); step >= 1; step /= 2) {
      const node = index + step;
      if (node > length) continue;
      if (tree[node]! <= place) {
        place -= tree[node]!;
        index = node;
      } else tree[node]!--;
    }
    isLeft[index] = 0;
  }
  return candidates.filter((_, i) => isLeft[i]);
}

/** Reads the positives of each anchor. */
function readPositives(name: string, given: unknown, anchors: number, rows: number): Set<number>[] {
  const row: Reader<number> = (value, at) => integer(value, at, 0, rows - 1);
  return guarded(name, () => {
    if (given !== null && !Array.isArray(given))
      throw invalid(name, 'an array with an entry for each anchor', describe(given));
    const list = (given as unknown[] | null) ?? Array.from({ length: anchors }, (_, n) => n);
    if (list.length !== anchors)
      throw invalid(name, `${anchors} entries, one for each anchor`, `${list.length}`, 'SHAPE_MISMATCH');
    if (given === null && rows < anchors)
      throw invalid('corpus', `at least ${anchors} rows, the positives of the anchors`, `${rows}`, 'SHAPE_MISMATCH', {
        hint: 'Or say with `positives` which rows they are',
      });
    return list.map((entry, n) => {
      const several: unknown[] = Array.isArray(entry) ? entry : [entry];
      if (several.length === 0) throw invalid(`${name}[${n}]`, 'at least one row of the corpus', 'none');
      return new Set(several.map((one) => row(one, `${name}[${n}]`)));
    });
  });
}
