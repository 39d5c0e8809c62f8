import { load } from './heed/heed.min.js';

const [field, status, list] = ['input', 'p', 'ol'].map((name) => document.querySelector(name));
const tabId = Number(new URLSearchParams(location.search).get('tab'));

async function sentencesOf(tabId) {
  const [{ result }] = await chrome.scripting.executeScript({ target: { tabId }, func: () => document.body.innerText });
  const segments = new Intl.Segmenter(undefined, { granularity: 'sentence' }).segment(result);
  return [...segments].map(({ segment }) => segment.trim()).filter((sentence) => sentence.length > 20);
}

try {
  const sentences = await sentencesOf(tabId);
  const heed = await load();
  const model = await heed.fromPretrained(undefined, { worker: true }); // a worker of the tab: nothing depends on the service worker
  const index = await heed.TextIndex.of(model, sentences);
  const show = ({ text }) => Object.assign(document.createElement('li'), { textContent: text });
  const search = index.searchLatest((hits) => list.replaceChildren(...hits.map(show)), { topK: 3 });
  field.oninput = () => search(field.value);
  status.textContent = `${sentences.length} sentences`;
} catch (error) {
  status.textContent = error.message; // such as that extensions may not read the page
}
