// Vectors in SQLite with sqlite-vec, through Node's own SQLite (Node 22.13 or newer).
import { DatabaseSync } from 'node:sqlite';
import { load } from 'heed';
import * as sqliteVec from 'sqlite-vec';
import { notes, questions } from './notes.mjs';

const heed = await load();
const model = await heed.fromPretrained();

const db = new DatabaseSync(':memory:', { allowExtension: true });
sqliteVec.load(db);
db.exec(`CREATE VIRTUAL TABLE vectors USING vec0(embedding float[${model.dimensions}] distance_metric=cosine)`);
db.exec('CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)');
const toBytes = ({ data }) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

const embeddings = await model.embedDocument(notes);
for (const [i, text] of notes.entries()) {
  db.prepare('INSERT INTO notes VALUES (?, ?)').run(i, text);
  db.prepare('INSERT INTO vectors (rowid, embedding) VALUES (?, ?)').run(BigInt(i), toBytes(embeddings.at(i)));
}

const search = db.prepare(
  'SELECT text FROM vectors JOIN notes ON notes.id = vectors.rowid WHERE embedding MATCH ? AND k = 1 ORDER BY distance',
);
for (const question of questions) {
  const { text } = search.get(toBytes(await model.embedQuery(question)));
  console.log(`${question} -> ${text}`);
}
db.close();
model.dispose();
