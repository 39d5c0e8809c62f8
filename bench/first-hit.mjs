// From navigation to the first hit over 120 texts, in a page without a bundler: milliseconds and requests, on a network with 60 ms per
// request and 3 MB/s. Beside it transformers.js with all-MiniLM-L6-v2 in int8, if bench/ is installed (`npm run bench` does that and writes
// the model's shape with random weights).
//   node bench/first-hit.mjs [runs]
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import { launchChromium } from '../tools/chromium.mjs';
import { root } from '../tools/console.mjs';

const kLatency = 60;
const kBytesPerMs = 3000;
const kTypes = {
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
  '.html': 'text/html',
};

const kTexts =
  "Array.from({ length: 120 }, (_, i) => 'A short text about the subject number ' + i + ', and what follows from it.')";

const pageOf = (entry, options, links, started = {}) => `<!doctype html><link rel="icon" href="data:,">
${links.map((name) => `<link ${name.endsWith('.js') ? 'rel="modulepreload"' : 'rel="preload" as="fetch" crossorigin'} href="/dist/${name}">`).join('\n')}
<script type="module">
import { load } from '/dist/${entry}';
const texts = ${kTexts};
const heed = await load(${JSON.stringify(started)});
const model = await heed.fromPretrained(undefined, ${JSON.stringify(options)});
const index = await heed.TextIndex.of(model, texts);
const hits = await index.search('subject 17');
window.found = { ms: performance.now(), text: hits[0].text };
</script>`;

const kPeer = '/bench/node_modules/@huggingface/transformers';

/** The same search with transformers.js, whose scripts and modules come from this server, too. */
const peerPage = `<!doctype html><link rel="icon" href="data:,">
<script type="module">
import { dot, env, pipeline } from '${kPeer}/dist/transformers.min.js';
env.allowRemoteModels = false;
env.allowLocalModels = true;
env.localModelPath = '/build/bench/';
env.backends.onnx.wasm.wasmPaths = '${kPeer}/node_modules/onnxruntime-web/dist/';
const texts = ${kTexts};
const extract = await pipeline('feature-extraction', 'minilm', { dtype: 'q8', device: 'wasm' });
const embed = async (list) => (await extract(list, { pooling: 'mean', normalize: true })).tolist();
const vectors = [];
for (let i = 0; i < texts.length; i += 16) vectors.push(...(await embed(texts.slice(i, i + 16))));
const [query] = await embed(['subject 17']);
const scores = vectors.map((vector) => dot(vector, query));
window.found = { ms: performance.now(), text: texts[scores.indexOf(Math.max(...scores))] };
</script>`;

const kCases = {
  'index.js': ['index.js', { dtype: 'q8' }, []],
  'index.js, worker': ['index.js', { dtype: 'q8', worker: true }, []],
  'heed.min.js': ['heed.min.js', { dtype: 'q8' }, []],
  'heed.min.js, worker': ['heed.min.js', { dtype: 'q8', worker: true }, ['worker.js']],
  'heed.min.js, prefetch': ['heed.min.js', { dtype: 'q8' }, ['heed.min.js'], { prefetch: true }],
  'heed.min.js, worker, prefetch': [
    'heed.min.js',
    { dtype: 'q8', worker: true },
    ['heed.min.js', 'worker.js'],
    { prefetch: true },
  ],
  'heed.min.js, worker, prefetch, link to the model': [
    'heed.min.js',
    { dtype: 'q8', worker: true },
    ['heed.min.js', 'worker.js', 'model/model.safetensors'],
    { prefetch: true },
  ],
};

const kPages = new Map(Object.entries(kCases).map(([name, given]) => [name, pageOf(...given)]));
if (existsSync(join(root, kPeer)) && existsSync(join(root, 'build/bench/minilm/onnx/model_quantized.onnx')))
  kPages.set('transformers.js', peerPage);

/** Serves dist/ and the pages. All responses share the line's bandwidth; each begins after the latency. */
async function serve() {
  let free = 0;
  const requests = [];
  const compressed = new Map();
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    requests.push(path);
    await new Promise((resolve) => setTimeout(resolve, kLatency));
    const page = kPages.get(path.slice(1));
    if (!page && !existsSync(join(root, path))) return response.writeHead(404).end();
    const body = page ? Buffer.from(page) : readFileSync(join(root, path));
    const isCompressed = page !== undefined || extname(path) in kTypes;
    if (isCompressed && !compressed.has(path)) {
      const quality = body.length < 1e6 ? 11 : 9; // 11 takes half a minute for the module of onnxruntime-web
      compressed.set(path, brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } }));
    }
    const sent = compressed.get(path) ?? body;
    response.writeHead(200, {
      'Content-Type': page ? 'text/html' : (kTypes[extname(path)] ?? 'application/octet-stream'),
      'Content-Length': sent.length,
      'Cache-Control': 'max-age=60',
      ...(isCompressed && { 'Content-Encoding': 'br' }),
    });
    for (let at = 0; at < sent.length; at += 15_000) {
      const part = sent.subarray(at, at + 15_000);
      free = Math.max(free, performance.now()) + part.length / kBytesPerMs;
      const wait = free - performance.now();
      if (wait > 1) await new Promise((resolve) => setTimeout(resolve, wait));
      response.write(part);
    }
    response.end();
  });
  await new Promise((resolve) => server.listen(0, resolve));
  return { origin: `http://localhost:${server.address().port}`, requests, close: () => server.close() };
}

const runs = Number(process.argv[2] ?? 3);
const site = await serve();
const browser = await launchChromium();
for (const name of kPages.keys()) {
  const times = [];
  let count = 0;
  for (let i = 0; i < runs; i++) {
    const context = await browser.newContext();
    const page = await context.newPage();
    page.on('pageerror', (error) => console.error(name, error.message));
    site.requests.length = 0;
    await page.goto(`${site.origin}/${encodeURIComponent(name)}`);
    await page.waitForFunction(() => window.found, null, { timeout: 120_000 });
    times.push((await page.evaluate(() => window.found)).ms);
    count = site.requests.length;
    await context.close();
  }
  times.sort((a, b) => a - b);
  console.log(
    `${name}: ${Math.round(times[times.length >> 1])} ms (from ${Math.round(times[0])}), ${count} requests: ${site.requests.join(' ')}`,
  );
}
await browser.close();
site.close();
