// The script of every page. It waits for the service worker before it loads heed, so that all of heed's files are cached.
import { startSearch } from './search.js';

await navigator.serviceWorker.register('/sw.js');
if (!navigator.serviceWorker.controller)
  await new Promise((resolve) => navigator.serviceWorker.addEventListener('controllerchange', resolve, { once: true }));
// Files that were loaded before the service worker controlled the page are requested again, from the browser's HTTP cache.
await Promise.all(performance.getEntriesByType('resource').map(({ name }) => fetch(name)));
await startSearch(document.querySelector('input'), document.querySelector('ol'), document.querySelector('p'));
