// Searches thousands of texts while one types: the model in a worker, a saved index that is resumed and updated, a filter, and offline use.
import { load, type TextHit, type TextIndex } from 'heed';
import modelUrl from 'heed/model/model.safetensors?url';
import { get, set } from 'idb-keyval';
import { StrictMode, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';

type Topic = { topic: string };

async function open() {
  const workers = navigator.serviceWorker;
  await workers.register('/sw.js');
  if (!workers.controller) await new Promise((resolve) => workers.addEventListener('controllerchange', resolve));
  await Promise.all(performance.getEntriesByType('resource').map(({ name }) => fetch(name)));
  const heed = await load();
  const model = await heed.fromPretrained(modelUrl, { worker: true });
  const saved = await get<Uint8Array<ArrayBuffer>>('index');
  const index: TextIndex<Topic> = saved
    ? await heed.TextIndex.load<Topic>(saved, { embedder: model })
    : heed.TextIndex.of<Topic>([], [], { embedder: model });
  /** Embeds new and changed texts, removes deleted ones, and saves the index meanwhile. */
  const update = async (onStatus: (status: string) => void) => {
    const items: { id: string; text: string; metadata: Topic }[] = await (await fetch('/corpus.json')).json();
    const onProgress = async ({ done, total }: { done: number; total: number }) => {
      onStatus(`${done} of ${total} texts`);
      if (Math.floor(done / 1000) > Math.floor((done - 64) / 1000)) await set('index', await index.save());
    };
    await heed.TextIndex.of(model, items, { into: index, onProgress });
    const ids = new Set(items.map(({ id }) => id));
    await index.remove(({ id }) => !ids.has(`${id}`));
    await set('index', await index.save());
    onStatus(`${index.size} texts`);
  };
  return { model, index, update };
}

const opening = open();
let updating: Promise<void> | undefined; // one update, although StrictMode runs effects twice
import.meta.hot?.dispose(() => opening.then(({ model }) => model.dispose()));

function Search() {
  const [query, setQuery] = useState('');
  const [topic, setTopic] = useState('');
  const [status, setStatus] = useState('Loading the model…');
  const [hits, setHits] = useState<TextHit<Topic>[]>([]);
  useEffect(() => {
    opening.then(({ update }) => (updating ??= update(setStatus))).catch((error) => setStatus(String(error)));
  }, []);
  useEffect(() => {
    const controller = new AbortController();
    const filter = ({ metadata }: { metadata?: Topic | undefined }) => topic === '' || metadata?.topic === topic;
    const search = async () =>
      setHits(await (await opening).index.search(query, { topK: 5, filter, signal: controller.signal }));
    search().catch(() => {}); // a query that was replaced
    return () => controller.abort();
  }, [query, topic]);
  return (
    <main>
      <input aria-label="Search by meaning" value={query} onChange={(event) => setQuery(event.target.value)} />
      <input aria-label="Topic" value={topic} onChange={(event) => setTopic(event.target.value)} />
      <p role="status">{status}</p>
      <ol>
        {hits.map(({ id, text, metadata }) => (
          <li key={id}>{`${text} (${metadata?.topic})`}</li>
        ))}
      </ol>
    </main>
  );
}

createRoot(document.body.appendChild(document.createElement('div'))).render(
  <StrictMode>
    <Search />
  </StrictMode>,
);
