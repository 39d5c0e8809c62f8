// Counts the bytes that `fromPretrained(url, { embeddings: 'paged' })` fetches, with a server of this machine: `node bench/paged.mjs`, after `npm run build`.
//
// The model has the shape of multilingual-e5-small (250,037 x 384, 12 layers, fp32) and weights without meaning. Texts are 30 token ids each, drawn with probabilities as 1 / (rank + 2.7)
// (Zipf, Mandelbrot), as vocabularies are mostly ordered by frequency. The tokenizer's file is not counted.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { load } from '../dist/index.js';
import { xlmRoberta } from './paged-shape.mjs';

const VOCABULARY = 250_037;
const ROW_BYTES = 4 * 384;
const { config, header, size } = xlmRoberta(VOCABULARY, 384, 12);

/** Small numbers, again and again. */
const block = Buffer.from(Float32Array.from({ length: 1 << 16 }, (_, i) => Math.sin(i) / 20).buffer);
function bytesOf(begin, end) {
  const out = Buffer.alloc(end - begin);
  for (let at = begin; at < end; ) {
    const from = (at - header.length) % block.length;
    const source = at < header.length ? header.subarray(at) : block.subarray(from);
    at += source.copy(out, at - begin);
  }
  return out;
}

let sent = 0;
let requests = 0;
const server = createServer(async (request, response) => {
  requests++;
  if (request.url === '/model/config.json') return response.end(JSON.stringify(config));
  if (!request.url.endsWith('/model.safetensors')) return response.writeHead(404).end();
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range);
  const end = Math.min(Number(last) + 1, size);
  response.writeHead(206, {
    'content-range': `bytes ${first}-${end - 1}/${size}`,
    'content-length': end - first,
    etag: '"1"',
  });
  sent += end - first;
  for (let at = Number(first); at < end; at += 1 << 20)
    if (!response.write(bytesOf(at, Math.min(at + (1 << 20), end)))) await once(response, 'drain');
  response.end();
}).listen(0, '127.0.0.1');
await once(server, 'listening');

let state = 1;
const random = () => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state / 2 ** 32;
};
const text = () => Array.from({ length: 30 }, () => Math.floor(2.7 * ((VOCABULARY / 2.7 + 1) ** random() - 1)));
const texts = Array.from({ length: 1000 }, text);

const mb = (bytes) => (bytes / 1e6).toFixed(2);
console.log(
  '| bytes per page | pages of the first text, MB | of 10 texts | of 100 | of 1,000 |\n| --: | --: | --: | --: | --: |',
);
for (const pageBytes of [2048, 4096, 16384, 65536, 262144]) {
  const rows = Math.max(1, Math.floor(pageBytes / ROW_BYTES));
  const pages = (count) => new Set(texts.slice(0, count).flatMap((ids) => ids.map((id) => Math.floor(id / rows)))).size;
  const cells = [1, 10, 100, 1000].map((count) => `${mb(pages(count) * rows * ROW_BYTES)} (${pages(count)})`);
  console.log(`| ${pageBytes} | ${cells.join(' | ')} |`);
}

const heed = await load();
const model = await heed.fromPretrained(`http://127.0.0.1:${server.address().port}/model`, { embeddings: 'paged' });
console.log(`whole file: ${mb(size)} MB; loaded with ${mb(sent)} MB in ${requests} requests`);
let before = sent;
for (const [label, inputIds] of [
  ['first text', texts.slice(0, 1)],
  ['next 9', texts.slice(1, 10)],
  ['next 90', texts.slice(10, 100)],
]) {
  requests = 0;
  await model.embed({ inputIds });
  console.log(`${label}: ${mb(sent - before)} MB in ${requests} requests; ${mb(sent)} MB so far`);
  before = sent;
}
model.dispose();
server.close();
