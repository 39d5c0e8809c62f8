// Copy node_modules/heed/dist to heed/ in this folder: with heed's files on the site's own origin, the policy in _headers names no host and
// allows no inline scripts, no blob: and no data: URLs. Netlify and Cloudflare Pages read _headers; other servers send the same header.
import { load } from './heed/heed.min.js';

const [field, status, list] = ['input', 'p', 'ol'].map((name) => document.querySelector(name));
const notes = [
  'The cat sleeps on the sofa all afternoon.',
  'The orchestra played a symphony by Mahler.',
  'Fry the onions, then add the rice and the stock.',
];

try {
  const heed = await load();
  const model = await heed.fromPretrained(undefined, { worker: true });
  const index = await heed.TextIndex.of(model, notes);
  const show = ({ text }) => Object.assign(document.createElement('li'), { textContent: text });
  const search = index.searchLatest((hits) => list.replaceChildren(...hits.map(show)), { topK: 3 });
  field.oninput = () => search(field.value);
  status.textContent = 'Ready';
} catch (error) {
  status.textContent = error.message; // names the directive that is missing
}
