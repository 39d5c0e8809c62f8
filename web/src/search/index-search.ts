/** How a TextIndex is searched: options, hits, and which texts are compared in full. */
import { invalid } from '../base/error.js';
import {
  callback,
  finite,
  flag,
  listOf,
  natural,
  optional,
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
import { dimensionsOf, requireLengths } from './vector-store.js';

export interface TextHit {
  /** The current index of the text in `texts`. It changes when texts before it are removed. */
  index: number;
  /** The text's id, which never changes. */
  id: number;
  text: string;
  /** What was stored with the text; absent if the index has no metadata. */
  metadata?: unknown;
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
  filter?: ((text: Omit<TextHit, 'score'>) => boolean) | undefined;
  /**
   * true: score every text. Default: without `threshold`, an index of more than 200,000 texts scores only the
   * `256 * topK` (or `rescoreMultiplier * topK`) texts nearest by Hamming distance. Has no effect on an index of bits.
   */
  exact?: boolean | undefined;
  /**
   * For a query that is a text: a text to put before it, instead of the query prompt of the model's folder. '' for none.
   */
  prompt?: string | undefined;
  /** Stops a search for a text while the model embeds it. The search rejects with the signal's reason. */
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

/** The width of the vectors; 0 for an index without texts. */
export const widthOf = ({ store }: IndexState): number => (store.count === 0 ? 0 : dimensionsOf(store));

/** The text for `console.log` of an index. */
export function indexText(state: IndexState): string {
  const { texts, store } = state;
  const form = store.bits ? 'binary' : (store.options.output ?? 'int8');
  return `TextIndex: ${texts.length} texts, ${widthOf(state)} dimensions, ${form}`;
}

/** @throws HeedError unless a query has the width of the index's vectors */
export function requireQueryWidth(state: IndexState, name: string, got: number): void {
  const width = widthOf(state);
  if (width === 0 || got === width) return;
  const isWhole = got === state.probe?.document.length;
  throw invalid(name, `${width} entries`, `${got}`, 'SHAPE_MISMATCH', {
    hint: isWhole
      ? `If this is a vector of the index's model, embed it with { dimensions: ${width} }`
      : 'Embed it with the model of the index, in the same way as its texts',
  });
}

/** Searches for several vectors. `name`: the argument that has them, for messages. */
export function searchIndex(
  state: IndexState,
  name: string,
  queries: Float32Array,
  options: TextSearchOptions | undefined,
): TextHit[][] {
  const {
    topK,
    rescoreMultiplier,
    threshold,
    ids: wanted,
    filter,
    exact,
  } = readOptions('search', textSearchSchema, options);
  const { store } = state;
  if (store.count === 0) return [];
  requireFinite(name, queries);
  if (store.options.similarity === 'dot')
    requireLengths(name, normsOf(queries, widthOf(state)), 'dot', 'INVALID_ARGUMENT');
  const count = topK ?? (threshold === null ? 10 : store.count);
  const isLarge = store.count > LARGE && Number.isFinite(count) && threshold === null;
  const multiplier = rescoreMultiplier || (store.bits ? 4 : isLarge ? LARGE_MULTIPLIER : 0);
  const selected = multiplier === 0 || (exact && !store.bits) ? 0 : count * multiplier; // not Infinity * 0
  const allowed = wanted || filter ? rowsOf(state, wanted, filter) : null;
  const found = store.search(queries, {
    topK: count,
    threshold: threshold ?? -Infinity,
    // Selecting by signs pays off only for many rows.
    candidates: allowed && allowed.count <= Math.max(selected, 4096) ? 0 : selected,
    allowed: allowed?.bits ?? null,
  });
  return found.map((hits) => hits.map(({ index, score }) => ({ ...textAt(state, index), score })));
}

function textAt({ texts, ids, metadata }: IndexState, index: number): Omit<TextHit, 'score'> {
  const hit = { index, id: ids?.[index] ?? index, text: texts[index]! };
  return metadata ? { ...hit, metadata: metadata[index] } : hit;
}

/** A bitmap with one bit per row, whether its text may be a hit, and the number of such rows. */
function rowsOf(
  state: IndexState,
  wanted: Set<number> | null,
  filter: TextSearchOptions['filter'],
): { bits: Uint32Array; count: number } {
  const rows = state.store.count;
  const bits = new Uint32Array(Math.ceil(rows / 32));
  let count = 0;
  for (let row = 0; row < rows; row++) {
    const text = textAt(state, row);
    if ((wanted && !wanted.has(text.id)) || (filter && !filter(text))) continue;
    bits[row >> 5]! |= 1 << (row & 31);
    count++;
  }
  return { bits, count };
}
