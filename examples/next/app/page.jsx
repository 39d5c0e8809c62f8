'use client';
import { useState } from 'react';

export default function Page() {
  const [hits, setHits] = useState([]);
  const search = async (event) => {
    event.preventDefault();
    const query = new FormData(event.currentTarget).get('query');
    const response = await fetch(`/api/search?q=${encodeURIComponent(query)}`);
    setHits((await response.json()).hits ?? []);
  };
  return (
    <main>
      <form onSubmit={search}>
        <input name="query" aria-label="Search by meaning" />
        <button type="submit">Search</button>
      </form>
      <ol>
        {hits.map(({ text }) => (
          <li key={text}>{text}</li>
        ))}
      </ol>
    </main>
  );
}
