/** Search while a text is typed; see `TextIndex.searchLatest`. */
import { describe, invalid } from '../base/error.js';
import { text } from '../base/options.js';
import type { TextHit } from './index-search.js';

/** `search` returns the hits for a text, and rejects when the signal fires. */
export function searchLatest(
  search: (query: string, signal: AbortSignal) => Promise<TextHit[][]>,
  onHits: (hits: TextHit[], text: string) => void,
): (query: string) => Promise<void> {
  if (typeof onHits !== 'function') throw invalid('searchLatest.onHits', 'a function', describe(onHits));
  let latest = new AbortController();
  return async (given) => {
    const query = text(given, 'text');
    latest.abort();
    latest = new AbortController();
    const { signal } = latest;
    try {
      const [hits = []] = query.trim() === '' ? [] : await search(query, signal);
      if (!signal.aborted) onHits(hits, query);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  };
}
