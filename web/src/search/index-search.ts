/** How a TextIndex is searched: options, hits, and which texts are compared in full. */
import { invalid } from '../base/error.js';
import { completed, inTurns, makeYield, STEP, type Steps } from '../base/event-loop.js';
import {
  callback,
  finite,
  flag,
  listOf,
  optional,
  type Read,
  type Reader,
  type Schema,
  signal,
  sizeOrInfinity,
  text,
} from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import type { Hit } from '../base/scores.js';
import type { VocabularyCoverage } from '../models/coverage.js';
import { normsOf } from '../models/quantized.js';
import type { IndexState } from './index-model.js';
import type { Matrix } from './pair-products.js';
import { requireFinite } from './rows.js';
import { type SearchOptions, searchSchema } from './similarity.js';
import { dimensionsOf, requireLengths } from './stored-vectors.js';
import { type IndexedText, idOption, type TextFilter, type TextId, type TextRows } from './text-rows.js';
import { type Answer, after } from './vector-store.js';

/** A hit of a search in a `TextIndex`. */
export interface TextHit<Metadata = unknown> extends IndexedText<Metadata> {
  /** The cosine or the dot product; with `hybrid`, the sum over both rankings. */
  score: number;
}

/** The hits of a search for a text, best first. */
export interface TextHits<Metadata = unknown> extends Array<TextHit<Metadata>> {
  /**
   * How well the vocabulary of the index's model covers the query. If many words are unknown or continued, the query may
   * be in a language that the model does not know, and the hits wrong; see docs/embedding.md for limits and their error
   * rates. Not enumerable; absent for an empty query, and if the embedder is a function or its folder has a chat template.
   */
  readonly coverage?: VocabularyCoverage | undefined;
}

/** Options of `TextIndex.search`. */
export interface TextSearchOptions<Metadata = unknown> extends SearchOptions {
  /** The number of hits. Default 10; with `threshold`: all texts that reach it. */
  topK?: number | undefined;
  /** The minimum score of a hit. Default: none. */
  threshold?: number | undefined;
  /** Restricts the search to texts with these ids. */
  ids?: readonly TextId[] | ReadonlySet<TextId> | undefined;
  /** Restricts the search to texts for which this returns true. */
  filter?: TextFilter<Metadata> | undefined;
  /**
   * true: score every text. Default: an index of bits with more than 4096 texts scores only the
   * `candidates * topK` texts nearest by Hamming distance, and, without `threshold`, any index of more than
   * 200,000 texts only the `256 * topK` nearest.
   */
  exact?: boolean | undefined;
  /**
   * true: also find texts by their words, such as names, identifiers and rare words, whose vectors say little. Joins the
   * ranking by vectors with that by words (BM25+) by reciprocal rank fusion. The score of a hit is then
   * the sum of 1 / (10 + rank) over both rankings. For a query that is a text; without `threshold`. Default false.
   */
  hybrid?: boolean | undefined;
  /**
   * For a query that is a text: a text to put before it, instead of the query prompt of the model's folder. '' for none.
   * Rejected for a query that is a vector.
   */
  prompt?: string | undefined;
  /**
   * Stops a search for a text while the model embeds it, and in an index with `worker: true` any search. The search
   * rejects with the signal's reason. Another search for a vector throws it if the signal has fired before.
   */
  signal?: SignalLike | undefined;
}

const ids = listOf(idOption, 'an array or a Set of integers or strings');
const idsOf: Reader<Set<TextId>> = (value, name) => new Set(ids(value instanceof Set ? [...value] : value, name));
export const textSearchSchema = {
  ...searchSchema,
  topK: optional(sizeOrInfinity, null),
  threshold: optional(finite, null),
  ids: optional(idsOf, null),
  filter: callback<TextFilter>,
  exact: optional(flag, false),
  hybrid: optional(flag, false),
  prompt: optional(text, null),
  signal,
} satisfies Schema<TextSearchOptions>;
/**
 * Above this number of texts, a search first selects LARGE_MULTIPLIER candidates per hit. With a million texts, recall
 * equals that of a full scan (docs/search.md).
 */
const LARGE = 200_000;
const LARGE_MULTIPLIER = 256;
/** Up to this number of texts, comparing all is so fast that a selection by signs is not worth the hits that it misses. */
const SMALL = 4096;

/** Options of a search, after checking. */
export type CheckedSearch = Read<typeof textSearchSchema>;

/** @throws HeedError unless a query has the width of the index's vectors */
function requireQueryWidth(state: IndexState, name: string, got: number): void {
  const width = dimensionsOf(state.store);
  if (width === 0 || got === width) return;
  const isWhole = got === state.probe?.document.length;
  throw invalid(name, `${width} entries`, `${got}`, 'SHAPE_MISMATCH', {
    hint: isWhole
      ? `If this is a vector of the index's model, embed it with { dimensions: ${width} }`
      : 'Embed it with the model of the index, in the same way as its texts',
  });
}

/** Searches for several vectors [N,D]. `name`: the argument that has them, for messages. */
export function searchIndex(
  state: IndexState,
  name: string,
  queries: Matrix,
  call: CheckedSearch,
): Answer<TextHit[][]> {
  const { rows, store } = state;
  const hitsOf = (found: Hit[][]) =>
    found.map((hits) => hits.map(({ index, score }) => ({ ...rows.at(index), score })));
  return store.inTurn(() =>
    after(allowedRows(state, call), (allowed) => after(nearestRows(state, name, queries, call, allowed), hitsOf)),
  );
}

/**
 * Finds the rows nearest to several vectors [N,D], in a turn of the store. `allowed`: the rows that may be found; null:
 * all.
 */
export function nearestRows(
  state: IndexState,
  name: string,
  { data, count: queries, width }: Matrix,
  { topK, candidates, threshold, exact, signal: stop }: CheckedSearch,
  allowed: AllowedRows | null,
): Answer<Hit[][]> {
  stop?.throwIfAborted();
  const { rows, store } = state;
  if (queries > 0) requireQueryWidth(state, name, width);
  if (store.count === 0 || queries === 0) return Array.from({ length: queries }, () => []);
  requireFinite(name, data);
  if (store.options.similarity === 'dot') requireLengths(name, normsOf(data, width), 'dot', 'INVALID_ARGUMENT');
  const count = topK ?? (threshold === null ? 10 : rows.size);
  const isLarge = rows.size > LARGE && Number.isFinite(count) && threshold === null;
  const multiplier = exact ? 0 : candidates || (store.bits ? 4 : isLarge ? LARGE_MULTIPLIER : 0);
  const selected = multiplier === 0 ? 0 : count * multiplier; // not Infinity * 0
  // A multiplier that the caller gives applies to small indexes, too, but not to the few texts of a filter.
  const isSmall = (allowed !== null || candidates === 0) && (allowed ?? rows).size <= Math.max(selected, SMALL);
  const search = {
    topK: count,
    threshold: threshold ?? -Infinity,
    candidates: isSmall ? 0 : selected,
    allowed: allowed ? allowed.bits : rows.used,
  };
  return store.search(data, search, stop);
}

/** A bitmap of the rows whose texts may be hits, and their number. */
export interface AllowedRows {
  bits: Uint32Array;
  size: number;
}

/**
 * The rows that the options `ids` and `filter` allow; null: all. In a turn of the store. If the search waits for a worker
 * anyway, yields to the event loop between calls of `filter`.
 */
export function allowedRows({ rows, store }: IndexState, call: CheckedSearch): Answer<AllowedRows | null> {
  const steps = allowedInSteps(rows, call);
  return store.isRemote ? inTurns(steps, makeYield(call.signal)) : completed(steps);
}

function* allowedInSteps(rows: TextRows, { ids: wanted, filter }: CheckedSearch): Steps<AllowedRows | null> {
  if (!wanted && !filter) return null;
  const bits = new Uint32Array(Math.ceil(rows.count / 32));
  let size = 0;
  let seen = 0;
  for (const row of wanted ? rowsOf(rows, wanted) : (rows.usedRows() ?? Array(rows.count).keys())) {
    if (++seen % STEP === 0) yield null;
    if (filter && !filter(rows.at(row))) continue;
    bits[row >> 5]! |= 1 << (row & 31);
    size++;
  }
  return { bits, size };
}

/** The rows of the texts that have one of these ids, in ascending order. */
const rowsOf = (rows: TextRows, ids: Set<TextId>) =>
  Uint32Array.from(Array.from(ids, (id) => rows.rowOf(id)).filter((row) => row >= 0)).sort();
