/**
 * Hybrid search beside its two rankings, for docs/search.md: nDCG@10 and recall@10 with the bundled model in q8, and milliseconds per query.
 * Two sets: Cranfield (tools/model/cranfield.mjs says where it is), whose queries are questions; and the sections of heed's own documents,
 * whose queries are the names in code font that at most three sections have. A section is relevant for the names that it has.
 *
 *     node bench/hybrid.mjs --cranfield FOLDER
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';
import { informationRetrievalMetrics } from '../dist/evaluation.js';
import { load } from '../dist/index.js';
import { readCranfield } from '../tools/model/cranfield.mjs';

const { values } = parseArgs({ options: { cranfield: { type: 'string' } } });
const heed = await load();
const { WordIndex } = await compiled('../web/src/search/word-index.ts');
const model = await heed.fromPretrained(undefined, { dtype: 'q8' });

/** Imports a module that the package does not export. */
async function compiled(path) {
  const entryPoints = [fileURLToPath(new URL(path, import.meta.url))];
  const { outputFiles } = await build({ entryPoints, bundle: true, format: 'esm', write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`);
}

function sectionsWithNames() {
  const folder = new URL('../docs/', import.meta.url);
  const files = readdirSync(folder).filter((name) => name.endsWith('.md'));
  const sections = files.flatMap((name) => readFileSync(new URL(name, folder), 'utf8').split(/^(?=#+ )/m));
  const corpus = Object.fromEntries(sections.map((text, i) => [i, text.trim()]).filter(([, text]) => text !== ''));
  const places = new Map();
  for (const [id, text] of Object.entries(corpus))
    for (const name of new Set([...text.matchAll(/`([A-Za-z_][\w.-]{3,})`/g)].map(([, name]) => name)))
      places.set(name, [...(places.get(name) ?? []), id]);
  const rare = [...places].filter(([, ids]) => ids.length <= 3);
  return {
    corpus,
    queries: Object.fromEntries(rare.map(([name]) => [name, name])),
    relevantDocs: Object.fromEntries(rare),
  };
}

console.log(
  '| texts | queries | ranking | nDCG@10 | recall@10 | ms per query |\n| --- | --: | --- | --: | --: | --: |',
);
const sets = [['sections of documents, names', sectionsWithNames()]];
if (values.cranfield) sets.unshift(['Cranfield', readCranfield(values.cranfield)]);
for (const [name, { corpus, queries, relevantDocs }] of sets) {
  const items = Object.entries(corpus).map(([id, text]) => ({ id, text }));
  const asked = Object.keys(queries).filter((id) => relevantDocs[id].length > 0);
  const texts = asked.map((id) => queries[id]);
  const relevant = asked.map((id) => relevantDocs[id]);
  const index = await heed.TextIndex.of(model, items);
  const words = WordIndex.empty();
  const rows = { version: 0, eachRow: () => items.map((_, row) => [row, row]), textAt: (row) => items[row] };
  await words.update(rows, async () => {});
  const idsOf = (hits) => hits.map(({ id }) => id);
  await index.search(texts[0], { hybrid: true }); // reads the words
  for (const [ranking, find] of [
    ['vectors', async (text) => idsOf(await index.search(text))],
    ['words', async (text) => words.ranked(text).slice(0, 10)],
    ['both', async (text) => idsOf(await index.search(text, { hybrid: true }))],
  ]) {
    const start = performance.now();
    const rankings = [];
    for (const text of texts) rankings.push(await find(text));
    const milliseconds = (performance.now() - start) / texts.length;
    const { ndcg, recall } = informationRetrievalMetrics(rankings, relevant);
    const figures = [ndcg[10].toFixed(3), recall[10].toFixed(3), milliseconds.toFixed(1)];
    console.log(`| ${name}, ${items.length} | ${texts.length} | ${ranking} | ${figures.join(' | ')} |`);
  }
}
