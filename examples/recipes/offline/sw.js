// The service worker caches what the site's pages request (scripts, WebAssembly and the model), so that they work without the network.
const CACHE = 'site-1'; // change it to drop the cached files
/** The pages, cached at installation. List those of your site; the rest of this file is the same for every site. */
const PAGES = ['./', 'about.html'];

addEventListener('install', (event) =>
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(PAGES).then(() => skipWaiting()))),
);
addEventListener('activate', (event) => event.waitUntil(claim()));
addEventListener('fetch', (event) => {
  const { method, url } = event.request;
  if (method === 'GET' && new URL(url).origin === location.origin) event.respondWith(answer(event.request));
});

async function claim() {
  for (const name of await caches.keys()) if (name !== CACHE) await caches.delete(name);
  await clients.claim();
}

/** Files in assets/ are taken from the cache: their names change with their content. All others are requested from the network first. */
async function answer(request) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request, { ignoreSearch: true });
  if (kept && new URL(request.url).pathname.includes('/assets/')) return kept;
  try {
    const response = await fetch(request);
    if (response.status === 200) await cache.put(request, response.clone());
    return response;
  } catch (error) {
    if (kept) return kept;
    throw error;
  }
}
