/** How a TextIndex is searched: options, hits, and which texts are compared in full. */
import { invalid } from '../base/error.js';
import {
  callback,
  finite,
  flag,
  listOf,
  natural,
  optional,
  type Read,
  type Reader,
  readOptions,
  type Schema,
  signal,
  sizeOrInfinity,
  text,
} from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import { normsOf } from '../models/quantized.js';
import type { IndexState } from './index-model.js';
import { requireFinite, type SearchOptions, searchSchema } from './similarity.js';
import type { IndexedText, TextRows } from './text-rows.js';
import { dimensionsOf, requireLengths } from './vector-store.js';

export interface TextHit extends IndexedText {
  score: number;
}

export interface TextSearchOptions extends SearchOptions {
  /** The number of hits. Default 10; with `threshold`: all texts that reach it. */
  topK?: number | undefined;
  /** The minimum score of a hit. Default: none. */
  threshold?: number | undefined;
  /** Restricts the search to texts with these ids. */
  ids?: readonly number[] | ReadonlySet<number> | undefined;
  /** Restricts the search to texts for which this returns true. */
  filter?: ((text: IndexedText) => boolean) | undefined;
  /**
   * true: score every text. Default: an index of bits with more than 4096 texts scores only the
   * `rescoreMultiplier * topK` texts nearest by Hamming distance, and, without `threshold`, any index of more than
   * 200,000 texts only the `256 * topK` nearest.
   */
  exact?: boolean | undefined;
  /**
   * For a query that is a text: a text to put before it, instead of the query prompt of the model's folder. '' for none.
   * Rejected for a query that is a vector.
   */
  prompt?: string | undefined;
  /**
   * Stops a search for a text while the model embeds it. The search rejects with the signal's reason. A search for a
   * vector throws it if the signal has fired before.
   */
  signal?: SignalLike | undefined;
}

const integers = listOf(natural, 'an array or a Set of integers');
const idsOf: Reader<Set<number>> = (value, name) => new Set(integers(value instanceof Set ? [...value] : value, name));
export const textSearchSchema = {
  ...searchSchema,
  topK: optional(sizeOrInfinity, null),
  threshold: optional(finite, null),
  ids: optional(idsOf, null),
  filter: callback<NonNullable<TextSearchOptions['filter']>>,
  exact: optional(flag, false),
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

/** The width of the vectors; 0 for an index without texts. */
export const widthOf = ({ store }: IndexState): number => (store.count === 0 ? 0 : dimensionsOf(store));

/** The text for `console.log` of an index. */
export function indexText(state: IndexState): string {
  const { rows, store } = state;
  const form = store.bits ? 'binary' : (store.options.output ?? 'int8');
  return `TextIndex: ${rows.size} texts, ${widthOf(state)} dimensions, ${form}`;
}

/** @throws HeedError unless a query has the width of the index's vectors */
function requireQueryWidth(state: IndexState, name: string, got: number): void {
  const width = widthOf(state);
  if (width === 0 || got === width) return;
  const isWhole = got === state.probe?.document.length;
  throw invalid(name, `${width} entries`, `${got}`, 'SHAPE_MISMATCH', {
    hint: isWhole
      ? `If this is a vector of the index's model, embed it with { dimensions: ${width} }`
      : 'Embed it with the model of the index, in the same way as its texts',
  });
}

/** Reads the options of a search for vectors, which have no prompts. */
export function readVectorSearch(options: TextSearchOptions | undefined): CheckedSearch {
  const call = readOptions('search', textSearchSchema, options);
  if (call.prompt !== null) throw invalid('search.prompt', 'a query that is a text', 'a query that is a vector');
  return call;
}

/** Searches for several vectors [N,D]. `name`: the argument that has them, for messages. */
export function searchIndex(
  state: IndexState,
  name: string,
  { data, shape: [queries = 0, width = 0] }: { data: Float32Array; shape: readonly number[] },
  { topK, rescoreMultiplier, threshold, ids: wanted, filter, exact, signal: stop }: CheckedSearch,
): TextHit[][] {
  stop?.throwIfAborted();
  const { rows, store } = state;
  if (queries > 0) requireQueryWidth(state, name, width);
  if (store.count === 0 || queries === 0) return Array.from({ length: queries }, () => []);
  requireFinite(name, data);
  if (store.options.similarity === 'dot') requireLengths(name, normsOf(data, width), 'dot', 'INVALID_ARGUMENT');
  const count = topK ?? (threshold === null ? 10 : rows.size);
  const matches = wanted || filter ? matching(rows, wanted, filter) : null;
  const isLarge = rows.size > LARGE && Number.isFinite(count) && threshold === null;
  const multiplier = exact ? 0 : rescoreMultiplier || (store.bits ? 4 : isLarge ? LARGE_MULTIPLIER : 0);
  const selected = multiplier === 0 ? 0 : count * multiplier; // not Infinity * 0
  // A multiplier that the caller gives applies to small indexes, too, but not to the few texts of a filter.
  const isSmall = (matches !== null || rescoreMultiplier === 0) && (matches ?? rows).size <= Math.max(selected, SMALL);
  const found = store.search(data, {
    topK: count,
    threshold: threshold ?? -Infinity,
    candidates: isSmall ? 0 : selected,
    allowed: matches ? matches.bits : rows.used,
  });
  return found.map((hits) => hits.map(({ index, score }) => ({ ...rows.at(index), score })));
}

/** A bitmap of the rows whose texts may be hits, and their number. */
function matching(
  rows: TextRows,
  wanted: Set<number> | null,
  filter: TextSearchOptions['filter'],
): { bits: Uint32Array; size: number } {
  const bits = new Uint32Array(Math.ceil(rows.count / 32));
  let size = 0;
  for (const row of wanted ? rowsOf(rows, wanted) : (rows.usedRows() ?? Array(rows.count).keys())) {
    if (filter && !filter(rows.at(row))) continue;
    bits[row >> 5]! |= 1 << (row & 31);
    size++;
  }
  return { bits, size };
}

/** The rows of the texts that have one of these ids, in ascending order. */
const rowsOf = (rows: TextRows, ids: Set<number>) =>
  Uint32Array.from(Array.from(ids, (id) => rows.rowOf(id)).filter((row) => row >= 0)).sort();
