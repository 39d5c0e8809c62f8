// The page: it draws. The model, the index and its store are in search.js.
import { openSearch } from './search.js';
import texts from './texts.json';

const [query, status, results] = ['query', 'status', 'results'].map((id) => document.getElementById(id));

const { index, wasStored } = await openSearch(texts, (done, total) => {
  status.textContent = `Embedding ${done} of ${total} texts…`;
});
status.textContent = wasStored ? 'The index was read from IndexedDB.' : 'The index was built and stored.';

// Called with the hits of the latest text only; a search for an earlier one is stopped.
function show(hits) {
  results.replaceChildren(
    ...hits.map(({ text, score }) => {
      const item = document.createElement('li');
      item.textContent = `${text} (${score.toFixed(2)})`;
      return item;
    }),
  );
}
const search = index.searchLatest(show, { topK: 3 });
query.addEventListener('input', () => search(query.value));
await search(query.value);
