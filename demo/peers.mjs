// Measures the download sizes of other libraries, for the page “Speed”, the README and bench/RESULTS.md: part of `npm run bench`,
// or alone `npm ci --prefix bench && node demo/peers.mjs`.
import { readFileSync, writeFileSync } from 'node:fs';
import { peerBytes } from '../bench/bytes.mjs';

const packages = {
  'onnxruntime-web': 'onnxruntime-web',
  'transformers.js': '@huggingface/transformers',
  'tfjs-wasm': '@tensorflow/tfjs-backend-wasm',
};
const versionOf = (name) =>
  JSON.parse(readFileSync(new URL(`../bench/node_modules/${name}/package.json`, import.meta.url))).version;
const libraries = (await peerBytes()).map(({ name, ...bytes }) => ({
  name: `${name} ${versionOf(packages[name])}`,
  ...bytes,
}));
const measured = new Date().toISOString().slice(0, 10);
writeFileSync(
  new URL('./src/pages/speed/peers.json', import.meta.url),
  `${JSON.stringify({ measured, libraries }, null, 2)}\n`,
);
