/** engineLatency() in the Node that runs this file: `node bench/engine-node.mjs OPTIONS`. Its last line is the result as JSON. */

import { readFile } from 'node:fs/promises';
import * as ort from 'onnxruntime-web';
import { engineLatency } from './engine-latency.mjs';

const options = JSON.parse(process.argv[2]);
const result = await engineLatency({
  ...options,
  heed: await import('../dist/index.js'),
  ort,
  read: async (path) => new Uint8Array(await readFile(new URL(`../build/bench/minilm/${path}`, import.meta.url))),
  log: console.log,
});
console.log(JSON.stringify({ engine: `Node ${process.versions.node}`, ...result }));
process.exit(0); // onnxruntime's threads keep the process alive
