/** Caches all files of the page for offline use. Each version of the page has a cache of its own. */
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
    caches.match(event.request, { ignoreSearch: true, ignoreVary: true }).then((kept) => kept ?? fetch(event.request)),
  );
});
