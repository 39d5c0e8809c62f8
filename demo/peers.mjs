// `npm ci --prefix bench && node demo/peers.mjs`: measures the download sizes of other libraries for the page “Speed”.
import { readFileSync, writeFileSync } from 'node:fs';
import { shippedBytes } from '../bench/bytes.mjs';

const packages = {
  'onnxruntime-web': 'onnxruntime-web',
  'transformers.js': '@huggingface/transformers',
  'tfjs-wasm': '@tensorflow/tfjs-backend-wasm',
};
const versionOf = (name) =>
  JSON.parse(readFileSync(new URL(`../bench/node_modules/${name}/package.json`, import.meta.url))).version;
const libraries = (await shippedBytes())
  .filter(({ name }) => name in packages)
  .map(({ name, raw, brotli }) => ({ name: `${name} ${versionOf(packages[name])}`, raw, brotli }));
const measured = new Date().toISOString().slice(0, 10);
writeFileSync(
  new URL('./src/pages/speed/peers.json', import.meta.url),
  `${JSON.stringify({ measured, libraries }, null, 2)}\n`,
);
