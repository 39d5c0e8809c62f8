// The page: it asks /search, which the service worker answers.
const [form, status, list] = ['form', 'p', 'ol'].map((name) => document.querySelector(name));

await navigator.serviceWorker.register('/sw.js', { type: 'module' });
await navigator.serviceWorker.ready;
// The first visit's page is controlled once the service worker has claimed it.
if (!navigator.serviceWorker.controller)
  await new Promise((resolve) => navigator.serviceWorker.addEventListener('controllerchange', resolve, { once: true }));
status.textContent = 'Ready';

form.onsubmit = async (event) => {
  event.preventDefault();
  const response = await fetch(`/search?${new URLSearchParams(new FormData(form))}`);
  const { hits = [], error } = await response.json();
  status.textContent = error ?? `${hits.length} notes`;
  list.replaceChildren(...hits.map(({ text }) => Object.assign(document.createElement('li'), { textContent: text })));
};
