// From navigation to the first hit over 120 texts, in a page without a bundler: milliseconds and requests, on a network with 60 ms per
// request and 3 MB/s.
//   node bench/first-hit.mjs [runs]
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';
import { launchChromium } from '../tools/chromium.mjs';
import { root } from '../tools/console.mjs';

const kLatency = 60;
const kBytesPerMs = 3000;
const kTypes = { '.js': 'text/javascript', '.wasm': 'application/wasm', '.html': 'text/html' };

const pageOf = (entry, options, links, started = {}) => `<!doctype html><link rel="icon" href="data:,">
${links.map((name) => `<link ${name.endsWith('.js') ? 'rel="modulepreload"' : 'rel="preload" as="fetch" crossorigin'} href="/dist/${name}">`).join('\n')}
<script type="module">
import { load } from '/dist/${entry}';
const texts = Array.from({ length: 120 }, (_, i) => 'A short text about the subject number ' + i + ', and what follows from it.');
const heed = await load(${JSON.stringify(started)});
const model = await heed.fromPretrained(undefined, ${JSON.stringify(options)});
const index = await heed.TextIndex.of(model, texts);
const hits = await index.search('subject 17');
window.found = { ms: performance.now(), text: hits[0].text };
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

/** Serves dist/ and the pages. All responses share the line's bandwidth; each begins after the latency. */
async function serve() {
  let free = 0;
  const requests = [];
  const compressed = new Map();
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    requests.push(path);
    await new Promise((resolve) => setTimeout(resolve, kLatency));
    const given = kCases[path.slice(1)];
    const body = given ? Buffer.from(pageOf(...given)) : readFileSync(join(root, path));
    const isSmall = body.length < 1e6;
    if (isSmall && !compressed.has(path))
      compressed.set(path, brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
    const sent = compressed.get(path) ?? body;
    response.writeHead(200, {
      'Content-Type': given ? 'text/html' : (kTypes[extname(path)] ?? 'application/octet-stream'),
      'Content-Length': sent.length,
      'Cache-Control': 'max-age=60',
      ...(isSmall && { 'Content-Encoding': 'br' }),
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
for (const name of Object.keys(kCases)) {
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
