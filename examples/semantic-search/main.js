// The page: it draws. The model, the index and its store are in search.js.
import { openSearch } from './search.js';
import texts from './texts.json';

const [query, status, results] = ['query', 'status', 'results'].map((id) => document.getElementById(id));

const search = await openSearch(texts, (done, total) => {
  status.textContent = `Embedding ${done} of ${total} texts…`;
});
status.textContent = search.wasStored ? 'The index was read from IndexedDB.' : 'The index was built and stored.';

let latest = 0;
async function update() {
  const call = ++latest;
  const hits = query.value.trim() === '' ? [] : await search.find(query.value, 3);
  if (call !== latest) return; // the user has typed on
  results.replaceChildren(
    ...hits.map(({ text, score }) => {
      const item = document.createElement('li');
      item.textContent = `${text} (${score.toFixed(2)})`;
      return item;
    }),
  );
}
query.addEventListener('input', update);
await update();
