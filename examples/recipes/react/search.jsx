import { useState } from 'react';
import { useSearch } from './use-search.js';

export function Search() {
  const [query, setQuery] = useState('');
  const { hits, status } = useSearch(query);
  return (
    <>
      <label>
        Search by meaning <input value={query} onChange={(event) => setQuery(event.target.value)} />
      </label>
      <p role="status">{status}</p>
      <ol>
        {hits.map(({ id, text, metadata }) => (
          <li key={id}>
            {text} ({metadata.section})
          </li>
        ))}
      </ol>
    </>
  );
}
