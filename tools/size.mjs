// `npm run size`: the sizes of the package and of its download, compared with their budgets.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { PlainError, root, runMain } from './console.mjs';
import { filesBelow } from './files.mjs';
import { linkedScripts } from './linked-scripts.mjs';

// What a page downloads: one WebAssembly module, its glue and the scripts of the API, worker included. Not in it is
// @huggingface/tokenizers, a separate chunk that the package bundles to have no dependencies.
const kBrotliBudget = 123_000;
// What a page downloads in addition if it uses threads: the difference of the modules, and the script of the threads.
const kThreadsBudget = 8_000;
// The same of heed/train, without what it loads when a pretrained model is taught.
const kTrainBrotliBudget = 202_000;
// What heed/train loads in addition when a pretrained model is taught, inspected, quantized or pruned, gives token vectors, embeds images, or changes an index of texts.
const kLateTrainBudget = 41_000;
// What `npm install` writes to disk, without the model.
const kUnpackedBudget = 2_850_000;

const dist = join(root, 'dist');
const brotli = (file) => brotliCompressSync(fs.readFileSync(file)).length;
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

/** Whether a file of dist/ contains @huggingface/tokenizers and nothing else. */
function isTokenizers(name) {
  const { outputs } = JSON.parse(fs.readFileSync(join(root, 'build/web-metafile.json'), 'utf8'));
  const output = Object.entries(outputs).find(([path]) => path.endsWith(`/${name}`))?.[1];
  const inputs = Object.keys(output?.inputs ?? {});
  return inputs.every((path) => path.includes('@huggingface/tokenizers')) && inputs.length > 0;
}

/** Names of the scripts that an entry loads at once; others are loaded when they are used. */
function loadedAtOnce() {
  const { outputs } = JSON.parse(fs.readFileSync(join(root, 'build/web-metafile.json'), 'utf8'));
  const nameOf = (path) => path.split('/').at(-1);
  const byName = new Map(Object.entries(outputs).map(([path, output]) => [nameOf(path), output]));
  const names = new Set();
  const add = (name) => {
    if (names.has(name)) return;
    names.add(name);
    for (const { path, kind } of byName.get(name)?.imports ?? []) if (kind === 'import-statement') add(nameOf(path));
  };
  for (const name of ['index.js', 'train.js']) add(name);
  // Workers also contain what their pages load when it is used (web/src/late.ts).
  for (const name of ['worker.js', 'train-worker.js']) names.add(name);
  return names;
}

/** The items for which `test` is false, and the others. */
const split = (items, test) => [items.filter((item) => !test(item)), items.filter(test)];

export function measureSizes() {
  const files = filesBelow(dist).map((file) => ({ file, name: file.slice(dist.length + 1) }));
  const tokenizers = files.filter(({ name }) => isTokenizers(name));
  // Not part of what a page downloads for the API, or only if it uses threads.
  const isApart = (name) => /^(cli|thread|draw|embed-worker|node(-.*)?|adapters\/.*)\.js$/.test(name);
  const all = files.filter(({ name }) => name.endsWith('.js') && !isApart(name) && !isTokenizers(name));
  const names = loadedAtOnce();
  const [late, scripts] = split(all, ({ name }) => names.has(name));
  const largest = (modules) => Math.max(...modules.map(({ file }) => brotli(file)));
  const [modules, threadModules] = split(
    files.filter(({ name }) => name.endsWith('.wasm')),
    ({ name }) => name.startsWith('heed-threads-'),
  );
  const isTraining = ({ name }) => /^(heed-)?train\b/.test(name);
  const total = (some) => sum(some.map(({ file }) => brotli(file)));
  const [api, trainApi] = split(scripts, isTraining).map(total);
  const [lateApi, lateTrainApi] = split(late, isTraining).map(total);
  const [wasm, trainWasm] = split(modules, isTraining).map(largest);
  const loaded = new Set(linkedScripts(dist));
  const drawing = linkedScripts(dist, 'draw.js')
    .filter((name) => !loaded.has(name))
    .map((name) => ({ file: join(dist, name) }));
  const shipped = files.filter(({ name }) => !name.startsWith('model/'));
  return {
    'wasm (the larger module), brotli': wasm,
    'API and glue, brotli': api,
    'wasm + API + glue, brotli': wasm + api,
    'threads: wasm (the larger module) + script, brotli': largest(threadModules) + brotli(join(dist, 'thread.js')),
    'loaded when used (inspect, quantize), brotli': lateApi,
    '@huggingface/tokenizers on top, brotli': brotli(tokenizers[0].file),
    'wasm + API + glue + tokenizers, brotli': wasm + api + brotli(tokenizers[0].file),
    'heed/train: wasm (the larger module), brotli': trainWasm,
    'heed/train: API and glue, brotli': trainApi,
    'heed/train: wasm + API + glue, brotli': trainWasm + trainApi,
    'heed/train: loaded when used (fine-tuning, inspect, quantize), brotli': lateTrainApi,
    'heed/draw on top, brotli': total(drawing),
    'unpacked without the model': sum(shipped.map(({ file }) => fs.statSync(file).size)),
  };
}

export function checkSizes() {
  const sizes = measureSizes();
  for (const [what, bytes] of Object.entries(sizes)) console.log(`${String(bytes).padStart(9)}  ${what}`);
  if (sizes['wasm + API + glue, brotli'] > kBrotliBudget)
    throw new PlainError(`the download exceeds its budget of ${kBrotliBudget} bytes`);
  const [single, threaded] = ['wasm (the larger module), brotli', 'threads: wasm (the larger module) + script, brotli'];
  if (sizes[threaded] - sizes[single] > kThreadsBudget)
    throw new PlainError(`threads exceed their budget of ${kThreadsBudget} bytes`);
  if (sizes['heed/train: wasm + API + glue, brotli'] > kTrainBrotliBudget)
    throw new PlainError(`the download of heed/train exceeds its budget of ${kTrainBrotliBudget} bytes`);
  if (sizes['heed/train: loaded when used (fine-tuning, inspect, quantize), brotli'] > kLateTrainBudget)
    throw new PlainError(`what heed/train loads later exceeds its budget of ${kLateTrainBudget} bytes`);
  if (sizes['unpacked without the model'] > kUnpackedBudget)
    throw new PlainError(`the package exceeds its budget of ${kUnpackedBudget} bytes`);
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await runMain(async () => checkSizes());
