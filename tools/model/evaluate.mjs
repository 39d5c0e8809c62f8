#!/usr/bin/env node
// Measures the bundled model beside all-MiniLM-L6-v2 as it is published: cosines and neighbours of sentences, a search of documents
// (documents.mjs), and descriptions of words. Prints the figures of web/model/README.md.
//
//   node tools/model/evaluate.mjs [--model web/model]

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { load } from 'heed';
import { nearestWords } from '../../examples/support/answers.mjs';
import { ensureCheckpoint } from '../checkpoints.mjs';
import { root, runMain } from '../console.mjs';
import { searchDocuments } from './documents.mjs';
import { wordnet } from './sources.mjs';

const { values: options } = parseArgs({ options: { model: { type: 'string', default: join(root, 'web/model') } } });
const SENTENCES = 400;
const NEAREST = 10;

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

async function embed(model, texts) {
  const { data, shape } = await model.embed(texts, { normalize: true });
  return texts.map((_, n) => data.subarray(n * shape[1], (n + 1) * shape[1]));
}

/** The rows nearest to each row. */
const nearestOf = (rows) =>
  rows.map((row, n) => {
    const scores = rows.map((other, i) => [i === n ? -1 : dot(row, other), i]).sort((a, b) => b[0] - a[0]);
    return new Set(scores.slice(0, NEAREST).map(([, i]) => i));
  });

function compare(name, rows, others) {
  const cosines = rows.map((row, n) => dot(row, others[n]));
  const [near, far] = [rows, others].map(nearestOf);
  const shared = near.map((own, n) => [...own].filter((i) => far[n].has(i)).length / NEAREST);
  console.log(
    `  ${name}: cosine ${mean(cosines).toFixed(4)} on average and ${Math.min(...cosines).toFixed(4)} at least, ${(100 * mean(shared)).toFixed(0)} % of the ${NEAREST} nearest`,
  );
}

/** Prints for how many descriptions the dictionary has an expected word first, and among the first ten. */
async function describe(list, model, index) {
  const entries = JSON.parse(readFileSync(new URL(list, import.meta.url), 'utf8'));
  const vectors = await embed(
    model,
    entries.map(({ text }) => text),
  );
  const counts = { 'all words': [0, 0], 'words other than those of the description': [0, 0] };
  for (const [n, { text, words }] of entries.entries()) {
    const found = [index.search(vectors[n], { topK: 10 }), nearestWords(index, text, vectors[n], 10)];
    Object.values(counts).forEach((count, k) => {
      const at = found[k].findIndex((hit) => words.includes(hit.text));
      if (at === 0) count[0]++;
      if (at >= 0) count[1]++;
    });
  }
  for (const [which, [first, ten]] of Object.entries(counts))
    console.log(`  ${list}, ${which}: ${first} of ${entries.length} first, ${ten} among ten`);
}

await runMain(async () => {
  const heed = await load();
  const published = await heed.fromPretrained(await ensureCheckpoint('all-MiniLM-L6-v2'), { dtype: 'fp32' });
  const [int8, exact] = [
    await heed.fromPretrained(options.model, { dtype: 'q8' }),
    await heed.fromPretrained(options.model, { dtype: 'fp32' }),
  ];
  const all = await wordnet();
  // Other synsets than those to which bundle.mjs fits the matrices.
  const texts = Array.from({ length: SENTENCES }, (_, i) => {
    const { gloss, examples } = all[Math.floor((i * all.length) / SENTENCES)];
    return [gloss, ...examples].join('; ');
  });
  console.log(`${SENTENCES} definitions and examples`);
  const rows = await embed(published, texts);
  const [ofInt8, ofExact] = [await embed(int8, texts), await embed(exact, texts)];
  compare('bundled as q8, beside the published weights in fp32', ofInt8, rows);
  compare('bundled as fp32, beside the published weights in fp32', ofExact, rows);
  compare('bundled as q8, beside bundled as fp32', ofInt8, ofExact);
  await searchDocuments({
    'published, fp32': (texts) => embed(published, texts),
    'bundled, q8': (texts) => embed(int8, texts),
  });
  const index = await heed.TextIndex.load(join(options.model, 'dictionary'), { embedder: int8 });
  console.log('\ndictionary');
  for (const list of ['descriptions.json', 'everyday.json']) await describe(list, int8, index);
});
