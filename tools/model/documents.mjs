// Search of documents with sentence vectors: 200 questions of everyday use over 40 short documents (documents.json), which were written for this test. BM25 searches the same texts.

import { readFileSync } from 'node:fs';
import { Bm25, STOP_WORDS } from './bm25.mjs';

/** `encoders`: name -> a function from texts to unit vectors. Prints the share of questions whose document is first, and among the first three. */
export async function searchDocuments(encoders) {
  const documents = JSON.parse(readFileSync(new URL('documents.json', import.meta.url), 'utf8'));
  const texts = documents.map(({ title, text }) => `${title}. ${text}`);
  const queries = documents.flatMap(({ questions }, right) => questions.map((text) => ({ text, right })));
  console.log(`\ndocuments: ${queries.length} questions, ${texts.length} documents`);
  const indexed = texts.map((text, id) => ({ id, text }));
  for (const [name, leftOut] of Object.entries({ BM25: new Set(), 'BM25 without stop words': STOP_WORDS })) {
    const bm25 = new Bm25(indexed, leftOut);
    const found = queries.map(({ text }) => new Map(bm25.search(text)));
    report(
      name,
      queries,
      found.map((scores) => texts.map((_, id) => scores.get(id) ?? 0)),
    );
  }
  for (const [name, embed] of Object.entries(encoders)) {
    const rows = await embed(texts);
    const questions = await embed(queries.map(({ text }) => text));
    const scores = questions.map((question) => rows.map((row) => row.reduce((sum, x, j) => sum + x * question[j], 0)));
    report(name, queries, scores);
  }
}

/** Prints the shares; equal scores share the mean of their ranks. */
function report(name, queries, scores) {
  const ranks = queries.map(({ right }, i) => {
    const above = scores[i].filter((score) => score > scores[i][right]).length;
    const equal = scores[i].filter((score) => score === scores[i][right]).length - 1;
    return 1 + above + equal / 2;
  });
  const share = (limit) => ranks.filter((rank) => rank <= limit).length / ranks.length;
  const percent = (limit) => `${(100 * share(limit)).toFixed(1)} %`.padStart(6);
  console.log(`  ${name.padEnd(40)} hit@1 ${percent(1)}  hit@3 ${percent(3)}`);
}
