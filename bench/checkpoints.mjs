// Writes the tables of docs/checkpoints.md: what published checkpoints cost in bytes and milliseconds. `node bench/checkpoints.mjs`, after `npm run build`; with names, it prints only
// the rows of these; with --memory, it writes only the table of memory.
//
// Each has its published shapes (tests/web/models/published.ts and published-images.ts), all layers and all words, and random weights. Texts are one of 16 and one of 128 token ids,
// on one thread; images one of the checkpoint's size, preprocessed. Milliseconds are medians of processor time, so that other programs matter less. Checkpoints above 1.5 GB are not timed. Each runs in a process of its own, as WebAssembly
// memory never shrinks.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { median } from './harness.mjs';

const PAGE = new URL('../docs/checkpoints.md', import.meta.url);
const LARGEST = 1.5e9;

/** The module of published shapes, which is TypeScript. */
async function publishedShapes() {
  const contents =
    "export * from './published.js'; export * from './published-images.js'; export * from './random-checkpoint.js';";
  const resolveDir = fileURLToPath(new URL('../tests/web/models', import.meta.url));
  const { outputFiles } = await build({ stdin: { contents, resolveDir }, bundle: true, format: 'esm', write: false });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`);
}

/** The median of a call's milliseconds of processor time, which is repeated for a second, at least three times. */
async function timed(call) {
  await call();
  const times = [];
  for (const end = performance.now() + 1000; times.length < 3 || performance.now() < end; ) {
    const start = process.cpuUsage();
    await call();
    const { user, system } = process.cpuUsage(start);
    times.push((user + system) / 1000);
  }
  return median(times);
}

const sumOf = (shapes) =>
  Object.values(shapes).reduce((sum, shape) => sum + shape.reduce((product, extent) => product * extent, 1), 0);

/** What the checkpoint `name` costs. */
async function measured(name) {
  const { PUBLISHED, PUBLISHED_IMAGES, shapesOf, layersOf, filesOf, imageFilesOf } = await publishedShapes();
  const model = PUBLISHED[name] ?? PUBLISHED_IMAGES[name];
  const isImages = name in PUBLISHED_IMAGES;
  const [layers, vocab, ofSize] = isImages
    ? [model.layers, model.vocab, imageFilesOf]
    : [layersOf(model.config), model.config.vocab_size, filesOf];
  const parameters = sumOf(isImages ? model.shapes(model) : shapesOf(model));
  const { load } = await import('../dist/index.js');
  const heed = await load();
  /** The bytes of a quantized checkpoint, which grow by the same for each layer and for each word. */
  const quantized = async (tables) => {
    const bytesOf = async (...sizes) => {
      const { files } = await heed.quantize(ofSize(model, ...sizes), { tables });
      return files['model.safetensors'].length;
    };
    const [base, layer, words] = [await bytesOf(2, 64), await bytesOf(3, 64), await bytesOf(2, 128)];
    return base + (layers - 2) * (layer - base) + ((vocab - 64) / 64) * (words - base);
  };
  const bytes = { fp32: 4 * parameters, int8: await quantized('int8'), int4: await quantized('int4') };
  const ms = {};
  if (bytes.fp32 < LARGEST) {
    const files = ofSize(model, layers, vocab);
    for (const dtype of ['fp32', 'q8']) ms[dtype] = await millisecondsOf(heed, files, dtype, model, isImages);
  }
  return { name, isImages, family: model.config.model_type, parameters, bytes, ms };
}

function imageFor({ preprocessor }) {
  const side = preprocessor.crop_size?.height ?? preprocessor.size.height ?? preprocessor.size;
  return { data: new Uint8ClampedArray(3 * side * side).map((_, i) => i % 251), width: side, height: side };
}

async function millisecondsOf(heed, files, dtype, model, isImages) {
  const encoder = await heed.fromPretrained(files, { dtype });
  const times = [];
  if (isImages) {
    const image = imageFor(model);
    times.push(await timed(() => encoder.embedImages(image)));
  } else {
    for (const length of [16, 128]) {
      const inputIds = [Array.from({ length }, (_, i) => (7919 * i + 13) % model.config.vocab_size)];
      times.push(await timed(() => encoder.embed({ inputIds })));
    }
  }
  encoder.dispose();
  return times;
}

/** WebAssembly memory after calls with texts of up to 512 tokens, or with an image; null for checkpoints that are not measured. */
async function memoryOf(name, dtype) {
  const { PUBLISHED, PUBLISHED_IMAGES, layersOf, filesOf, imageFilesOf } = await publishedShapes();
  const isImages = !(name in PUBLISHED);
  const model = isImages ? PUBLISHED_IMAGES[name] : PUBLISHED[name];
  const files = isImages
    ? imageFilesOf(model, model.layers, model.vocab)
    : filesOf(model, layersOf(model.config), model.config.vocab_size);
  if (files['model.safetensors'].length > LARGEST) return null;
  const { load } = await import('../dist/index.js');
  const heed = await load();
  const encoder = await heed.fromPretrained(files, { dtype });
  if (isImages) await encoder.embedImages(imageFor(model));
  else {
    for (const [count, length] of [
      [64, 16],
      [1, 512],
    ]) {
      const ids = Array.from({ length }, (_, i) => (7919 * i + 13) % model.config.vocab_size);
      await encoder.embed({ inputIds: Array(count).fill(ids) });
    }
  }
  return heed.info.memoryBytes;
}

function memoryRow(name) {
  const cells = [name];
  for (const dtype of ['fp32', 'q8']) {
    const memory = JSON.parse(inChild('--memory-of', name, dtype));
    cells.push(memory ? megabytes(memory) : 'not measured');
  }
  return `| ${cells.join(' | ')} |`;
}

const megabytes = (bytes) => `${Math.round(bytes / 1e6)} MB`;
const milliseconds = (ms) => (ms === undefined ? 'not timed' : ms.toFixed(ms < 10 ? 1 : 0));

function rowOf({ name, isImages, family, parameters, bytes, ms }) {
  const cells = [name, `\`${family}\``, parameters.toLocaleString('en-US'), megabytes(bytes.fp32)];
  cells.push(megabytes(bytes.int8), megabytes(bytes.int4));
  for (const i of isImages ? [0] : [0, 1]) for (const dtype of ['fp32', 'q8']) cells.push(milliseconds(ms[dtype]?.[i]));
  return `| ${cells.join(' | ')} |`;
}

function main(names) {
  const onlyMemory = names[0] === '--memory';
  const rows = onlyMemory ? { memory: [] } : { texts: [], images: [], memory: [] };
  for (const name of names.length > 0 && !onlyMemory ? names : JSON.parse(inChild('--names'))) {
    if (names.length === 0 || onlyMemory) rows.memory.push(memoryRow(name));
    if (onlyMemory) continue;
    const result = JSON.parse(inChild('--measure', name));
    const row = rowOf(result);
    console.log(row);
    rows[result.isImages ? 'images' : 'texts'].push(row);
  }
  if (names.length > 0 && !onlyMemory) return;
  let page = fs.readFileSync(PAGE, 'utf8');
  for (const [kind, lines] of Object.entries(rows))
    page = page.replace(
      new RegExp(`(<!-- ${kind} -->\n\\|.*\n\\|.*\n)(\\|.*\n)*`),
      (_, head) => `${head}${lines.join('\n')}\n`,
    );
  if (onlyMemory) return void fs.writeFileSync(PAGE, page);
  const machine = `${os.cpus()[0].model}, Node ${process.versions.node}`;
  fs.writeFileSync(
    PAGE,
    page.replace(/<!-- machine -->.*<!-- \/machine -->/, `<!-- machine -->${machine}<!-- /machine -->`),
  );
}

/** The output of this script in another process. */
function inChild(...args) {
  const { stdout, status } = spawnSync(process.execPath, [fileURLToPath(import.meta.url), ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) throw new Error(`${args.join(' ')}: exit code ${status}`);
  return stdout;
}

const [mode, name, dtype] = process.argv.slice(2);
if (mode === '--measure') console.log(JSON.stringify(await measured(name)));
else if (mode === '--memory-of') console.log(JSON.stringify(await memoryOf(name, dtype)));
else if (mode === '--names') {
  const { PUBLISHED, PUBLISHED_IMAGES } = await publishedShapes();
  console.log(JSON.stringify([...Object.keys(PUBLISHED), ...Object.keys(PUBLISHED_IMAGES)]));
} else main(process.argv.slice(2));
