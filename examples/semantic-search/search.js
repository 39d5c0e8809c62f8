// An index of texts that is computed once, in a worker, and kept in IndexedDB.
import { load, semanticSearch } from 'heed';

const asPromise = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function openStore() {
  const opening = indexedDB.open('semantic-search', 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore('indexes');
  const db = await asPromise(opening);
  const store = (mode) => db.transaction('indexes', mode).objectStore('indexes');
  return {
    get: (key) => asPromise(store('readonly').get(key)),
    set: (key, value) => asPromise(store('readwrite').put(value, key)),
  };
}

/** A key that changes with the texts and the model, so that an index is never read for others. */
async function keyOf(texts, { family, parameterCount, dtype }) {
  const bytes = new TextEncoder().encode(JSON.stringify([texts, family, parameterCount, dtype]));
  const digest = await crypto.subtle.digest('SHA-256', bytes);
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export async function openSearch(texts, onProgress) {
  const heed = await load();
  const model = await heed.fromPretrained(undefined, { worker: true }); // the page stays responsive
  const store = await openStore();
  const key = await keyOf(texts, model.config);
  let vectors = await store.get(key);
  const wasStored = vectors !== undefined;
  if (!wasStored) {
    const { data, shape } = await model.embed(texts, { onProgress: ({ done, total }) => onProgress(done, total) });
    vectors = { data, shape };
    await store.set(key, vectors);
  }
  return {
    wasStored,
    async find(query, topK) {
      const [hits] = semanticSearch(await model.embed(query), vectors, { topK });
      return hits.map(({ index, score }) => ({ text: texts[index], score }));
    },
  };
}
