const query = document.getElementById('query');
const results = document.getElementById('results');

/** The web page that was used last: the popup itself may be open in a tab. */
async function openTab() {
  const tabs = await chrome.tabs.query({});
  const pages = tabs.filter(({ url }) => url?.startsWith('http'));
  return pages.sort((a, b) => b.lastAccessed - a.lastAccessed)[0];
}

async function sentencesOf(tab) {
  const [{ result }] = await chrome.scripting.executeScript({
    target: { tabId: tab.id },
    func: () => document.body.innerText,
  });
  const segments = new Intl.Segmenter(undefined, { granularity: 'sentence' }).segment(result);
  return [...segments].map(({ segment }) => segment.trim()).filter((sentence) => sentence.length > 20);
}

function show(lines) {
  results.replaceChildren(...lines.map((line) => Object.assign(document.createElement('li'), { textContent: line })));
}

const tab = await openTab();
const sentences = tab ? await sentencesOf(tab) : [];
if (sentences.length === 0) show(['This page has no text that can be read.']);

let latest = 0;
query.addEventListener('input', async () => {
  const call = ++latest;
  if (query.value.trim() === '' || sentences.length === 0) return show([]);
  const { hits, error } = await chrome.runtime.sendMessage({ query: query.value, sentences, topK: 3 });
  if (call === latest) show(error ? [error] : hits.map(({ sentence }) => sentence));
});
