/**
 * What quantization costs all-MiniLM-L6-v2 as it is published: the bytes of its weights, and the mean and least cosine of its vectors to those of fp32, over sentences of WordNet.
 * Prints the rows of docs/quantization.md. Needs the packages of bench/package.json; tools/checkpoints.mjs fetches the checkpoint.
 *
 *     node bench/published.mjs [NAME] [--texts 400] [--dist DIST]
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { ensureCheckpoint } from '../tools/checkpoints.mjs';
import { sentences } from './sentences.mjs';

const { values, positionals } = parseArgs({
  options: {
    texts: { type: 'string', default: '400' },
    dist: { type: 'string', default: fileURLToPath(new URL('../dist', import.meta.url)) },
  },
  allowPositionals: true,
});
const { load } = await import(pathToFileURL(`${values.dist}/index.js`).href);
const heed = await load();
const folder = await ensureCheckpoint(positionals[0] ?? 'all-MiniLM-L6-v2');
const all = await sentences(Number.POSITIVE_INFINITY);
const count = Number(values.texts);
const texts = Array.from({ length: count }, (_, i) => all[Math.floor((i * all.length) / count)]);

async function vectorsOf(source, dtype) {
  const model = await heed.fromPretrained(source, { dtype });
  const { data, shape } = await model.embed(texts, { normalize: true });
  model.dispose();
  return { data, width: shape[1] };
}

const exact = await vectorsOf(folder, 'fp32');

/** The mean and least cosine to the vectors of fp32. */
async function loss(source, dtype) {
  const { data, width } = await vectorsOf(source, dtype);
  const cosines = texts.map((_, n) => {
    let sum = 0;
    for (let i = n * width; i < (n + 1) * width; i++) sum += data[i] * exact.data[i];
    return sum;
  });
  return { mean: cosines.reduce((a, b) => a + b) / count, least: Math.min(...cosines) };
}

const row = (name, bytes, fp32, q8) => {
  const figures = [fp32, q8].map((each) => (each ? `${each.mean.toFixed(4)} (${each.least.toFixed(4)})` : '1'));
  console.log(`| ${name} | ${bytes.toLocaleString('en')} | ${figures.join(' | ')} |`);
};
const formats = [
  ['int8', {}],
  ['4-bit table, int8 matrices', { tables: 'int4' }],
  ['int8 table, 4-bit matrices', { matrices: 'int4' }],
  ['4-bit table, 4-bit matrices', { tables: 'int4', matrices: 'int4' }],
];
row('fp32', (await readFile(join(folder, 'model.safetensors'))).length, null, await loss(folder, 'q8'));
for (const [name, options] of formats) {
  const { files } = await heed.quantize(folder, options);
  row(name, files['model.safetensors'].length, await loss(files, 'fp32'), await loss(files, 'q8'));
}
