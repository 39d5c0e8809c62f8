/**
 * Measures one cold start in this process: the model's bytes are in memory, and no library is imported yet. Prints the milliseconds from import to the
 * first vector, and the process's peak memory.
 *
 *     node bench/coldstart.mjs 'heed fp32' | 'heed q8' | 'onnxruntime-web fp32' | 'onnxruntime-web int8'
 */

import { readFile } from 'node:fs/promises';
import { makeBatch } from './harness.mjs';

const [library, dtype] = process.argv[2].split(' ');
const folder = new URL('../build/bench/minilm/', import.meta.url);
const batch = makeBatch([1, 16]);

const starts = {
  async heed() {
    const files = {
      'config.json': new Uint8Array(await readFile(new URL('config.json', folder))),
      'model.safetensors': new Uint8Array(await readFile(new URL('model.safetensors', folder))),
    };
    return async () => {
      const { load } = await import('../dist/index.js');
      const { heedContestant } = await import('./contestants/heed.mjs');
      const { build } = (await load()).info;
      return heedContestant({ heed: { load }, build, dtype, files });
    };
  },
  async 'onnxruntime-web'() {
    const graph = new Uint8Array(
      await readFile(new URL(`onnx/model${dtype === 'int8' ? '_quantized' : ''}.onnx`, folder)),
    );
    return async () => {
      const ort = await import('onnxruntime-web');
      const { onnxContestant } = await import('./contestants/onnxruntime.mjs');
      ort.env.wasm.numThreads = 1;
      return onnxContestant({ ort, name: library, graph });
    };
  },
};

const start = await starts[library]();
const before = performance.now();
const contestant = await start();
const vector = await contestant.run(batch);
const ms = performance.now() - before;
if (!vector.every(Number.isFinite)) throw new Error(`${library}: the first vector is not finite`);
console.log(JSON.stringify({ ms, peakMB: process.resourceUsage().maxRSS / 1024 }));
process.exit(0);
