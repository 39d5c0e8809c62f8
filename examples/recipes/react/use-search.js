// A hook: the hits of the latest query. In development, StrictMode runs each effect twice and cleans up in between: the cleanup
// stops the search, and openIndex() returns the same index to both runs.
import { useEffect, useState } from 'react';
import { openIndex } from './open-index.js';

const NONE = [];

export function useSearch(query) {
  const [hits, setHits] = useState(NONE);
  const [status, setStatus] = useState('Loading the model…');

  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    async function search() {
      const { index, source } = await openIndex();
      if (signal.aborted) return;
      setStatus(source);
      // A query that is replaced while it is embedded stops before the next layer.
      const found = query.trim() === '' ? NONE : await index.search(query, { topK: 3, signal });
      if (!signal.aborted) setHits(found);
    }
    search().catch((error) => {
      if (!signal.aborted) setStatus(error.message);
    });
    return () => controller.abort();
  }, [query]);

  return { hits, status };
}
