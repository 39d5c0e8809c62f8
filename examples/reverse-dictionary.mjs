// Reverse dictionary: for each description, prints the nearest of 20,000 common words, found with the bundled model.
import { readFileSync } from 'node:fs';
import { load } from 'heed';
import { nearestWords } from './support/answers.mjs';

const here = (path) => new URL(path, import.meta.url);
const descriptions = JSON.parse(readFileSync(here('../tools/model/descriptions.json'), 'utf8'));

const heed = await load();
const model = await heed.fromPretrained();
const index = await heed.TextIndex.load(here('../web/model/dictionary/'), { embedder: model });

const started = performance.now();
const queries = await model.embed(
  descriptions.map(({ text }) => text),
  { dimensions: index.dimensions },
);
const found = descriptions.map((description, i) => {
  const top = nearestWords(index, description.text, queries.at(i), 10);
  return { ...description, top: top.map(({ text }) => text) };
});
const took = performance.now() - started;

let expected = 0;
for (const { text, words, top } of found) {
  const hit = words.some((word) => top.includes(word));
  if (hit) expected++;
  console.log(`${hit ? ' ' : '?'} ${text.padEnd(48)} ${top.slice(0, 6).join(', ')}`);
}
console.log(
  `\nan expected word is among the first ten for ${expected} of ${found.length} descriptions; ${took.toFixed(0)} ms in all`,
);
model.dispose();
