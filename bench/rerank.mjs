/**
 * Reranking by token vectors, for docs/retrieval.md: nDCG@10 and recall@10 of searches in Cranfield with the bundled model in q8, before and
 * after the first 50 documents are reranked by `maxSim`, and the CPU time that this takes for a query: with token vectors that are kept, and
 * for those of 50 documents. Each document is encoded once for the index and once for its token vectors, some five minutes of CPU time.
 * tools/model/cranfield.mjs says where Cranfield is.
 *
 *     node bench/rerank.mjs --cranfield FOLDER
 */
import { parseArgs } from 'node:util';
import { informationRetrievalMetrics } from '../dist/evaluation.js';
import { load, maxSim } from '../dist/index.js';
import { readCranfield } from '../tools/model/cranfield.mjs';
import { ownTime } from './cpu-time.mjs';

const { values } = parseArgs({ options: { cranfield: { type: 'string' } } });
const heed = await load();
const model = await heed.fromPretrained(undefined, { dtype: 'q8' });
const { corpus, queries, relevantDocs } = readCranfield(values.cranfield);
const items = Object.entries(corpus).map(([id, text]) => ({ id, text }));
const asked = Object.keys(queries).filter((id) => relevantDocs[id].length > 0);
const relevant = asked.map((id) => relevantDocs[id]);
const index = await heed.TextIndex.of(model, items);

const COUNT = 50;
const tokens = new Map();
let milliseconds = Infinity;
for (let first = 0; first < items.length; first += COUNT) {
  const part = items.slice(first, first + COUNT);
  const before = ownTime();
  const vectors = await model.embedTokens(part.map(({ text }) => text));
  milliseconds = Math.min(milliseconds, (ownTime() - before) * (COUNT / part.length));
  for (const [i, { id }] of part.entries()) tokens.set(id, vectors[i]);
}
const rows = [...tokens.values()].reduce((sum, { shape }) => sum + shape[0], 0);
console.log(
  `${COUNT} documents of ${Math.round(rows / items.length)} tokens: at least ${milliseconds.toFixed(0)} ms of CPU time`,
);

for (const hybrid of [false, true]) {
  const [found, reranked] = [[], []];
  let time = 0;
  for (const id of asked) {
    const hits = await index.search(queries[id], { topK: COUNT, hybrid });
    const [query] = await model.embedTokens(queries[id], { promptName: 'query' });
    const documents = hits.map((hit) => tokens.get(hit.id));
    const before = ownTime();
    const scores = maxSim(query, documents);
    time += ownTime() - before;
    found.push(hits.map((hit) => hit.id));
    const order = hits.map((_, i) => i).sort((a, b) => scores[b] - scores[a]);
    reranked.push(order.map((i) => hits[i].id));
  }
  console.log(`maxSim with ${COUNT} documents: ${(time / asked.length).toFixed(0)} ms of CPU time per query`);
  for (const [name, rankings] of Object.entries({ found, reranked })) {
    const { ndcg, recall } = informationRetrievalMetrics(rankings, relevant);
    console.log(`${hybrid ? 'hybrid' : 'vectors'}, ${name}: ${ndcg[10].toFixed(3)}, ${recall[10].toFixed(3)}`);
  }
}
