#!/usr/bin/env node
// Evaluates heed's model as a reverse dictionary, through heed: for glosses that were not used in training, how high does the
// word that they define rank among the 20,000 common words? Compares it with three baselines, and int8 with fp32.
//
// Each encoder is evaluated twice: with the vectors of the words alone, and combined with those of the words' training
// definitions (as `heed index --weight` does it). BM25 searches the same definitions. The words of the strict
// set have no definitions there, so that only their own vectors count. The model's dictionary, whose vectors are trained, is evaluated, too,
// and with it two lists of hand-written descriptions. The search of documents (documents.mjs) comes first.
//
//   node tools/model/evaluate.mjs [--model web/model] [--data build/model] [--fp32 folder] [--part test|dev] [--weight 0.5]
//
// tools/model/prepare.py writes build/model, or the folder in HEED_MODEL_DATA. --fp32 is a folder with the weights before quantization
// (tools/model/export.py --dtype fp32), to measure the full cost of int8. Without it, fp32 arithmetic runs on the int8
// weights, which measures the cost of the arithmetic alone.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { load, loadTokenizer } from 'heed';
import { Bm25 } from './bm25.mjs';
import { searchDocuments } from './documents.mjs';
import { readSafetensors, untrained } from './weights.mjs';

const { values: options } = parseArgs({
  options: {
    model: { type: 'string', default: 'web/model' },
    data: { type: 'string', default: process.env.HEED_MODEL_DATA ?? 'build/model' },
    fp32: { type: 'string' },
    part: { type: 'string', default: 'test' },
    weight: { type: 'string', default: '0.5' },
  },
});
const BATCH = 256; // texts embedded at a time
const DIMENSIONS = 128; // of the vectors in the model's dictionary

main().catch((error) => {
  console.error(`evaluate: ${error.message}`);
  process.exitCode = 1;
});

async function main() {
  const heed = await load();
  await evaluateDocuments(heed); // first, because it also runs for models that were trained on other pairs
  const data = readData(options.data, options.model, options.part);
  const systems = {};
  const vectors = {};
  const add = (name, encoded) => {
    vectors[name] = encoded;
    systems[name] = byCosine(encoded, data);
    systems[`${name}, definitions`] = byCosine({ ...encoded, dictionary: described(encoded) }, data);
  };
  for (const [name, source, dtype] of [
    ['heed, int8', options.model, 'q8'],
    ['heed, fp32', options.fp32 ?? options.model, 'fp32'],
    ['untrained encoder', untrained(options.model, 1), 'fp32'],
  ]) {
    const model = await heed.fromPretrained(source, { dtype });
    add(name, await embedAll(name, (texts) => model.embed(texts), data));
    model.dispose();
  }
  const first = shortened(vectors['heed, int8'], DIMENSIONS);
  add(`heed, int8, first ${DIMENSIONS}`, first);
  const dictionary = bundledDictionary(options.model, data);
  systems['heed, int8, its dictionary'] = byCosine({ ...first, dictionary }, data);
  add('mean word vectors', await embedAll('mean word vectors', await meanWords(options.model), data));
  const bm25 = new Bm25(data.documents);
  systems.BM25 = (query) => scoresOfWords(bm25.search(query.text), data);

  for (const [set, { queries }] of Object.entries(data.sets)) {
    console.log(`\n${set}: ${queries.length} glosses, ${data.words.length} candidate words`);
    const hits = {};
    for (const [name, score] of Object.entries(systems)) {
      const ranks = queries.map((query, i) => rank(score({ ...query, set, i }), query, data));
      const result = summary(ranks);
      hits[name] = result.hit10;
      console.log(
        `  ${name.padEnd(40)} hit@1 ${percent(result.hit1)}  hit@10 ${percent(result.hit10)}  median rank ${result.median}`,
      );
    }
    const best = (name) => Math.max(hits[name], hits[`${name}, definitions`] ?? 0);
    const baseline = Math.max(best('untrained encoder'), best('mean word vectors'), hits.BM25);
    for (const index of ['', ', definitions']) {
      const int8 = hits[`heed, int8${index}`];
      console.log(
        `  int8${index}: ${(int8 / baseline).toFixed(2)}x the best baseline's hit@10 (at least 1.5x wanted), ${(100 * (int8 / hits[`heed, fp32${index}`] - 1)).toFixed(2)} % from fp32's (within 1 % wanted)`,
      );
    }
  }
  const { mean, least } = agreement(vectors['heed, int8'], vectors['heed, fp32']);
  console.log(`\ncosine of int8 and fp32 vectors: ${mean.toFixed(5)} on average, ${least.toFixed(5)} at least`);
  for (const list of ['descriptions.json', 'everyday.json']) {
    demonstrate(list, await describeAll(list, heed, dictionary, data));
  }
}

async function evaluateDocuments(heed) {
  const model = await heed.fromPretrained(options.model, { dtype: 'q8' });
  const embed = async (texts, dimensions) => {
    const { data: flat, shape } = await model.embed(texts, { dimensions });
    return texts.map((_, i) => flat.subarray(i * shape[1], (i + 1) * shape[1]));
  };
  await searchDocuments({
    'heed, int8': (texts) => embed(texts),
    'heed, int8, first 128 entries': (texts) => embed(texts, 128),
  });
  model.dispose();
}

/** The held-out queries, the dictionary and the training definitions. Throws if the model was trained on a query. */
function readData(folder, model, part) {
  const read = (name) => {
    const path = join(folder, name);
    if (!existsSync(path)) throw new Error(`${path} is missing: run tools/model/prepare.py first`);
    return readFileSync(path, 'utf8');
  };
  const pairsText = read('pairs.tsv');
  const trainedOn = JSON.parse(readFileSync(join(model, 'training.json'), 'utf8')).data;
  const here = createHash('sha256').update(pairsText).digest('hex');
  if (trainedOn !== here) {
    throw new Error(
      `${model} was trained on other pairs (${trainedOn.slice(0, 12)}) than ${folder}/pairs.tsv (${here.slice(0, 12)}), so held-out queries may have been used in training`,
    );
  }
  const rows = pairsText
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split('\t'));
  const seen = new Set(rows.flatMap(([, , first, second]) => [first, second]));
  const words = read('dictionary.txt').trim().split('\n');
  const sets = Object.fromEntries(
    Object.entries(JSON.parse(read('heldout.json'))).map(([name, parts]) => [name, parts[part]]),
  );
  for (const [name, set] of Object.entries(sets)) {
    if (!set) throw new Error(`--part: expected test or dev, got ${part}`);
    const leaked = [...set.queries.map((query) => query.text), ...(set.words ?? [])].filter((text) => seen.has(text));
    if (leaked.length)
      throw new Error(`training has seen ${leaked.length} held-out texts of ${name}, e.g. "${leaked[0]}"`);
  }
  const place = new Map(words.map((word, i) => [word, i]));
  const entries = read('dictionary.jsonl')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const definitions = entries.flatMap(({ descriptions }, id) => descriptions.map((text) => ({ id, text })));
  // One document per word, with all its definitions: BM25 finds more with it than with one per definition.
  const documents = entries.map(({ descriptions }, id) => ({ id, text: descriptions.join(' ') }));
  return { words, place, sets, definitions, documents: documents.filter(({ text }) => text) };
}

/** Vectors of the dictionary's words, of their definitions, and of the queries of each set. */
async function embedAll(name, embed, data) {
  const run = async (texts) => {
    const rows = [];
    for (let start = 0; start < texts.length; start += BATCH) {
      if (process.stderr.isTTY) process.stderr.write(`\r${name}: ${start} of ${texts.length} texts `);
      const { data: flat, shape } = await embed(texts.slice(start, start + BATCH));
      for (let i = 0; i < shape[0]; i++) rows.push(normalized(flat.slice(i * shape[1], (i + 1) * shape[1])));
    }
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
    return rows;
  };
  const definitions = await run(data.definitions.map(({ text }) => text));
  const result = {
    dictionary: await run(data.words),
    definitions: data.definitions.map(({ id }, i) => ({ id, vector: definitions[i] })),
  };
  for (const [set, { queries }] of Object.entries(data.sets))
    result[set] = await run(queries.map((query) => query.text));
  return result;
}

/** Baseline: the mean of the model's word-piece vectors, without the encoder. */
async function meanWords(folder) {
  const tokenizer = await loadTokenizer(folder);
  const { data: table, shape } = readSafetensors(join(folder, 'model.safetensors'))(
    'embeddings.word_embeddings.weight',
  );
  const width = shape[1];
  return (texts) => {
    const out = new Float32Array(texts.length * width);
    texts.forEach((text, row) => {
      for (const id of tokenizer.encode(text, { addSpecialTokens: false })) {
        for (let j = 0; j < width; j++) out[row * width + j] += table[id * width + j];
      }
    });
    return { data: out, shape: [texts.length, width] };
  };
}

/** The first entries of each vector, normalized, as in the dictionary's index. */
function shortened({ definitions, ...vectors }, size) {
  const first = (row) => normalized(row.slice(0, size));
  return {
    ...Object.fromEntries(Object.entries(vectors).map(([set, rows]) => [set, rows.map(first)])),
    definitions: definitions.map(({ id, vector }) => ({ id, vector: first(vector) })),
  };
}

/** The rows of the model's dictionary. */
function bundledDictionary(folder, data) {
  const { data: flat, shape } = readSafetensors(join(folder, 'dictionary', 'index.safetensors'))('vectors');
  if (shape[0] !== data.words.length || shape[1] !== DIMENSIONS)
    throw new Error(
      `${folder}/dictionary: expected ${data.words.length} vectors of ${DIMENSIONS} entries, got ${shape}`,
    );
  return data.words.map((_, i) => normalized(flat.subarray(i * DIMENSIONS, (i + 1) * DIMENSIONS)));
}

/** The words' vectors as `heed index` makes them: a word's own plus `weight` times the mean of its definitions'. */
function described({ dictionary, definitions }) {
  const sums = dictionary.map((row) => ({ count: 0, sum: new Float32Array(row.length) }));
  for (const { id, vector } of definitions) {
    sums[id].count++;
    for (let j = 0; j < vector.length; j++) sums[id].sum[j] += vector[j];
  }
  const weight = Number(options.weight);
  return dictionary.map((row, w) => {
    const { count, sum } = sums[w];
    return count === 0 ? row : normalized(row.map((x, j) => x + (weight * sum[j]) / count));
  });
}

function byCosine(vectors, data) {
  const width = vectors.dictionary[0].length;
  const table = new Float32Array(data.words.length * width);
  for (const [w, row] of vectors.dictionary.entries()) table.set(row, w * width);
  return ({ set, i }) => {
    const query = vectors[set][i];
    const scores = new Float32Array(data.words.length);
    for (let w = 0, at = 0; w < scores.length; w++) {
      let sum = 0;
      for (let j = 0; j < width; j++) sum += table[at++] * query[j];
      scores[w] = sum;
    }
    return scores;
  };
}

function scoresOfWords(found, data) {
  const scores = new Float32Array(data.words.length);
  for (const [id, score] of found) scores[id] = score;
  return scores;
}

/** The rank of the best of the query's words; words with equal scores share the mean of their ranks. */
function rank(scores, query, { place }) {
  for (const word of query.ignore) scores[place.get(word)] = -Infinity;
  const right = query.words.map((word) => place.get(word));
  const best = Math.max(...right.map((w) => scores[w]));
  let above = 0;
  let equal = -1;
  for (const score of scores) {
    if (score > best) above++;
    else if (score === best) equal++;
  }
  return 1 + above + equal / 2;
}

function summary(ranks) {
  const share = (limit) => ranks.filter((r) => r <= limit).length / ranks.length;
  return { hit1: share(1), hit10: share(10), median: ranks.toSorted((a, b) => a - b)[ranks.length >> 1] };
}

/** Over the dictionary's words and the queries. */
function agreement(a, b) {
  const sets = Object.keys(a).filter((name) => name !== 'definitions');
  const cosines = sets.flatMap((set) => a[set].map((row, i) => dot(row, b[set][i])));
  return { mean: cosines.reduce((sum, x) => sum + x, 0) / cosines.length, least: Math.min(...cosines) };
}

async function describeAll(list, heed, dictionary, data) {
  const model = await heed.fromPretrained(options.model, { dtype: 'q8' });
  const entries = JSON.parse(readFileSync(new URL(list, import.meta.url), 'utf8'));
  const texts = entries.map(({ text }) => text);
  const { data: flat } = await model.embed(texts, { dimensions: DIMENSIONS, normalize: true });
  model.dispose();
  const rows = entries.map((_, i) => flat.slice(i * DIMENSIONS, (i + 1) * DIMENSIONS));
  const score = byCosine({ dictionary, descriptions: rows }, data);
  return entries.map((entry, i) => {
    const known = { words: entry.words.filter((word) => data.place.has(word)), ignore: [] };
    const scores = score({ set: 'descriptions', i });
    const order = data.words.map((_, w) => w).sort((a, b) => scores[b] - scores[a]);
    return { ...entry, rank: rank(scores, known, data), top: order.slice(0, 5).map((w) => data.words[w]) };
  });
}

function demonstrate(list, entries) {
  const found = (limit) => entries.filter((entry) => entry.rank <= limit).length;
  console.log(
    `\n${list}: ${found(10)} of ${entries.length} descriptions have an expected word in the top ten, ${found(1)} have it first (their words were trained on)`,
  );
  for (const { text, words, rank: place, top } of entries) {
    console.log(`  ${place <= 10 ? ' ' : '-'} ${text.padEnd(48)} ${words.join(', ')} at ${place}: ${top.join(', ')}`);
  }
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

function normalized(vector) {
  const length = Math.sqrt(dot(vector, vector)) || 1;
  return vector.map((x) => x / length);
}

function percent(share) {
  return `${(100 * share).toFixed(1)} %`.padStart(6);
}
