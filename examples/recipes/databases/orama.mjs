// Hybrid search with Orama: full text and vectors in one index, in the page or in Node.
import { create, insertMultiple, search } from '@orama/orama';
import { load } from 'heed';
import { notes, questions } from './notes.mjs';

const heed = await load();
const model = await heed.fromPretrained();

const db = create({ schema: { text: 'string', embedding: `vector[${model.dimensions}]` } });
const embeddings = (await model.embedDocument(notes)).toArray();
await insertMultiple(
  db,
  notes.map((text, i) => ({ text, embedding: embeddings[i] })),
);

for (const question of questions) {
  const [value] = (await model.embedQuery(question)).toArray();
  const { hits } = await search(db, {
    mode: 'hybrid',
    term: question,
    vector: { value, property: 'embedding' },
    similarity: 0.2,
    hybridWeights: { text: 0.3, vector: 0.7 },
    limit: 1,
  });
  console.log(`${question} -> ${hits[0].document.text}`);
}
model.dispose();
