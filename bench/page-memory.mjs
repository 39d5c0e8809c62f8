/**
 * Memory of the renderer of a page that indexes 1,500 sentences of WordNet with the bundled model, or that of a folder, in Chromium: MB that are resident (VmRSS), of these those that are
 * no files (RssAnon), and the maximum that was resident, after each step. The first row is an empty page, whose memory is Chromium's own.
 *
 *     node bench/page-memory.mjs [DIST] [--texts 1500] [--model FOLDER]
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { launchChromium } from '../tools/chromium.mjs';
import { contentProcess } from './cpu-time.mjs';
import { sentences } from './sentences.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { texts: { type: 'string', default: '1500' }, model: { type: 'string' } },
});
const dist = resolve(positionals[0] ?? fileURLToPath(new URL('../dist', import.meta.url)));
const types = { '.js': 'text/javascript', '.wasm': 'application/wasm' };
const texts = JSON.stringify((await sentences(Number.POSITIVE_INFINITY)).slice(0, Number(values.texts)));

const page = (dtype, worker) => `<!doctype html><link rel="icon" href="data:,"><script type="module">
import { load } from '/dist/index.js';
window.steps = {
  async model() {
    window.heed = await load();
    window.model = await heed.fromPretrained(${values.model ? "'/model/'" : 'undefined'}, { dtype: '${dtype}', worker: ${worker} });
  },
  async index() {
    const texts = await (await fetch('/texts')).json();
    window.index = await heed.TextIndex.of(model, texts);
  },
  search: () => index.search('a kind of animal'),
};
</script>`;
const pages = {
  '/empty': '<!doctype html>',
  '/q8': page('q8', false),
  '/worker': page('q8', true),
  '/fp32': page('fp32', false),
};

const server = createServer((request, response) => {
  const { pathname } = new URL(request.url, 'http://localhost');
  const send = (body, type) => response.writeHead(200, { 'Content-Type': type }).end(body);
  if (pages[pathname]) return send(pages[pathname], 'text/html');
  if (pathname === '/texts') return send(texts, 'application/json');
  const isModel = values.model && pathname.startsWith('/model/');
  const path = isModel
    ? join(values.model, pathname.slice(7))
    : pathname.startsWith('/dist/')
      ? join(dist, pathname.slice(6))
      : join(dist, '..', pathname);
  try {
    send(readFileSync(path), types[extname(path)] ?? 'application/octet-stream');
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((done) => server.listen(0, done));

const memory = (field) =>
  Number(readFileSync(`/proc/${contentProcess()}/status`, 'utf8').match(`${field}:\\s*(\\d+)`)[1]) / 1024;
console.log('| page | step | resident | not files | at most |');
console.log('| --- | --- | --: | --: | --: |');
for (const path of Object.keys(pages)) {
  const browser = await launchChromium();
  const tab = await browser.newPage();
  tab.on('pageerror', (error) => console.error(error));
  await tab.goto(`http://localhost:${server.address().port}${path}`);
  const session = await tab.context().newCDPSession(tab);
  const show = (step) =>
    console.log(
      `| ${path.slice(1)} | ${step} | ${['VmRSS', 'RssAnon', 'VmHWM'].map((field) => memory(field).toFixed(0)).join(' | ')} |`,
    );
  if (path === '/empty') show('open');
  else {
    await tab.waitForFunction(() => window.steps);
    for (const step of ['model', 'index', 'search']) {
      await tab.evaluate(async (name) => void (await window.steps[name]()), step);
      show(step);
    }
    await session.send('HeapProfiler.collectGarbage');
    await new Promise((done) => setTimeout(done, 500));
    show('after a garbage collection');
  }
  await browser.close();
}
server.close();
