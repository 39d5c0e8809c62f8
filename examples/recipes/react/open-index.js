// The index of the page: built by a model in a worker on the first visit, then read from IndexedDB. Here and not in a component: Vite
// replaces a component that is edited, and keeps this module and its model.
import { load } from 'heed';
import { get, set } from 'idb-keyval';
import notes from './notes.json';

const KEY = `notes-${notes.version}`; // change the version with the notes

let opening;
let model;

// In development, an edit of this file runs it again, with the same `data`: the worker of the run before ends.
if (import.meta.hot) {
  import.meta.hot.data.end?.();
  import.meta.hot.data.end = () => model?.dispose();
}

/** -> { index, source }, the same for all callers. After an error, the next call tries again. */
export function openIndex() {
  opening ??= open().catch((error) => {
    opening = undefined;
    throw error;
  });
  return opening;
}

async function open() {
  const heed = await load();
  model = await heed.fromPretrained(undefined, { worker: true }); // the page stays responsive
  const stored = await get(KEY);
  const kept = stored && (await heed.TextIndex.load(stored, { embedder: model }).catch(ofAnotherModel));
  if (kept) return { index: kept, source: 'The index was read from IndexedDB.' };
  const texts = notes.notes.map(({ text }) => text);
  const metadata = notes.notes.map(({ section }) => ({ section }));
  const index = await heed.TextIndex.of(model, texts, { metadata });
  await set(KEY, await index.save());
  return { index, source: 'The index was built and stored.' };
}

/** An index recognizes the model that made it; one of another model is built again. */
function ofAnotherModel(error) {
  if (error.code !== 'INVALID_FILE') throw error;
  return null;
}
