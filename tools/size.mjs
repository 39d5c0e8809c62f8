// `npm run size`: the sizes of the package and of its downloads. bench/record.json has those of each release (record.mjs).
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { root, runMain } from './console.mjs';
import { filesBelow } from './files.mjs';
import { laterScripts, linkedScripts, trainModelScripts } from './linked-scripts.mjs';

const dist = join(root, 'dist');
const brotli = (file) => brotliCompressSync(fs.readFileSync(file)).length;
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** The scripts that an entry of dist/ loads at once, itself included; others are loaded when they are used. */
const scriptsOf = (entry) => linkedScripts(dist, entry);

export function measureSizes() {
  const files = filesBelow(dist).map((file) => file.slice(dist.length + 1));
  const total = (names) => sum(names.map((name) => brotli(join(dist, name))));
  const larger = (prefix) =>
    Math.max(...['simd128', 'relaxed-simd'].map((build) => total([`heed-${prefix}${build}.wasm`])));
  const chunks = (name) => files.filter((file) => file.startsWith(`${name}-`) && file.endsWith('.js'));
  const [wasm, threads, training] = ['', 'threads-', 'train-'].map(larger);
  const api = total(scriptsOf('index.js'));
  const trainLayersApi = total(scriptsOf('train.js'));
  const trainApi = total(trainModelScripts(dist));
  const inPage = new Set([...scriptsOf('index.js'), ...trainModelScripts(dist)]);
  // What either page loads only when it is used.
  const isThreads = (name) => chunks('threads-glue').some((glue) => scriptsOf(name).includes(glue));
  const later = new Set(['index.js', 'train.js'].flatMap((entry) => laterScripts(dist, entry)));
  const inWorker = scriptsOf('worker.js').filter((name) => !scriptsOf('index.js').includes(name));
  return {
    'wasm (the larger module), brotli': wasm,
    'API and glue, brotli': api,
    'wasm + API + glue + tokenizers, brotli': wasm + api,
    'threads on top: wasm (difference) + glue + script, brotli':
      threads - wasm + total([...later].filter(isThreads)) + total(['thread.js']),
    'worker on top, brotli': total(inWorker),
    'heed/train: wasm (the larger module), brotli': training,
    'heed/train: API and glue, brotli': trainApi,
    'heed/train: wasm + API + glue + tokenizers, brotli': training + trainApi,
    'heed/train: wasm + API + glue for layers alone, brotli': training + trainLayersApi,
    'loaded when used (inspect, quantize, fine-tuning, images), brotli': total(
      [...later].filter((name) => !inPage.has(name) && !isThreads(name)),
    ),
    'ONNX files, brotli': total(chunks('read')),
    ...Object.fromEntries(
      ['draw', 'util', 'lens', 'evaluation'].map((entry) => [
        `heed/${entry} on top, brotli`,
        total(scriptsOf(`${entry}.js`).filter((name) => !inPage.has(name))),
      ]),
    ),
    'unpacked without the model': sum(
      files.filter((name) => !name.startsWith('model/')).map((name) => fs.statSync(join(dist, name)).size),
    ),
  };
}

/** Prints the sizes. `npm run record check` compares them with the recorded ones. */
export function printSizes() {
  for (const [what, bytes] of Object.entries(measureSizes())) console.log(`${String(bytes).padStart(9)}  ${what}`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await runMain(async () => printSizes());
