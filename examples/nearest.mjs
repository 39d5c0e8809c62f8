// Embeds sentences with the bundled model and prints the nearest neighbour of each.
import { load } from 'heed';

const sentences = [
  'A man is playing the guitar on stage.',
  'Someone performs music for an audience.',
  'The recipe needs two eggs and a cup of flour.',
  'Stir the butter and the sugar before baking.',
  'The train to the city leaves at half past six.',
  'Buses into town run every ten minutes.',
  'Scientists discovered a new planet beyond our solar system.',
  'The telescope observed distant stars and galaxies.',
];

const loading = performance.now();
const heed = await load();
const model = await heed.fromPretrained();
const embedding = performance.now();
const vectors = (await model.embed(sentences, { normalize: true })).toArray();
const done = performance.now();

const similarity = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
sentences.forEach((sentence, i) => {
  const scores = vectors.map((vector, j) => (i === j ? -Infinity : similarity(vectors[i], vector)));
  const nearest = scores.indexOf(Math.max(...scores));
  console.log(`${sentence}\n  ${scores[nearest].toFixed(3)}  ${sentences[nearest]}`);
});
console.log(
  `\nloaded in ${(embedding - loading).toFixed(0)} ms; embedded ${sentences.length} sentences in ${(done - embedding).toFixed(1)} ms`,
);
model.dispose();
