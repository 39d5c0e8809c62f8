// What is measured of a model: texts of WordNet, the similarity of their vectors, descriptions of words, and pairs of STS-B.
import { readFileSync } from 'node:fs';
import { parse } from 'csv-parse/sync';
import { nearestWords } from '../../examples/support/answers.mjs';
import { wordnet } from './sources.mjs';

const NEAREST = 10;

const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

/** Definitions and examples of `count` synsets: other ones than those to which bundle.mjs fits the matrices. */
export async function sampleOf(count) {
  const all = await wordnet();
  return Array.from({ length: count }, (_, i) => {
    const { gloss, examples } = all[Math.floor((i * all.length) / count)];
    return [gloss, ...examples].join('; ');
  });
}

/** Each text's vector, of norm 1. */
export async function embed(model, texts) {
  const { data, shape } = await model.embed(texts, { normalize: true });
  return texts.map((_, n) => data.subarray(n * shape[1], (n + 1) * shape[1]));
}

/** The rows nearest to each row. */
const nearestOf = (rows) =>
  rows.map((row, n) => {
    const scores = rows.map((other, i) => [i === n ? -1 : dot(row, other), i]).sort((a, b) => b[0] - a[0]);
    return new Set(scores.slice(0, NEAREST).map(([, i]) => i));
  });

/** The mean and least cosine of rows to others, and the share of a row's 10 nearest rows that are so among the others, too. */
export function similarity(rows, others) {
  const cosines = rows.map((row, n) => dot(row, others[n]));
  const [near, far] = [rows, others].map(nearestOf);
  const shared = near.map((own, n) => [...own].filter((i) => far[n].has(i)).length / NEAREST);
  return { mean: mean(cosines), least: Math.min(...cosines), neighbours: mean(shared) };
}

/**
 * For how many descriptions of a list the dictionary has an expected word first, and among the first ten: of all words, and of words
 * other than those of the description. `count`: the number of descriptions.
 */
export async function describe(list, model, index) {
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
  return { count: entries.length, counts };
}

/** Pairs of sentences with their similarity, 0 to 5. */
export const readSts = (file) =>
  parse(readFileSync(file, 'utf8')).map(([a, b, score]) => ({ a, b, score: Number(score) }));
