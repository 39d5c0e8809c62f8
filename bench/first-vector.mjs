/**
 * From the library's import to the first vector of all-MiniLM-L6-v2 as the ecosystem publishes it for int8 (onnx/model_quantized.onnx): heed beside transformers.js, with the same code.
 * In Node: processor time of a new process and the time of day. In Chromium: two pages built by Vite, each opened with an empty profile; processor time of the page's process
 * (all threads) and the time of day from navigation, and the bytes of a first visit, scripts and WebAssembly as brotli. The libraries take turns. Needs the packages of bench/package.json.
 *
 *     node bench/first-vector.mjs [--rounds 15] [--folder FOLDER]
 *
 * `--folder`: a folder that heed loads instead, such as one that `heed quantize` has written.
 */

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { brotliCompressSync, constants } from 'node:zlib';
import { build } from 'vite';
import { ensureCheckpoint } from '../tools/checkpoints.mjs';
import { launchChromium } from '../tools/chromium.mjs';
import { contentProcess, processTime } from './cpu-time.mjs';
import { median, speedup } from './harness.mjs';

const { values, positionals } = parseArgs({
  options: { rounds: { type: 'string', default: '15' }, folder: { type: 'string' } },
  allowPositionals: true,
});
const root = fileURLToPath(new URL('../', import.meta.url));
const place = join(root, 'build/bench/first-vector');
const LIBRARIES = ['heed', 'transformers.js'];
const TEXT = 'A quick brown fox jumps over the lazy dog.';

/** The program whose time is measured: the same lines for both, but for the import and the places of files. */
const program = (library, { imported, model, settings = '' }) => `
import { pipeline${library === 'heed' ? '' : ', env'} } from '${imported}';
${settings}
export async function first() {
  const extract = await pipeline('feature-extraction', '${model}', { dtype: 'q8' });
  const { data } = await extract('${TEXT}', { pooling: 'mean', normalize: true });
  return Array.from(data);
}
`;

/** One start in this process. */
async function child(library) {
  const before = [process.cpuUsage(), performance.now()];
  const { first } = await import(join(place, `node-${library}.mjs`));
  const vector = await first();
  const { user, system } = process.cpuUsage(before[0]);
  const ms = performance.now() - before[1];
  console.log(JSON.stringify({ cpu: (user + system) / 1000, ms, vector }));
  process.exit(0);
}

async function prepare() {
  rmSync(place, { recursive: true, force: true });
  const models = join(place, 'public/models/minilm');
  mkdirSync(join(models, 'onnx'), { recursive: true });
  const checkpoint = await ensureCheckpoint('all-minilm-l6-v2');
  for (const file of ['config.json', 'tokenizer.json', 'onnx/model_quantized.onnx'])
    cpSync(join(checkpoint, file), join(models, file));
  writeFileSync(join(models, 'tokenizer_config.json'), '{"tokenizer_class": "BertTokenizer"}'); // transformers.js needs it
  if (values.folder) cpSync(values.folder, join(place, 'public/models/own'), { recursive: true });
  const own = values.folder ? 'own' : 'minilm';
  const local = (path) =>
    `env.allowRemoteModels = false; env.allowLocalModels = true; env.localModelPath = ${JSON.stringify(path)};`;
  const write = (name, text) => writeFileSync(join(place, name), text);
  const dist = join(root, 'dist/index.js');
  const peer = join(root, 'bench/node_modules/@huggingface/transformers');
  write('node-heed.mjs', program('heed', { imported: dist, model: join(place, 'public/models', own) }));
  write(
    'node-transformers.js.mjs',
    program('transformers.js', {
      imported: join(peer, 'dist/transformers.node.mjs'),
      model: 'minilm',
      settings: local(join(place, 'public/models/')),
    }),
  );
  write('page-heed.mjs', program('heed', { imported: dist, model: `/models/${own}/` }));
  write(
    'page-transformers.js.mjs',
    program('transformers.js', {
      imported: join(peer, 'dist/transformers.web.js'),
      model: 'minilm',
      settings: `${local('/models/')} env.useBrowserCache = false; env.backends.onnx.wasm.wasmPaths = '/ort/';`,
    }),
  );
  const ort = join(peer, 'node_modules/onnxruntime-web/dist');
  for (const file of ['ort-wasm-simd-threaded.asyncify.mjs', 'ort-wasm-simd-threaded.asyncify.wasm'])
    cpSync(join(ort, file), join(place, 'public/ort', file));
  for (const library of LIBRARIES)
    write(
      `${library}.html`,
      `<!doctype html><title>${library}</title><script type="module">
import { first } from './page-${library}.mjs';
first().then((vector) => { window.result = { vector, ms: performance.now() }; }, (error) => { window.result = { error: String(error) }; });
</script>`,
    );
  await build({
    root: place,
    configFile: false,
    logLevel: 'error',
    build: { target: 'es2022', rollupOptions: { input: LIBRARIES.map((library) => join(place, `${library}.html`)) } },
    worker: { format: 'es' },
  });
}

const TYPES = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.wasm': 'application/wasm',
};

/** Serves the built pages; scripts and WebAssembly as brotli, models as they are. */
async function serve() {
  const cache = new Map();
  const read = (path) => {
    const plain = readFileSync(join(place, 'dist', path));
    const isCode = /\.(html|js|mjs|wasm|json)$/.test(path) && !path.includes('config.json');
    const params = { [constants.BROTLI_PARAM_QUALITY]: 11 };
    return { body: isCode ? brotliCompressSync(plain, { params }) : plain, isCode };
  };
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    try {
      if (!cache.has(pathname)) cache.set(pathname, read(pathname));
    } catch {
      return response.writeHead(404).end();
    }
    const { body, isCode } = cache.get(pathname);
    const type = TYPES[extname(pathname)] ?? 'application/octet-stream';
    server.bytes += body.length;
    if (pathname.startsWith('/models')) server.model += body.length;
    response.writeHead(200, {
      'Content-Type': type,
      'Content-Length': body.length,
      ...(isCode && { 'Content-Encoding': 'br' }),
    });
    response.end(body);
  });
  await new Promise((resolve) => server.listen(0, resolve));
  return server;
}

async function openPage(server, library) {
  Object.assign(server, { bytes: 0, model: 0 });
  const browser = await launchChromium();
  try {
    const page = await browser.newPage();
    page.on('pageerror', (error) => console.error(`${library}: ${error}`));
    await page.goto(`http://localhost:${server.address().port}/${library}.html`);
    await page.waitForFunction(() => window.result, undefined, { timeout: 600_000, polling: 200 });
    const result = await page.evaluate(() => window.result);
    if (result.error) throw new Error(`${library}: ${result.error}`);
    return { ...result, cpu: processTime(contentProcess()), bytes: server.bytes, model: server.model };
  } finally {
    await browser.close();
  }
}

function report(name, runs) {
  const [own, peer] = LIBRARIES.map((library) => runs[library]);
  for (const key of ['cpu', 'ms', 'bytes', 'model']) {
    if (own[0][key] === undefined) continue;
    const [a, b] = [own, peer].map((list) => ({ ms: list.map((run) => run[key]) }));
    const { median: ratio, low, high } = speedup(a, b);
    const figures = [a, b].map(({ ms }) => Math.round(median(ms))).join(' and ');
    const spread = `${ratio.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`;
    console.log(`${name}, ${key}: ${figures}; transformers.js needs ${spread} times as much`);
  }
  const [a, b] = [own[0].vector, peer[0].vector];
  console.log(`${name}: cosine of the two vectors ${a.reduce((sum, x, i) => sum + x * b[i], 0).toFixed(5)}`);
}

if (positionals[0]) await child(positionals[0]);
await prepare();
const server = await serve();
const rounds = Array.from({ length: Number(values.rounds) }, (_, round) =>
  round % 2 === 0 ? LIBRARIES : LIBRARIES.toReversed(),
);
const measure = async (once) => {
  const runs = Object.fromEntries(LIBRARIES.map((library) => [library, []]));
  for (const order of rounds) for (const library of order) runs[library].push(await once(library));
  return runs;
};
const inNode = (library) =>
  JSON.parse(execFileSync(process.execPath, [...process.execArgv, fileURLToPath(import.meta.url), library]));
report('Node', await measure(inNode));
for (const library of LIBRARIES) await openPage(server, library); // compresses the files
report('Chromium', await measure((library) => openPage(server, library)));
server.close();
