/**
 * Lays out the words of the dictionary for the map on “Meaning”, and names its regions: `node demo/measure-map.mjs`, after `npm run build` and whenever the
 * dictionary changes. Writes src/pages/meaning/words-map.json.
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { load, Tensor } from 'heed';
import { UMAP } from 'umap-js';
import { offered } from '../examples/support/answers.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const neighbours = 15;
/** Places on each axis; two hexadecimal digits. */
const places = 256;
/** Words that may name a region, and how many of the nearest words of one have to be how near to its name. */
const names = (
  'animal bird fish insect horse tree flower fruit vegetable food drink cook clothes fabric hair disease medicine injury pain fear anger sadness joy love law crime prison ' +
  'election war soldier religion money trade tax business job school science number computer car boat aircraft road city country house furniture river sea rain fire heat light ' +
  'color sound music dance language word letter book time month past future child marriage birth sport planet metal stone truth size strong'
).split(' ');
const [nearOnes, within] = [60, 12];
/** Random numbers in [0, 1): Park and Miller's generator. */
function uniform(seed) {
  let state = seed;
  return () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
}

const heed = await load({ build: 'simd128' });
const index = await heed.TextIndex.load(here('../web/model/dictionary'));
const width = index.dimensions;
const kept = [...index.texts.keys()].filter((i) => offered(index.texts[i]));
const all = index.toTensor().data;
const data = new Float32Array(kept.length * width);
for (const [to, from] of kept.entries()) {
  const row = all.subarray(from * width, (from + 1) * width);
  const norm = Math.hypot(...row);
  for (let i = 0; i < width; i++) data[to * width + i] = row[i] / norm;
}
const placeOf = new Map(kept.map((from, to) => [from, to]));
/** The nearest other words of each word, the nearest first. */
const near = [];
const batch = 500;
for (let at = 0; at < kept.length; at += batch) {
  const rows = kept.slice(at, at + batch).length;
  const queries = new Tensor(data.slice(at * width, (at + rows) * width), [rows, width]);
  // Some hits are words that are not offered.
  for (const [i, hits] of index.searchAll(queries, { topK: 2 * neighbours }).entries())
    near.push(
      hits
        .map(({ index, score }) => ({ index: placeOf.get(index), score }))
        .filter(({ index }) => index !== undefined && index !== at + i)
        .slice(0, neighbours),
    );
  if (at % 5000 === 0) console.log('neighbours of', at);
}
const umap = new UMAP({ nComponents: 2, nNeighbors: neighbours + 1, minDist: 0.1, random: uniform(1) });
umap.setPrecomputedKNN(
  near.map((hits, i) => [i, ...hits.map(({ index }) => index)]),
  near.map((hits) => [0, ...hits.map(({ score }) => Math.max(0, 1 - score))]),
);
const epochs = umap.initializeFit(kept.map((_, i) => [i]));
// As in umap-learn, the layout starts from the vectors' two principal directions, which keep distant regions in order.
const mean = new Float64Array(width);
for (let i = 0; i < data.length; i++) mean[i % width] += data[i] / kept.length;
const directions = [];
for (const seed of [1, 2]) {
  const random = uniform(seed);
  let direction = Array.from({ length: width }, () => random() - 0.5);
  for (let step = 0; step < 30; step++) {
    const next = new Array(width).fill(0);
    for (let row = 0; row < kept.length; row++) {
      let dot = 0;
      for (let i = 0; i < width; i++) dot += (data[row * width + i] - mean[i]) * direction[i];
      for (let i = 0; i < width; i++) next[i] += dot * (data[row * width + i] - mean[i]);
    }
    for (const other of directions) {
      const dot = other.reduce((sum, entry, i) => sum + entry * next[i], 0);
      for (let i = 0; i < width; i++) next[i] -= dot * other[i];
    }
    const norm = Math.hypot(...next);
    direction = next.map((entry) => entry / norm);
  }
  directions.push(direction);
}
for (const [row, place] of umap.getEmbedding().entries())
  for (const axis of [0, 1]) {
    let dot = 0;
    for (let i = 0; i < width; i++) dot += (data[row * width + i] - mean[i]) * directions[axis][i];
    place[axis] = 20 * dot;
  }
for (let epoch = 0; epoch < epochs; epoch++) {
  umap.step();
  if (epoch % 50 === 0) console.log('epoch', epoch);
}
const layout = umap.getEmbedding();
const grid = [0, 1].map((axis) => {
  // The outermost places of 1 in 1,000 words are moved to the edge.
  const sorted = layout.map((place) => place[axis]).sort((a, b) => a - b);
  const [low, high] = [sorted[Math.floor(sorted.length / 1000)], sorted[Math.ceil((sorted.length * 999) / 1000) - 1]];
  return layout.map((place) =>
    Math.max(0, Math.min(places - 1, Math.round(((place[axis] - low) / (high - low)) * (places - 1)))),
  );
});

/** A name stands at the median place of the words nearest to it, if half of them are near there. */
const regions = [];
for (const name of names) {
  const at = index.texts.indexOf(name);
  const hits = index
    .search(all.slice(at * width, (at + 1) * width), { topK: 2 * nearOnes })
    .map(({ index }) => placeOf.get(index))
    .filter((to) => to !== undefined)
    .slice(0, nearOnes);
  const [x, y] = grid.map((axis) => hits.map((to) => axis[to]).sort((a, b) => a - b)[nearOnes / 2]);
  const gaps = hits.map((to) => Math.hypot(grid[0][to] - x, grid[1][to] - y)).sort((a, b) => a - b);
  if (gaps[nearOnes / 2] <= within) regions.push([name, x, y]);
}
const hex = (value) => value.toString(16).padStart(2, '0');
writeFileSync(
  here('src/pages/meaning/words-map.json'),
  `${JSON.stringify({ regions, places: kept.map((_, i) => hex(grid[0][i]) + hex(grid[1][i])).join('') })}\n`,
);
console.log(regions.map(([name]) => name).join(' '));
heed.dispose();
