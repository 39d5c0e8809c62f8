/**
 * Compares the start of two builds of heed: from load() to the first vector, in a new process for each start. Measures the processor time of all threads of the process (reading,
 * compiling and garbage collection included) and the elapsed time. The builds take turns, A B B A. Prints the medians and B's time as a multiple of A's: the median and the quartiles of
 * the ratios within a round. Needs the checkpoints of tools/checkpoints.mjs for all but the bundled model.
 *
 *     node bench/start.mjs DIST_A DIST_B [--rounds 21] [--case 'bundled q8'] [--engine chromium]
 *
 * Measures the Node that runs this file; with `--engine chromium`, pages of Chromium, each opened with an empty profile, and the processor time of the page's process.
 */

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { launchChromium } from '../tools/chromium.mjs';
import { contentProcess, ownTime, processTime } from './cpu-time.mjs';
import { median, speedup } from './harness.mjs';

const checkpoints = fileURLToPath(new URL('../build/checkpoints/', import.meta.url));
/** The options of fromPretrained(), and the model's folder in `checkpoints`; without one, the bundled model. */
const CASES = {
  'bundled fp32': { options: { dtype: 'fp32' } },
  'bundled q8': { options: { dtype: 'q8' } },
  'MiniLM safetensors as q8': { checkpoint: 'all-MiniLM-L6-v2/', options: { dtype: 'q8' } },
  'MiniLM safetensors': { checkpoint: 'all-MiniLM-L6-v2/', options: {} },
  'MiniLM model_quantized.onnx': { checkpoint: 'all-minilm-l6-v2/', options: { dtype: 'q8' } },
};
const TEXT = 'A quick brown fox jumps over the lazy dog.';

const { values, positionals } = parseArgs({
  options: {
    rounds: { type: 'string', default: '21' },
    case: { type: 'string', multiple: true, default: Object.keys(CASES) },
    engine: { type: 'string' },
  },
  allowPositionals: true,
});

/** One start in this process. */
async function child(dist, name) {
  const { checkpoint, options } = CASES[name];
  const { load } = await import(pathToFileURL(`${dist}/index.js`).href);
  const folder = checkpoint && checkpoints + checkpoint;
  const [cpu, ms] = [ownTime(), performance.now()];
  const heed = await load();
  const loaded = await heed.fromPretrained(folder, options);
  const vector = await loaded.embed(TEXT);
  console.log(JSON.stringify({ cpu: ownTime() - cpu, ms: performance.now() - ms, vector: [...vector.data] }));
  process.exit(0);
}

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };

/** Serves /a/ and /b/, the builds, and /checkpoints/. */
async function serve(folders) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const [, top, ...rest] = pathname.split('/');
    const root = { a: folders[0], b: folders[1], checkpoints }[top];
    if (!root)
      return response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>start</title>');
    try {
      const body = readFileSync(`${root}/${rest.join('/')}`);
      response.writeHead(200, {
        'Content-Type': TYPES[extname(pathname)] ?? 'application/octet-stream',
        'Content-Length': body.length,
      });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((done) => server.listen(0, done));
  return server;
}

async function inPage(server, side, name) {
  const { checkpoint, options } = CASES[name];
  const browser = await launchChromium();
  try {
    const page = await browser.newPage();
    await page.goto(`http://localhost:${server.address().port}/`);
    const given = { side, folder: checkpoint && `/checkpoints/${checkpoint}`, options, text: TEXT };
    await page.evaluate(async ({ side }) => {
      window.heed = await import(`/${side}/index.js`);
    }, given);
    const before = processTime(contentProcess());
    const result = await page.evaluate(async ({ folder, options, text }) => {
      const start = performance.now();
      const heed = await window.heed.load();
      const model = await heed.fromPretrained(folder, options);
      const vector = await model.embed(text);
      return { ms: performance.now() - start, vector: [...vector.data] };
    }, given);
    return { ...result, cpu: processTime(contentProcess()) - before };
  } finally {
    await browser.close();
  }
}

if (positionals[0] === 'child') await child(positionals[1], positionals[2]);
const folders = positionals.map((folder) => resolve(folder));
if (folders.length !== 2)
  throw new Error('usage: node bench/start.mjs DIST_A DIST_B [--rounds n] [--case name] [--engine chromium]');
if (values.engine && values.engine !== 'chromium')
  throw new Error(`--engine: expected 'chromium', got '${values.engine}'`);
const server = values.engine && (await serve(folders));
const here = fileURLToPath(import.meta.url);
const start = async (side, name) =>
  server
    ? inPage(server, 'ab'[side], name)
    : JSON.parse(execFileSync(process.execPath, [...process.execArgv, here, 'child', folders[side], name]));
console.log(`${values.engine ?? `Node ${process.versions.node}`}; A = ${positionals[0]}, B = ${positionals[1]}`);
for (const name of values.case) {
  const runs = [[], []];
  for (let round = 0; round < Number(values.rounds); round++)
    for (const side of round % 2 ? [1, 0] : [0, 1]) runs[side].push(await start(side, name));
  const same = runs[0][0].vector.every((x, i) => Object.is(x, runs[1][0].vector[i]));
  for (const key of ['cpu', 'ms']) {
    const [a, b] = runs.map((list) => ({ ms: list.map((run) => run[key]) }));
    const { median: ratio, low, high } = speedup(a, b);
    console.log(
      `${name}, ${key}: ${median(a.ms).toFixed(0)} and ${median(b.ms).toFixed(0)} ms; B needs ${ratio.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)}); ${same ? 'identical' : 'other vectors'}`,
    );
  }
}
server?.close();
