/**
 * The retrieval quality of published checkpoints, and what int8 and 4 bits cost: 200 questions over 40 short documents (tools/model/documents.json, which were written for tests of heed).
 * Prints the table of docs/choosing-a-model.md. tools/checkpoints.mjs fetches the checkpoints.
 *
 *     node bench/retrieval.mjs [NAME ...] [--dist DIST]
 */

import { readFile } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { ensureCheckpoint } from '../tools/checkpoints.mjs';

const { values, positionals } = parseArgs({
  options: { dist: { type: 'string', default: fileURLToPath(new URL('../dist', import.meta.url)) } },
  allowPositionals: true,
});
const { load, semanticSearch } = await import(pathToFileURL(`${values.dist}/index.js`).href);
const heed = await load();

/** By name: the prompts of the model's card. The archives of bge and e5 have no file that says how vectors are pooled. */
const CHECKPOINTS = {
  bundled: {},
  'all-MiniLM-L6-v2': {},
  'bge-small-en-v15': { query: 'Represent this sentence for searching relevant passages: ', pooling: 'cls' },
  'e5-small-v2': { query: 'query: ', document: 'passage: ' },
  'all-mpnet-base-v2': {},
};

const documents = JSON.parse(await readFile(new URL('../tools/model/documents.json', import.meta.url), 'utf8'));
const texts = documents.map(({ title, text }) => `${title}. ${text}`);
const queries = documents.flatMap(({ questions }, right) => questions.map((text) => ({ text, right })));

/** The rank of the right document for each question, from 1. */
async function ranksOf(source, dtype, { query = '', document = '', pooling }) {
  const model = await heed.fromPretrained(source, { dtype });
  const options = { normalize: true, ...(pooling && { pooling }) };
  const rows = await model.embed(texts, { ...options, prompt: document });
  const questions = queries.map(({ text }) => text);
  const hits = semanticSearch(await model.embed(questions, { ...options, prompt: query }), rows, {
    topK: texts.length,
  });
  model.dispose();
  return hits.map((each, i) => 1 + each.findIndex(({ index }) => index === queries[i].right));
}

const formats = [
  ['fp32', null, 'fp32'],
  ['`q8`', null, 'q8'],
  ['4-bit table, int8 matrices, `q8`', { tables: 'int4' }, 'q8'],
  ['4-bit table, 4-bit matrices, `q8`', { tables: 'int4', matrices: 'int4' }, 'q8'],
];
console.log(`| checkpoint | weights | hit@1 | hit@3 | MRR@10 |\n| --- | --- | --: | --: | --: |`);
for (const name of positionals.length > 0 ? positionals : Object.keys(CHECKPOINTS)) {
  const folder =
    name === 'bundled' ? fileURLToPath(new URL('../web/model', import.meta.url)) : await ensureCheckpoint(name);
  for (const [format, quantized, dtype] of formats) {
    if (name === 'bundled' && quantized) continue; // it is stored in 3 bits
    const source = quantized ? (await heed.quantize(folder, quantized)).files : folder;
    const ranks = await ranksOf(source, dtype, CHECKPOINTS[name] ?? {});
    const share = (limit) => ((100 * ranks.filter((rank) => rank <= limit).length) / ranks.length).toFixed(1);
    const reciprocal = ranks.reduce((sum, rank) => sum + (rank <= 10 ? 1 / rank : 0), 0) / ranks.length;
    console.log(`| ${name} | ${format} | ${share(1)} % | ${share(3)} % | ${reciprocal.toFixed(3)} |`);
  }
}
