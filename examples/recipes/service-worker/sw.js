// The service worker: it answers GET /search?q=... for all pages of the site, so that the model is in memory once for all tabs. Its scripts
// have to be there when it is installed, so it imports heed/service-worker, which loads no scripts later.
import { HeedError, load } from 'heed/service-worker';

const notes = [
  'The cat sleeps on the sofa all afternoon.',
  'Interest rates rose by half a point.',
  'The orchestra played a symphony by Mahler.',
  'Fry the onions, then add the rice and the stock.',
  'The train to the coast leaves at half past six.',
];

let opening;

/** The index of the notes. Browsers end a service worker that is idle, so the index is also made when it starts again. */
function openIndex() {
  opening ??= load()
    .then(async (heed) => heed.TextIndex.of(await heed.fromPretrained(), notes))
    .catch((error) => {
      opening = undefined;
      throw error;
    });
  return opening;
}

async function search({ url, signal }) {
  const query = new URL(url).searchParams.get('q') ?? '';
  if (query.trim() === '') return Response.json({ error: 'q is missing' }, { status: 400 });
  try {
    const index = await openIndex();
    return Response.json({ hits: await index.search(query, { topK: 3, signal }) });
  } catch (error) {
    if (error instanceof HeedError) return Response.json({ error: error.message }, { status: 500 });
    throw error;
  }
}

addEventListener('install', (event) => event.waitUntil(openIndex().then(() => skipWaiting())));
addEventListener('activate', (event) => event.waitUntil(clients.claim()));
addEventListener('fetch', (event) => {
  if (new URL(event.request.url).pathname === '/search') event.respondWith(search(event.request));
});
