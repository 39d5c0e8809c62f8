/** Runs the suite in the Node that runs this file: `node bench/node.mjs OUT.json SECONDS PARTS`. */

import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { availableParallelism, cpus } from 'node:os';
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';
import * as tf from '@tensorflow/tfjs-core';
import * as ort from 'onnxruntime-web';
import { sentences } from './sentences.mjs';
import { measure } from './suite.mjs';

const [out, seconds = '10', parts = 'latency,families,corpus'] = process.argv.slice(2);
const root = new URL('../build/bench/', import.meta.url);
const require = createRequire(import.meta.url);

// onnxruntime-web defines a global Worker in Node. jax-js would then compile for shared memory, which its backend, created before, does not have.
Object.defineProperty(globalThis, 'Worker', { get: () => undefined, set() {} });
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'error';
setWasmPaths(`${new URL('./node_modules/@tensorflow/tfjs-backend-wasm/dist/', import.meta.url).pathname}`);
await tf.setBackend('wasm');

const place = {
  name: `Node ${process.versions.node}`,
  heed: await import('../dist/index.js'),
  ort,
  ortNative: require('onnxruntime-node'),
  tf,
  jax: Number(process.versions.node.split('.')[0]) >= 22 ? await import('@jax-js/jax') : undefined,
  transformers: await import('@huggingface/transformers'),
  modelsRoot: root.pathname,
  read: async (path) => new Uint8Array(await readFile(new URL(`minilm/${path}`, root))),
  log: (line) => console.log(`  ${line}`),
};
const options = { parts: parts.split(','), seconds: Number(seconds), texts: await sentences() };
const result = {
  processor: `${cpus()[0].model}, ${availableParallelism()} cores`,
  ...(await measure(place, options)),
};
await writeFile(out, JSON.stringify(result, null, 1));
process.exit(0); // onnxruntime's threads keep the process alive
