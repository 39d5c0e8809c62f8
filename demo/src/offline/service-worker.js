/** Caches the files of the page for offline use; those of “Watch it learn” and “Teach it” and WebAssembly modules when they are first fetched. Each version has a cache of its own. */
const files = __FILES__;
const name = `heed-${__VERSION__}`;

addEventListener('install', (event) => {
  event.waitUntil(caches.open(name).then((cache) => cache.addAll(files)));
  skipWaiting();
});

addEventListener('activate', (event) => {
  const clear = async () => {
    for (const other of await caches.keys())
      if (other !== name && other.startsWith('heed-')) await caches.delete(other);
    await clients.claim();
  };
  event.waitUntil(clear());
});

addEventListener('fetch', (event) => {
  const { method, url } = event.request;
  if (method !== 'GET' || new URL(url).origin !== location.origin) return;
  event.respondWith(
    caches
      .match(event.request, { ignoreSearch: true, ignoreVary: true })
      .then((kept) => kept ?? fetchAndKeep(event.request)),
  );
});

/** The names of files in assets/ contain a hash of their contents, so they never change. */
async function fetchAndKeep(request) {
  const response = await fetch(request);
  // Parts of files (206) cannot be kept.
  if (response.status === 200 && new URL(request.url).pathname.includes('/assets/')) {
    const cache = await caches.open(name);
    await cache.put(request, response.clone());
  }
  return response;
}
