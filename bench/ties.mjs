/**
 * Compares the searches of two builds of heed: one query over 50,000 vectors of width 384, where 0, 30, 2,000 or all of them are copies of the best hit, and 1, 2, 4 and 64 queries
 * over 100,000 vectors. The builds take turns. Prints the median processor time per search of each build, and whether both find the same hits.
 *
 *     node bench/ties.mjs DIST_A DIST_B
 */
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ownTime } from './cpu-time.mjs';
import { median } from './harness.mjs';

const WIDTH = 384;
const builds = await Promise.all(
  process.argv.slice(2, 4).map(async (dist) => {
    const { load, Tensor } = await import(pathToFileURL(`${resolve(dist)}/index.js`).href);
    return { heed: await load(), Tensor };
  }),
);
let state = 1;
const random = () => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 31 - 1;
};

/** Prints the processor time of `search(index)` for an index of `rows` in each build. */
async function compare(label, storage, rows, search) {
  const count = rows.length / WIDTH;
  const indexes = [];
  for (const { heed, Tensor } of builds) {
    const index = heed.TextIndex.of([], undefined, { storage });
    for (let first = 0; first < count; first += 10_000) {
      const part = rows.slice(first * WIDTH, (first + 10_000) * WIDTH);
      const texts = Array.from({ length: part.length / WIDTH }, (_, i) => `text ${first + i}`);
      await index.add(texts, { vectors: new Tensor(part, [texts.length, WIDTH]) });
    }
    indexes.push(index);
  }
  const times = [[], []];
  const found = indexes.map((index, i) => JSON.stringify(search(index, builds[i].Tensor)));
  for (let round = 0; round < 9; round++) {
    for (const i of round % 2 ? [1, 0] : [0, 1]) {
      const start = ownTime();
      let calls = 0;
      while (ownTime() - start < 150 || calls < 2) {
        search(indexes[i], builds[i].Tensor);
        calls++;
      }
      if (round > 1) times[i].push((ownTime() - start) / calls);
    }
  }
  const [a, b] = times.map((list) => median(list).toFixed(2));
  console.log(`${storage}, ${label}: ${a} and ${b} ms; ${found[0] === found[1] ? 'the same hits' : 'OTHER HITS'}`);
}

const base = Float32Array.from({ length: 100_000 * WIDTH }, random);
const queries = Float32Array.from({ length: 64 * WIDTH }, (_, i) => base[i % WIDTH] + 0.3 * random());
for (const storage of ['int8', 'float32']) {
  for (const copies of [0, 30, 2000, 50_000]) {
    const rows = base.slice(0, 50_000 * WIDTH);
    for (let i = 0; i < copies; i++) rows.copyWithin(Math.floor((i * 50_000) / copies) * WIDTH, 0, WIDTH);
    await compare(`${copies} copies of the best`, storage, rows, (index) => index.search(queries.slice(0, WIDTH)));
  }
}
const other = Float32Array.from({ length: 64 * WIDTH }, random);
for (const count of [1, 2, 4, 64])
  await compare(`100,000 rows, ${count} queries`, 'int8', base, (index, Tensor) =>
    index.searchAll(new Tensor(other.slice(0, count * WIDTH), [count, WIDTH])),
  );
