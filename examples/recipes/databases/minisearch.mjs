// Keyword search with MiniSearch beside vectors. Reciprocal rank fusion combines the two lists: it needs no common scale of scores.
import { load } from 'heed';
import MiniSearch from 'minisearch';
import { notes, questions } from './notes.mjs';

const heed = await load();
const model = await heed.fromPretrained();

// Words of one or two letters say little.
const processTerm = (word) => (word.length > 2 ? word.toLowerCase() : null);
const keywords = new MiniSearch({ fields: ['text'], processTerm });
keywords.addAll(notes.map((text, id) => ({ id, text })));
const index = await heed.TextIndex.of(model, notes);

/** The indices of the notes, best first: the sum of 1 / (60 + rank) over both searches. */
async function searchNotes(query, limit) {
  const similar = await index.search(query, { topK: 20 });
  const lists = [keywords.search(query), similar].map((hits) => hits.map(({ id }) => id));
  const scores = new Map();
  for (const list of lists)
    for (const [rank, id] of list.entries()) scores.set(id, (scores.get(id) ?? 0) + 1 / (60 + rank));
  return [...scores]
    .sort(([, a], [, b]) => b - a)
    .slice(0, limit)
    .map(([id]) => id);
}

for (const question of questions) {
  const [best] = await searchNotes(question, 1);
  console.log(`${question} -> ${notes[best]}`);
}
model.dispose();
