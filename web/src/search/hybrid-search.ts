/**
 * Hybrid search: joins the ranking by vectors with the ranking by words. Imported on demand.
 */
import { invalid } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import type { Hit } from '../base/scores.js';
import type { IndexState } from './index-model.js';
import { type AllowedRows, allowedRows, type CheckedSearch, nearestRows, type TextHit } from './index-search.js';
import type { Matrix } from './pair-products.js';
import { hasRow } from './row-bits.js';
import { after } from './vector-store.js';
import { WordIndex } from './word-index.js';

export { WordIndex };

/**
 * The constant k of reciprocal rank fusion: a text at rank r of a ranking scores 1 / (k + r). Small, so that a text which has
 * a rare word and is first for it stays among the best (bench/hybrid.mjs).
 */
const RANK_CONSTANT = 10;

/** The number of texts of each ranking that are joined: at least this many, and DEPTH_PER_HIT for each hit. */
const MIN_DEPTH = 100;
const DEPTH_PER_HIT = 5;

/**
 * Searches for texts and their vectors [N,D]. The score of a hit is the sum of 1 / (10 + rank) over both rankings
 * (Cormack, Clarke and Buettcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods",
 * 2009); ranks begin with 1.
 */
export async function hybridSearch(
  state: IndexState,
  name: string,
  queries: readonly string[],
  vectors: Matrix,
  call: CheckedSearch,
): Promise<TextHit[][]> {
  if (call.threshold !== null) {
    const expected = 'undefined with `hybrid`, as scores are then ranks and not similarities';
    throw invalid('search.threshold', expected, `${call.threshold}`);
  }
  state.words ??= WordIndex.empty();
  const { rows, store, words } = state;
  await words.update(rows, makeYield(call.signal));
  const topK = call.topK ?? 10;
  const depth = Math.max(MIN_DEPTH, DEPTH_PER_HIT * topK);
  const joined = (allowed: AllowedRows | null, nearest: Hit[][]) =>
    queries.map((query, n) => {
      const byWords: number[] = [];
      for (const id of words.ranked(query)) {
        const row = rows.rowOf(id);
        // A text may have been removed since its words were read.
        if (row >= 0 && (!allowed || hasRow(allowed.bits, row))) byWords.push(row);
        if (byWords.length === depth) break;
      }
      const scores = new Map<number, number>();
      // Words first: if two texts have the same score, the one that has the words comes first.
      for (const ranking of [byWords, nearest[n]!.map(({ index }) => index)])
        for (const [i, row] of ranking.entries()) scores.set(row, (scores.get(row) ?? 0) + 1 / (RANK_CONSTANT + i + 1));
      const best = [...scores].sort(([, a], [, b]) => b - a).slice(0, topK);
      return best.map(([row, score]) => ({ ...rows.at(row), score }));
    });
  const search = { ...call, topK: depth };
  return store.inTurn(() =>
    after(allowedRows(state, call), (allowed) =>
      after(nearestRows(state, name, vectors, search, allowed), (found) => joined(allowed, found)),
    ),
  );
}
