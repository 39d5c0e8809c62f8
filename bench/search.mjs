// Measures TextIndex beside two graph indexes (HNSW), usearch, compiled to native code, and hnswlib, compiled to WebAssembly, and beside a plain loop in JavaScript over the same
// bytes: `node bench/search.mjs [sizes...] [--no-peer] [--int8] [--cpu]`, after `npm run build` and `npm install --prefix bench`. Prints rows of the table in docs/search.md. --int8: without the other forms; --cpu: CPU time of the thread, for a machine that is busy (Node 24): means, as
// the system counts it in steps of milliseconds.
//
// Vectors of 384 entries: a random linear map of 96 latent variables, whose deviations fall as 1 / sqrt(rank) as those of embeddings do, around 1,000 centers, plus noise. Queries are
// drawn in the same way and are not in the index. Recall: how many of the exact 10 nearest, by the cosine of the fp32 vectors, are among the 10 found.
import { availableParallelism, cpus, loadavg } from 'node:os';
import { load, Tensor } from '../dist/index.js';

const WIDTH = 384;
const LATENT = 96;
const CENTERS = 1000;
const QUERIES = 100;
const BATCH = 10_000;
const K = 10;

const heed = await load();

const cpuMs = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};
const isCpu = process.argv.includes('--cpu');
const nowMs = isCpu ? cpuMs : () => performance.now();

function generator(seed) {
  let state = seed;
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  return { uniform, normal };
}

const fixed = generator(1);
const normals = (rows, width, { normal }) =>
  new Tensor(Float32Array.from({ length: rows * width }, normal), [rows, width]);
const map = normals(WIDTH, LATENT, fixed);
const centers = normals(CENTERS, LATENT, fixed).data;

/** `count` vectors of length 1. */
function vectors(count, random) {
  const latent = new Float32Array(count * LATENT);
  for (let n = 0; n < count; n++) {
    const center = Math.floor(random.uniform() * CENTERS) * LATENT;
    for (let i = 0; i < LATENT; i++)
      latent[n * LATENT + i] = (centers[center + i] + random.normal()) / Math.sqrt(i + 1);
  }
  const { data, shape } = heed.linear(new Tensor(latent, [count, LATENT]), { weight: map });
  for (let n = 0; n < count; n++) {
    const row = data.subarray(n * WIDTH, (n + 1) * WIDTH);
    let sum = 0;
    for (let i = 0; i < WIDTH; i++) {
      row[i] += 0.3 * (random.uniform() - 0.5);
      sum += row[i] * row[i];
    }
    for (let i = 0; i < WIDTH; i++) row[i] /= Math.sqrt(sum);
  }
  return new Tensor(data, shape);
}

const queries = vectors(QUERIES, generator(2));
const queryOf = (n) => queries.data.slice(n * WIDTH, (n + 1) * WIDTH);

/** The corpus in batches, the same ones each time. */
function* corpus(size) {
  const random = generator(3);
  for (let first = 0; first < size; first += BATCH)
    yield { first, batch: vectors(Math.min(BATCH, size - first), random) };
}

/** The exact K nearest rows of each query. */
function exact(size) {
  let best = Array.from({ length: QUERIES }, () => []);
  for (const { first, batch } of corpus(size)) {
    const scores = heed.linear(queries, { weight: batch }).data;
    const rows = batch.shape[0];
    best = best.map((found, n) => {
      const own = scores.subarray(n * rows, (n + 1) * rows);
      const least = found[K - 1]?.score ?? -1;
      own.forEach((score, i) => score > least && found.push({ row: first + i, score }));
      return found.sort((a, b) => b.score - a.score).slice(0, K);
    });
  }
  return best.map((found) => new Set(found.map(({ row }) => row)));
}

const percentile = (times, p) => times.sort((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * p))];
const seconds = (body) => {
  const start = nowMs();
  const result = body();
  return [(nowMs() - start) / 1000, result];
};

/** `find(query)`: the rows found. */
function measure(label, size, nearest, find, count, note) {
  find(queryOf(0));
  let hits = 0;
  let times = [];
  const start = nowMs();
  for (let n = 0; n < count; n++) {
    const query = queryOf(n);
    const [time, rows] = seconds(() => find(query));
    times.push(1000 * time);
    for (const row of rows) if (nearest[n].has(Number(row))) hits++;
  }
  if (isCpu) {
    let calls = count;
    for (; nowMs() - start < 500; calls++) find(queryOf(calls % count));
    times = [(nowMs() - start) / calls];
  }
  const ms = (p) => percentile(times, p).toPrecision(3);
  console.log(
    `| ${size.toLocaleString('en')} | ${label} | ${(hits / (count * K)).toFixed(3)} | ${ms(0.5)} | ${ms(0.95)} | ${note} |`,
  );
}

async function filled(size, storage) {
  const index = heed.TextIndex.of([], undefined, { storage });
  let adding = 0;
  for (const { first, batch } of corpus(size)) {
    const rows = storage === 'binary' ? signs(batch) : batch;
    const texts = Array.from({ length: batch.shape[0] }, (_, i) => `text ${first + i}`);
    const start = performance.now();
    await index.add(texts, { vectors: rows });
    adding += (performance.now() - start) / 1000;
  }
  return [index, adding];
}

async function measureHeed(size, storage, nearest, searches) {
  const [index, adding] = await filled(size, storage);
  index.search(queryOf(0), { candidates: 1 }); // computes the signs
  let start = performance.now();
  const file = await index.save();
  const saving = (performance.now() - start) / 1000;
  start = performance.now();
  const loaded = await heed.TextIndex.load({ 'index.safetensors': file });
  loaded.dispose();
  const loading = (performance.now() - start) / 1000;
  const note = `${adding.toFixed(1)} | ${saving.toFixed(2)} | ${loading.toFixed(2)}`;
  for (const candidates of searches) {
    const label = `\`${storage}\`, ${candidates ? `\`candidates: ${candidates}\`` : 'all compared'}`;
    const options = { topK: K, ...(candidates ? { candidates } : { exact: true }) };
    measure(label, size, nearest, (query) => index.search(query, options).map(({ index }) => index), QUERIES, note);
  }
  if (storage === 'int8') {
    const many = new Tensor(queries.data.slice(0, 64 * WIDTH), [64, WIDTH]);
    // In turns, as the ratio matters.
    const [all, one] = [[], []];
    for (let i = 0; i < 9; i++) {
      all.push(1000 * seconds(() => index.searchAll(many, { topK: K, exact: true }))[0]);
      const each = () => {
        for (let n = 0; n < 16; n++) index.search(queryOf(n), { topK: K, exact: true });
      };
      one.push((1000 * seconds(each)[0]) / 16);
    }
    const [ms, single] = [percentile(all, 0.5), percentile(one, 0.5)];
    console.log(
      `64 queries at once, all of ${size.toLocaleString('en')} compared: ${ms.toPrecision(3)} ms, ${(ms / single).toFixed(1)} times one (${single.toPrecision(3)} ms)`,
    );
  }
  index.dispose();
}

/** The products of a query and all rows, and the largest ten, as one would write it first. */
function measurePlainLoop(size, nearest) {
  const data = new Int8Array(size * WIDTH);
  for (const { first, batch } of corpus(size))
    batch.data.forEach((v, i) => (data[first * WIDTH + i] = Math.round(127 * 3 * v)));
  const search = (query) => {
    const best = [];
    for (let n = 0; n < size; n++) {
      let sum = 0;
      const at = n * WIDTH;
      for (let i = 0; i < WIDTH; i++) sum += query[i] * data[at + i];
      if (best.length === K && sum <= best[K - 1].sum) continue;
      best.push({ n, sum });
      best.sort((a, b) => b.sum - a.sum);
      best.length = Math.min(K, best.length);
    }
    return best.map(({ n }) => n);
  };
  measure('a plain loop in JavaScript', size, nearest, search, size >= 1e6 ? 20 : QUERIES, '| | ');
}

function signs({ data, shape }) {
  const bytes = new Uint8Array(data.length / 8);
  for (let i = 0; i < data.length; i++) if (data[i] > 0) bytes[i >> 3] |= 128 >> (i & 7);
  return new Tensor(bytes, [shape[0], shape[1] / 8]);
}

async function measureUsearch(size, nearest) {
  const { default: usearch } = await import('usearch');
  const { tmpdir } = await import('node:os');
  const { join } = await import('node:path');
  const { mkdtempSync, rmSync } = await import('node:fs');
  const options = { metric: 'cos', dimensions: WIDTH, quantization: 'i8', connectivity: 16 };
  const index = new usearch.Index(options);
  let adding = 0;
  for (const { first, batch } of corpus(size)) {
    const keys = BigUint64Array.from({ length: batch.shape[0] }, (_, i) => BigInt(first + i));
    adding += seconds(() => index.add(keys, batch.data, 1))[0];
  }
  const folder = mkdtempSync(join(tmpdir(), 'heed-bench-'));
  const file = join(folder, 'index');
  const [saving] = seconds(() => index.save(file));
  const [loading] = seconds(() => new usearch.Index(options).load(file));
  rmSync(folder, { recursive: true });
  const note = `${adding.toFixed(1)} | ${saving.toFixed(2)} | ${loading.toFixed(2)}`;
  measure('usearch (native, HNSW, int8)', size, nearest, (query) => index.search(query, K, 1).keys, QUERIES, note);
}

/** hnswlib with the parameters of its documentation. Made for browsers: what it asks of one is put in place here, and it writes no files. */
async function measureHnswlib(size, nearest) {
  Object.assign(globalThis, { window: globalThis, document: { currentScript: null }, indexedDB: { open: () => ({}) } });
  const { loadHnswlib } = await import(new URL('node_modules/hnswlib-wasm/dist/hnswlib.js', import.meta.url));
  const { HierarchicalNSW } = await loadHnswlib();
  const index = new HierarchicalNSW('cosine', WIDTH, '');
  index.initIndex(size, 16, 200, 100);
  let adding = 0;
  for (const { batch } of corpus(size)) {
    const rows = Array.from({ length: batch.shape[0] }, (_, n) => batch.data.subarray(n * WIDTH, (n + 1) * WIDTH));
    adding += seconds(() => index.addItems(rows, false))[0];
  }
  for (const ef of [16, 64, 256]) {
    index.setEfSearch(ef);
    const find = (query) => index.searchKnn(query, K, undefined).neighbors;
    measure(`hnswlib (WebAssembly, HNSW, fp32), ef ${ef}`, size, nearest, find, QUERIES, `${adding.toFixed(1)} | | `);
  }
}

const sizes = process.argv
  .slice(2)
  .filter((word) => /^\d+$/.test(word))
  .map(Number);
console.log(
  `${cpus()[0].model}, ${availableParallelism()} cores, Node ${process.version}, load ${loadavg()[0].toFixed(1)}`,
);
console.log('| texts | search | recall@10 | median ms | p95 ms | adding s | saving s | loading s |');
console.log('| --: | --- | --: | --: | --: | --: | --: | --: |');
for (const size of sizes.length > 0 ? sizes : [10_000, 100_000, 1_000_000]) {
  const nearest = exact(size);
  await measureHeed(size, 'int8', nearest, [0, 4, 16, 64, 256]);
  if (!process.argv.includes('--int8')) {
    await measureHeed(size, 'float32', nearest, [0, 256]);
    await measureHeed(size, 'binary', nearest, [4, 64]);
  }
  measurePlainLoop(size, nearest);
  if (!process.argv.includes('--no-peer')) {
    await measureUsearch(size, nearest);
    await measureHnswlib(size, nearest);
  }
}
process.exit(0); // hnswlib waits for storage that is not there
