/** Pairs of vectors that are near each other: paraphrases, duplicates, negatives for training. Follows sentence-transformers' `util`. */
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
  largestHits,
  type Matrix,
  type ProductOptions,
  productSchema,
  readUnitRows,
  requireSameWidth,
} from '../search/index.js';

export interface ParaphraseOptions extends ProductOptions {
  /** A pair is returned if one of the two is among this many that are nearest to the other. Default 100. */
  topK?: number;
  /** The largest number of pairs. Default 500,000. */
  maxPairs?: number;
  /** The least cosine of a pair. Default: none. */
  threshold?: number;
}

/** Rows i < j and their cosine. */
export interface Paraphrase {
  score: number;
  i: number;
  j: number;
}

const paraphraseSchema = {
  ...productSchema,
  topK: optional(sizeOrInfinity, 100),
  maxPairs: optional(sizeOrInfinity, 500_000),
  threshold: optional(finite, Number.NEGATIVE_INFINITY),
} satisfies Schema<ParaphraseOptions>;

/**
 * Compares all vectors [N,D] with each other and returns the pairs with the largest cosines, best first; of equal ones, the first rows come first. Takes time in N².
 *
 * @example
 * const [best] = await paraphraseMining([[1, 0], [0, 1], [0.8, 0.6]]);
 * [best.i, best.j, best.score]; // [0, 2, 0.8]
 * @throws HeedError INVALID_ARGUMENT for NaN and infinities
 */
export async function paraphraseMining(vectors: Corpus, options?: ParaphraseOptions): Promise<Paraphrase[]> {
  const read = readOptions('paraphraseMining', paraphraseSchema, options);
  const { topK, maxPairs } = read;
  const rows = readUnitRows('vectors', vectors);
  const least = Math.fround(read.threshold);
  const nearest = largestHits(rows.count, topK);
  await eachUnorderedPair(rows, read, (i, j, score) => {
    if (!(score >= least)) return;
    if (score > nearest[i]!.least) nearest[i]!.push({ index: j, score });
    if (score > nearest[j]!.least) nearest[j]!.push({ index: i, score });
  });
  const found = nearest.map((hits) => hits.sorted());
  /** Whether row i is among the nearest of row j, with which it has this score. */
  const isNearest = (i: number, j: number, score: number) => {
    const last = found[j]!.length < topK ? undefined : found[j]![topK - 1]!;
    return !last || score > last.score || (score === last.score && i <= last.index);
  };
  const pairs = new Largest<Paraphrase>(maxPairs, (a, b) => a.i - b.i || a.j - b.j);
  for (const [row, hits] of found.entries())
    for (const { index, score } of hits) {
      const [i, j] = [Math.min(row, index), Math.max(row, index)];
      // Once, for the first of the two that has it.
      if (row === i || !isNearest(row, index, score)) pairs.push({ score, i, j });
    }
  return pairs.sorted();
}

export interface DeduplicateOptions extends ProductOptions {
  /** The least cosine of two vectors one of which is dropped. Default 0.95. */
  threshold?: number;
}

export interface Deduplicated {
  /** The rows without those that are near an earlier one, ascending. */
  kept: number[];
  /** The other rows, each with the nearest of those that are kept before it. */
  duplicates: { index: number; of: number; score: number }[];
}

const deduplicateSchema = { ...productSchema, threshold: optional(finite, 0.95) } satisfies Schema<DeduplicateOptions>;
/** Rows that are compared with those kept before, and with each other, at a time. */
const STEP = 512;

/**
 * Drops each of the vectors [N,D] whose cosine with one that is kept before it is at least `threshold`: near copies of texts, such as those that crawled pages share.
 *
 * @example
 * const { kept } = await deduplicate([[1, 0], [0.99, 0.01], [0, 1]]);
 * kept; // [0, 2]
 * @throws HeedError INVALID_ARGUMENT for NaN and infinities
 */
export async function deduplicate(vectors: Corpus, options?: DeduplicateOptions): Promise<Deduplicated> {
  const { onProgress, ...read } = readOptions('deduplicate', deduplicateSchema, options);
  const rows = readUnitRows('vectors', vectors);
  const { width } = rows;
  const least = Math.fround(read.threshold);
  const kept: number[] = [];
  const duplicates: Deduplicated['duplicates'] = [];
  // The kept rows move to the front of the copy that readUnitRows has made.
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
  /** For each anchor, the row or rows of the corpus that are its positives. Default: row n for anchor n. */
  positives?: readonly (number | readonly number[])[];
  /** The largest number of negatives of an anchor. Default 3. */
  numNegatives?: number;
  /** How many of the nearest candidates that are left are skipped, as they may be positives that nobody has marked. Default 0. */
  rangeMin?: number;
  /** How many of the nearest rows, without the positives, are candidates. Default: `rangeMin` + `numNegatives`, or + 10 `numNegatives` with a condition on scores. */
  rangeMax?: number;
  /** Candidates with larger cosines are left out. */
  maxScore?: number;
  /** Candidates with smaller cosines are left out. */
  minScore?: number;
  /** Candidates are left out whose cosine exceeds that of the positive (of several, the least) minus this. */
  absoluteMargin?: number;
  /** Candidates are left out whose cosine exceeds that of the positive times 1 minus this. 0.05: the negative is at most 95 % as similar as the positive. */
  relativeMargin?: number;
  /** 'top' (default): the nearest of the candidates; 'random': some of them. */
  samplingStrategy?: 'top' | 'random';
  /** Of 'random'. Default: chosen at random. */
  seed?: number;
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
 * Finds negatives to train with: for each anchor [N,D], rows of the corpus [M,D] that are near it and are not its positives, the nearest first; fewer than `numNegatives` where conditions leave
 * fewer. Remove copies of texts from the corpus first (`deduplicate`): a copy of a positive is its nearest negative.
 *
 * @example
 * const [negatives] = await mineHardNegatives([[1, 0]], [[1, 0.1], [0.8, 0.6], [0, 1]], { numNegatives: 1 });
 * negatives[0].index; // 1
 * @throws HeedError SHAPE_MISMATCH for other widths or numbers of positives; INVALID_ARGUMENT for rows that are not in the corpus, NaN and infinities
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
  requireSameWidth('corpus', rows, queries.width);
  const positives = readPositives(`${name}.positives`, read.positives, queries.count, rows.count);
  const isLimited = [maxScore, minScore, absoluteMargin, relativeMargin].some((limit) => limit !== null);
  const rangeMax = read.rangeMax ?? rangeMin + numNegatives * (isLimited ? 10 : 1);
  if (rangeMax <= rangeMin) throw invalid(`${name}.rangeMax`, `more than rangeMin, ${rangeMin}`, `${rangeMax}`);
  const nearest = largestHits(queries.count, rangeMax);
  /** Of an anchor's positives, the least score. */
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
    if (read.samplingStrategy === 'random')
      while (candidates.length > numNegatives)
        candidates.splice(Math.floor((random() / 2 ** 32) * candidates.length), 1);
    return candidates.slice(0, numNegatives);
  });
}

/** The positives of each anchor. */
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
