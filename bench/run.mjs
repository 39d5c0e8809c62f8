/**
 * `npm run bench`: compares heed with other libraries in Node 20, Node 24 and Chromium: speed, download size and cold start. Measures also how
 * responsive the demo page is, and training steps; and heed beside onnxruntime-web on one and two threads in every engine that it finds.
 *
 *     node bench/run.mjs [--seconds 10] [--only node20,node24,chromium,start,training,page,engines]
 *     node bench/run.mjs --only corpus     texts per second on all cores, in Node 24 and in Chromium
 *     node bench/run.mjs --only families   DeBERTa's and EmbeddingGemma's shapes, in Node 24 and in Chromium
 *     node bench/run.mjs --only engines [--engines node22,node24,node26,chromium,firefox,webkit] [--threads 1,2] [--shapes 1x16,1x128,8x128,1x512] [--note 'a busy machine']
 *
 * Updates build/bench/results.json after each part and writes bench/RESULTS.md at the end; the part `engines` updates bench/ENGINES.md. The first run needs a Python with numpy and onnx (`npm run bench` installs them on Debian), which makes
 * the other libraries' graphs.
 */

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ENGINE_NAMES, measureEngines } from './engines.mjs';
import { median } from './harness.mjs';
import { report } from './report.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '10' },
    only: { type: 'string', default: 'node20,node24,chromium,start,training,page,engines' },
    engines: { type: 'string', default: ENGINE_NAMES.join() },
    threads: { type: 'string', default: '1,2' },
    shapes: { type: 'string' },
    note: { type: 'string' },
  },
});
const wanted = new Set(options.only.split(','));
const unknown = options.engines.split(',').find((name) => !ENGINE_NAMES.includes(name));
if (unknown) throw new Error(`bench: --engines: expected some of ${ENGINE_NAMES.join(', ')}, got '${unknown}'`);

function run(command, args, settings = {}) {
  const { status, stdout, error } = spawnSync(command, args, {
    stdio: ['ignore', 'inherit', 'inherit'],
    cwd: here('..'),
    encoding: 'utf8',
    ...settings,
  });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed${error ? `: ${error.message}` : ''}`);
  return stdout;
}

function install() {
  if (!existsSync(here('node_modules/onnxruntime-web'))) {
    console.log('installing the other libraries (about 700 MB, once) ...');
    run('npm', ['ci', '--ignore-scripts', '--no-fund', '--no-audit'], { cwd: here('.') });
  }
}

/** The encoder in the formats that the other libraries read. */
async function makeModels() {
  const folder = here('../build/bench/minilm');
  if (!existsSync(`${folder}/onnx/model_quantized_fused.onnx`)) {
    console.log('making the encoder in each format ...');
    await mkdir(folder, { recursive: true });
    run('/usr/bin/python3', [here('models.py'), folder]);
  }
  if (!existsSync(here('../build/bench/gemma/onnx/model_quantized_fused.onnx')))
    run('/usr/bin/python3', [here('families.py'), here('../build/bench')]);
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    await copyFile(here(`../web/model/${name}`), `${folder}/${name}`);
  for (const name of ['onnxruntime-common', 'onnxruntime-node'])
    if (!existsSync(here(`node_modules/${name}`))) throw new Error(`bench: ${name} is not installed`);
}

/** Cold starts, each in a fresh process, interleaved. */
function coldStarts(node, rounds = 7) {
  const names = ['heed fp32', 'onnxruntime-web fp32', 'heed q8', 'onnxruntime-web int8'];
  const runs = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const name of names)
      runs[name].push(JSON.parse(run(node, [here('coldstart.mjs'), name], { stdio: ['ignore', 'pipe', 'inherit'] })));
  }
  const ratio = (peer, ours) => median(runs[peer].map(({ ms }, round) => ms / runs[ours][round].ms));
  return {
    rows: names.map((name) => ({
      name,
      ms: median(runs[name].map((r) => r.ms)),
      peakMB: median(runs[name].map((r) => r.peakMB)),
    })),
    ratios: { fp32: ratio('onnxruntime-web fp32', 'heed fp32'), int8: ratio('onnxruntime-web int8', 'heed q8') },
  };
}

if ([...wanted].some((name) => name !== 'page')) install();
if ([...wanted].some((name) => name !== 'page' && name !== 'training')) await makeModels();
const node24 = here('node_modules/node-24/bin/node');
const file = here('../build/bench/results.json');
const results = existsSync(file) ? JSON.parse(await readFile(file, 'utf8')) : {};
const save = async (key, value) => {
  results[key] = value;
  await writeFile(file, JSON.stringify(results, null, 1));
};

/** What to measure in an environment: everything, or the parts that were asked for by name. */
const partsIn = (key) =>
  wanted.has(key)
    ? ['latency', 'families', 'corpus']
    : key === 'node20'
      ? []
      : ['families', 'corpus'].filter((part) => wanted.has(part));

for (const [key, node, flags] of [
  ['node20', process.execPath, ['--experimental-wasm-relaxed-simd']],
  ['node24', node24, []],
]) {
  const parts = partsIn(key);
  if (parts.length === 0 || !existsSync(node)) continue;
  const major = process.version.split('.')[0].slice(1);
  console.log(key === 'node20' ? `Node ${major} (this one)` : 'Node 24');
  const out = here(`../build/bench/${key}.json`);
  run(node, [
    ...(key === 'node20' && Number(major) < 22 ? flags : []),
    here('node.mjs'),
    out,
    options.seconds,
    parts.join(),
  ]);
  await save(key, { ...results[key], ...JSON.parse(await readFile(out, 'utf8')) });
}
if (partsIn('chromium').length > 0) {
  console.log('Chromium');
  const { measureInChromium } = await import('./chromium.mjs');
  const measured = await measureInChromium({ seconds: Number(options.seconds), parts: partsIn('chromium').join() });
  await save('chromium', { ...results.chromium, ...measured });
}
if (wanted.has('start')) {
  console.log('cold starts');
  await save('start', coldStarts(existsSync(node24) ? node24 : process.execPath));
  run(process.execPath, [here('../demo/peers.mjs')]);
}
if (wanted.has('training')) {
  console.log('training');
  const { measureTraining } = await import('./training.mjs');
  await save('training', await measureTraining({ seconds: Number(options.seconds) }));
}
if (wanted.has('page')) {
  console.log('the responsiveness of the demo page');
  const { measurePageResponsiveness } = await import('./page-responsiveness.mjs');
  await save('page', await measurePageResponsiveness());
  console.log('loading the demo on a slow connection');
  const { measurePageLoad } = await import('./page-load.mjs');
  await save('load', await measurePageLoad());
}
if (wanted.has('engines')) {
  await measureEngines({
    names: options.engines.split(','),
    threads: options.threads.split(',').map(Number),
    shapes: options.shapes?.split(','),
    note: options.note,
    seconds: Number(options.seconds),
  });
  wanted.delete('engines');
}
if (wanted.size === 0) process.exit(0);
await save('date', new Date().toISOString().slice(0, 10));
await writeFile(here('RESULTS.md'), report(results));
console.log('wrote bench/RESULTS.md; `npm run record` writes its figures into the documents');
