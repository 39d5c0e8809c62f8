/** Runs the suite in a browser tab, on one thread. chromium.mjs opens the page and reads `window.result`. */

import * as transformers from '@huggingface/transformers';
import * as jax from '@jax-js/jax';
import { setWasmPaths } from '@tensorflow/tfjs-backend-wasm';
import * as tf from '@tensorflow/tfjs-core';
import * as ort from 'onnxruntime-web/wasm';
import { measure } from './suite.mjs';

const here = new URL('.', location.href);
const peers = new URL('node_modules/', here);
const models = new URL('../build/bench/', here);
const parameters = new URLSearchParams(location.search);

ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = new URL('onnxruntime-web/dist/', peers).href;
transformers.env.backends.onnx.wasm.wasmPaths = new URL(
  '@huggingface/transformers/node_modules/onnxruntime-web/dist/',
  peers,
).href;
transformers.env.backends.onnx.wasm.numThreads = 1;
setWasmPaths(new URL('@tensorflow/tfjs-backend-wasm/dist/', peers).href);

async function read(path) {
  const response = await fetch(new URL(`minilm/${path}`, models));
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

try {
  await tf.setBackend('wasm');
  const heedUrl = new URL('../dist/index.js', here).href;
  const place = {
    name: navigator.userAgent.match(/Chrom\w+\/(\d+)/)?.[0].replace('/', ' ') ?? navigator.userAgent,
    heed: await import(/* @vite-ignore */ heedUrl),
    ort,
    tf,
    jax,
    transformers,
    transformersDevice: 'wasm',
    modelsRoot: models.pathname,
    read,
    log: (line) => console.log(`  ${line}`),
  };
  window.result = await measure(place, {
    parts: parameters.get('parts').split(','),
    seconds: Number(parameters.get('seconds')),
    texts: await (await fetch('./sentences.json')).json(),
  });
} catch (error) {
  window.result = { error: String(error.stack ?? error) };
}
