/**
 * What quantization costs all-MiniLM-L6-v2 as it is published: the bytes of its weights, the mean and least cosine of its vectors to those of fp32, and the share of a text's 10 nearest texts that remain among its 10 nearest, over sentences of WordNet.
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

/** Each text's 10 nearest texts. */
function nearestOf({ data, width }) {
  const rows = texts.map((_, n) => data.subarray(n * width, (n + 1) * width));
  const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  return rows.map((own, n) => {
    const others = rows.map((row, i) => [i === n ? -1 : dot(own, row), i]);
    return others
      .sort((a, b) => b[0] - a[0])
      .slice(0, 10)
      .map(([, i]) => i);
  });
}

const nearest = nearestOf(exact);

/** The mean and least cosine to the vectors of fp32, and the share of their nearest texts. */
async function loss(source, dtype) {
  const vectors = await vectorsOf(source, dtype);
  const { data, width } = vectors;
  const shared = nearestOf(vectors).flatMap((found, n) => found.filter((i) => nearest[n].includes(i)));
  const cosines = texts.map((_, n) => {
    let sum = 0;
    for (let i = n * width; i < (n + 1) * width; i++) sum += data[i] * exact.data[i];
    return sum;
  });
  return {
    mean: cosines.reduce((a, b) => a + b) / count,
    least: Math.min(...cosines),
    nearest: shared.length / (10 * count),
  };
}

const row = (name, bytes, fp32, q8) => {
  const figures = [fp32, q8].map((each) =>
    each ? `${each.mean.toFixed(4)} (${each.least.toFixed(4)}), ${(100 * each.nearest).toFixed(0)} %` : '1',
  );
  console.log(`| ${name} | ${bytes.toLocaleString('en')} | ${figures.join(' | ')} |`);
};
const formats = [
  ['int8', {}],
  ['4-bit table, int8 matrices', { tables: 'int4' }],
  ['int8 table, 4-bit matrices', { matrices: 'int4' }],
  ['4-bit table, 4-bit matrices', { tables: 'int4', matrices: 'int4' }],
  ['4-bit table, 3-bit matrices', { tables: 'int4', matrices: 'int3' }],
  ['3-bit table, 3-bit matrices', { tables: 'int3', matrices: 'int3' }],
];
row('fp32', (await readFile(join(folder, 'model.safetensors'))).length, null, await loss(folder, 'q8'));
for (const [name, options] of formats) {
  const { files } = await heed.quantize(folder, options);
  row(name, files['model.safetensors'].length, await loss(files, 'fp32'), await loss(files, 'q8'));
}
