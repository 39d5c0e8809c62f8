// How long a page's main thread is held by an index of a million vectors: the index in the page beside the index in the worker of its model.
//   node bench/index-worker.mjs [texts] [rounds]
// after `npm run build`. Prints rows of the table in docs/search.md: the longest gap between two animation frames, the longest task in CPU
// time of the main thread (from a trace of Chromium), and how long the calls took; medians over rounds, which alternate between both.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { cpus, loadavg } from 'node:os';
import { extname, join } from 'node:path';
import { launchChromium } from '../tools/chromium.mjs';
import { root } from '../tools/console.mjs';
import { median } from './harness.mjs';
import { longestTasks } from './page-responsiveness.mjs';

const kTypes = { '.js': 'text/javascript', '.wasm': 'application/wasm' };
const kWidth = 384;

const html = `<!doctype html><link rel="icon" href="data:,"><script type="module">
import { load } from '/dist/index.js';
const heed = await load();
const model = await heed.fromPretrained(undefined, { worker: true });
const width = ${kWidth};
let state = 1;
function bytes(count) {
  const words = new Int32Array(count / 4);
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = state;
  }
  return new Int8Array(words.buffer);
}
const query = () => Float32Array.from(bytes(width));
const floats = (rows) => ({ data: Float32Array.from(bytes(rows * width)), shape: [rows, width] });
const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
let index;
let file;
let input;
Object.assign(window, {
  async fill(count, worker) {
    index = await heed.TextIndex.of(model, [], worker ? { worker } : {});
    for (let first = 0; first < count; first += 10_000) {
      const texts = Array.from({ length: 10_000 }, (_, i) => 'text ' + (first + i));
      await index.add(texts, { vectors: { data: bytes(10_000 * width), shape: [10_000, width] } });
    }
    await index.search(query()); // the first one computes the signs
    await index.search(query(), { exact: true });
  },
  actions: {
    async search() {
      for (let i = 0; i < 50; i++) {
        await frame();
        await index.search(query());
      }
    },
    async exact() {
      for (let i = 0; i < 10; i++) {
        await frame();
        await index.search(query(), { exact: true });
      }
    },
    async filter() {
      await index.search(query(), { filter: ({ index }) => index % 10 === 0 });
    },
    async many() {
      await index.searchAll(input, { exact: true });
    },
    async text() {
      for (let i = 0; i < 10; i++) await index.search('a text with the number ' + i);
    },
    async add() {
      await index.add(input.texts, { vectors: input });
    },
    async save() {
      file = await index.save();
    },
    async load(worker) {
      index.dispose();
      index = await heed.TextIndex.load(file, worker ? { embedder: model, worker } : { embedder: model });
      file = undefined;
    },
  },
  prepare(name) {
    input = { ...floats(name === 'add' ? 10_000 : 64), texts: Array.from({ length: 10_000 }, (_, i) => 'new ' + i) };
  },
  async measure(name, worker) {
    await frame();
    const begin = performance.now();
    let last = begin;
    let longest = 0;
    let isDone = false;
    const onFrame = () => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
      if (!isDone) requestAnimationFrame(onFrame);
    };
    requestAnimationFrame(onFrame);
    await window.actions[name](worker);
    const took = performance.now() - begin;
    await new Promise((resolve) => setTimeout(resolve, 100)); // the frames behind the last task
    isDone = true;
    return { gap: longest, took };
  },
  ready: true,
});
</script>`;

const kActions = {
  search: '50 searches for vectors, one per frame',
  exact: '10 searches with `exact: true`, one per frame',
  many: '`searchAll` for 64 vectors with `exact: true`',
  filter: 'a search with a `filter`',
  text: '10 searches for texts',
  add: '`add` of 10,000 fp32 vectors',
  save: '`save`',
  load: '`load` of these bytes',
};

const [count = 1_000_000, rounds = 3] = process.argv.slice(2).map(Number);
const server = createServer((request, response) => {
  const { pathname } = new URL(request.url, 'http://localhost');
  const type = kTypes[extname(pathname)] ?? 'application/octet-stream';
  response.writeHead(200, { 'Content-Type': pathname === '/' ? 'text/html' : type });
  response.end(pathname === '/' ? html : readFileSync(join(root, pathname)));
});
await new Promise((resolve) => server.listen(0, resolve));
const measured = new Map();
console.log(`${cpus()[0].model}, ${cpus().length} cores, load ${loadavg()[0].toFixed(1)}, ${count} texts`);
for (let round = 0; round < rounds; round++)
  for (const worker of [false, true]) {
    const browser = await launchChromium();
    const page = await browser.newPage();
    page.setDefaultTimeout(600_000);
    page.on('pageerror', (error) => console.error(error.message));
    await page.goto(`http://localhost:${server.address().port}/`);
    await page.waitForFunction(() => window.ready);
    await page.evaluate(([count, worker]) => window.fill(count, worker), [count, worker]);
    for (const name of Object.keys(kActions)) {
      await page.evaluate((name) => window.prepare(name), name);
      await browser.startTracing(page, {
        categories: ['toplevel', 'disabled-by-default-devtools.timeline', '__metadata'],
      });
      const { gap, took } = await page.evaluate(([name, worker]) => window.measure(name, worker), [name, worker]);
      const [task = 0] = longestTasks(await browser.stopTracing());
      const key = `${name} ${worker}`;
      measured.set(key, [...(measured.get(key) ?? []), { gap, task, took }]);
    }
    console.error(`round ${round + 1}, ${worker ? 'worker' : 'page'}: ${browser.version()}`);
    await browser.close();
  }
server.close();
console.log('| | longest task, page | worker | longest gap, page | worker | duration, page | worker |');
console.log('| --- | --: | --: | --: | --: | --: | --: |');
for (const [name, label] of Object.entries(kActions)) {
  const each = (of) =>
    [false, true].map((worker) => Math.round(median(measured.get(`${name} ${worker}`).map((m) => m[of]))));
  console.log(`| ${[label, ...each('task'), ...each('gap'), ...each('took')].join(' | ')} |`);
}
