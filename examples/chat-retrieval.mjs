// Retrieval and reranking for a chat application: finds the passages that an answer should be based on, and writes the prompt for a language model.
//
//   node chat-retrieval.mjs "How long may I return things?"
//   node chat-retrieval.mjs "How long may I return things?" cross-encoder/ms-marco-MiniLM-L6-v2    # reranks; downloads 91 MB, once
import { load, rerank, semanticSearch } from 'heed';

const handbook = `
Items may be sent back within 30 days. The refund arrives on your card within a week.

We deliver to all countries of the European Union. Parcels to islands take two days longer.

The warranty covers defects for two years. It does not cover damage by water.

Gift cards are valid for three years and cannot be exchanged for cash.

Our shop in Lisbon is open from ten to seven, and closed on Mondays.
`;

/** Paragraphs, with the handbook's positions, so that an answer can cite them. */
const passages = handbook
  .trim()
  .split(/\n\s*\n/)
  .map((text, number) => ({ number: number + 1, text: text.trim() }));

const [question = 'Can I send back a purchase and get my money?', crossEncoder] = process.argv.slice(2);
const heed = await load();
const model = await heed.fromPretrained();
const texts = passages.map(({ text }) => text);

// 1. The vectors of the passages are computed once; in an application, store them.
const vectors = await model.embed(texts);

// 2. Retrieval is fast and finds candidates; a cross-encoder reads each candidate together with the question and orders them better.
const [candidates] = semanticSearch(await model.embed(question), vectors, { topK: 3 });
let best = candidates.map(({ index }) => index);
if (crossEncoder) {
  const reranker = await heed.fromPretrained(crossEncoder, { remoteHost: 'https://huggingface.co', cache: true });
  const ranked = await rerank(
    reranker,
    question,
    best.map((index) => texts[index]),
  );
  best = ranked.map(({ index }) => best[index]);
  reranker.dispose();
}

// 3. The prompt. Passages that do not fit the question cost tokens and mislead, so only the best two are given.
const context = best.slice(0, 2).map((index) => `[${passages[index].number}] ${passages[index].text}`);
console.log(
  `Answer from these passages only, and cite their numbers.\n\n${context.join('\n')}\n\nQuestion: ${question}`,
);
model.dispose();
