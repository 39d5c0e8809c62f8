// The service worker: it holds the model, so that opening the popup again does not load it again. Copy node_modules/heed/dist to heed/ in this folder.
import { load, semanticSearch } from './heed/index.js';

let loading;
const openModel = () => {
  loading ??= load().then((heed) => heed.fromPretrained());
  return loading;
};

/** The sentences of the last page and their vectors. */
let last = { key: '', vectors: null };

async function find({ query, sentences, topK }) {
  const model = await openModel();
  const key = sentences.join('\n');
  if (last.key !== key) last = { key, vectors: await model.embed(sentences) };
  const [hits] = semanticSearch(await model.embed(query), last.vectors, { topK });
  return hits.map(({ index, score }) => ({ sentence: sentences[index], score }));
}

chrome.runtime.onMessage.addListener((message, _, answer) => {
  find(message).then(
    (hits) => answer({ hits }),
    (error) => answer({ error: error.message }),
  );
  return true; // the answer comes later
});
