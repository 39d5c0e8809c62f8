// Vectors in Postgres with pgvector, here in the process through PGlite. With a server, only the line that opens the database changes.
import { PGlite } from '@electric-sql/pglite';
import { vector } from '@electric-sql/pglite-pgvector';
import { load } from 'heed';
import { notes, questions } from './notes.mjs';

const heed = await load();
const model = await heed.fromPretrained();
const toSql = (tensor) => `[${tensor.data.join(',')}]`;

const db = await PGlite.create({ extensions: { vector } });
await db.exec('CREATE EXTENSION vector');
await db.exec(`CREATE TABLE notes (id serial PRIMARY KEY, text text, embedding vector(${model.dimensions}))`);
const embeddings = await model.embedDocument(notes);
for (const [i, text] of notes.entries())
  await db.query('INSERT INTO notes (text, embedding) VALUES ($1, $2)', [text, toSql(embeddings.at(i))]);
await db.exec('CREATE INDEX ON notes USING hnsw (embedding vector_cosine_ops)');

for (const question of questions) {
  const query = toSql(await model.embedQuery(question));
  const { rows } = await db.query('SELECT text FROM notes ORDER BY embedding <=> $1 LIMIT 1', [query]);
  console.log(`${question} -> ${rows[0].text}`);
}
await db.close();
model.dispose();
