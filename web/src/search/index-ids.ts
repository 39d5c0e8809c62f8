/** The ids of the texts of an index. */
import type { IndexState } from './index-model.js';

/** Caches the ids of an index as a set. */
const known = new WeakMap<IndexState, Set<number>>();

export function knownIds(state: IndexState): Set<number> {
  const ids = known.get(state) ?? new Set(rowIds(state));
  known.set(state, ids);
  return ids;
}

/** The id of each row. */
export function rowIds({ ids, store: { count } }: IndexState): Float64Array {
  return ids?.subarray(0, count) ?? Float64Array.from({ length: count }, (_, row) => row);
}

export function setIds(state: IndexState, ids: Float64Array | null): void {
  state.ids = ids;
  for (const id of ids ?? []) state.nextId = Math.max(state.nextId, id + 1);
}

/** Keeps the cached set up to date. */
export const remember = (state: IndexState, id: number) => known.get(state)?.add(id);
export const forget = (state: IndexState, id: number) => known.get(state)?.delete(id);
