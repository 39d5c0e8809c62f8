// `npm run size`: the sizes of the package and of its download, compared with their budgets.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { PlainError, root, runMain } from './console.mjs';
import { filesBelow } from './files.mjs';
import { laterScripts, linkedScripts, trainModelScripts } from './linked-scripts.mjs';

// What a page downloads to load a model: one WebAssembly module, its glue, and the scripts of the API.
const kBudget = 189_000;
// What it downloads in addition if it uses threads: the difference of the modules, their own glue, and the script of the threads.
const kThreadsBudget = 13_000;
// The same of heed/train, without what it loads when a pretrained model is taught.
const kTrainBudget = 284_100;
// What its pages download if they load no model.
const kTrainLayersBudget = 245_500;
// What is loaded later: models in workers, pipelines, cached files, families with rotary positions, teaching a pretrained model, inspecting, quantizing and pruning folders, quantizing indexes, images, vectors of tokens, embeddings read in pages, ONNX files, entities with labels of one's own, the GPU (13 KB).
const kLaterBudget = 109_500;
// What reads ONNX files, with pbf.
const kOnnxBudget = 9_300;
// What heed/lens adds.
const kLensBudget = 8_000;
// What `npm install` writes to disk, without the model; a quarter of it are source maps.
const kUnpackedBudget = 5_500_000;

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
    'ONNX files, brotli': total(chunks('onnx').filter((name) => !name.startsWith('onnx-tensors'))),
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

const kBudgets = {
  'wasm + API + glue + tokenizers, brotli': kBudget,
  'threads on top: wasm (difference) + glue + script, brotli': kThreadsBudget,
  'heed/train: wasm + API + glue + tokenizers, brotli': kTrainBudget,
  'heed/train: wasm + API + glue for layers alone, brotli': kTrainLayersBudget,
  'loaded when used (inspect, quantize, fine-tuning, images), brotli': kLaterBudget,
  'ONNX files, brotli': kOnnxBudget,
  'heed/lens on top, brotli': kLensBudget,
  'unpacked without the model': kUnpackedBudget,
};

export function checkSizes() {
  const sizes = measureSizes();
  for (const [what, bytes] of Object.entries(sizes)) console.log(`${String(bytes).padStart(9)}  ${what}`);
  for (const [what, budget] of Object.entries(kBudgets))
    if (sizes[what] > budget) throw new PlainError(`${what}: ${sizes[what]} bytes exceed the budget of ${budget}`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await runMain(async () => checkSizes());
