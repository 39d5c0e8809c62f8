// An index of texts that is computed once, in a worker, and kept in IndexedDB.
import { load } from 'heed';

const asPromise = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function openStore() {
  const opening = indexedDB.open('semantic-search', 2);
  opening.onupgradeneeded = () => {
    const db = opening.result;
    for (const name of db.objectStoreNames) db.deleteObjectStore(name);
    db.createObjectStore('indexes');
  };
  const db = await asPromise(opening);
  const store = (mode) => db.transaction('indexes', mode).objectStore('indexes');
  return {
    get: (key) => asPromise(store('readonly').get(key)),
    set: (key, value) => asPromise(store('readwrite').put(value, key)),
  };
}

/** A key that changes with the texts. */
async function keyOf(texts) {
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(JSON.stringify(texts)));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The index of a file that was stored; null without a file, or if it was made with another model, which an index recognizes. */
async function openIndex(heed, file, embedder) {
  if (file === undefined) return null;
  try {
    return await heed.TextIndex.load(file, { embedder });
  } catch (error) {
    if (error.code === 'INVALID_FILE') return null;
    throw error;
  }
}

export async function openSearch(texts, onProgress) {
  const heed = await load();
  const model = await heed.fromPretrained(undefined, { worker: true }); // the page stays responsive
  const store = await openStore();
  const key = await keyOf(texts);
  let index = await openIndex(heed, await store.get(key), model);
  const wasStored = index !== null;
  if (!wasStored) {
    index = await heed.TextIndex.of(model, texts, { onProgress: ({ done, total }) => onProgress(done, total) });
    await store.set(key, await index.save());
  }
  return { wasStored, index };
}
