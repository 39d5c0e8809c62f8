/** The WebAssembly module for inference. */
import create from 'heed-glue/inference';
import { importing } from '../error.js';
import { nodeOptions, start } from '../start-worker.js';
import type { Variant } from './module.js';
import { packaged } from './packaged.js';

/**
 * @internal Bundlers recognize exactly these expressions: they copy the WebAssembly files and bundle the worker's
 * script separately.
 */
export const inference: Variant = {
  name: 'inference',
  prefix: '',
  create,
  loadThreaded: async () => (await importing('threaded', () => import('./threaded.js'))).threaded,
  files: {
    'relaxed-simd': () => new URL('./heed-relaxed-simd.wasm', import.meta.url),
    simd128: () => new URL('./heed-simd128.wasm', import.meta.url),
  },
  threadFiles: {
    'relaxed-simd': () => new URL('./heed-threads-relaxed-simd.wasm', import.meta.url),
    simd128: () => new URL('./heed-threads-simd128.wasm', import.meta.url),
  },
  startWorker: () =>
    start(
      'worker.js',
      ({ Worker }) => new Worker(packaged('worker.js', new URL('./worker.js', import.meta.url)), nodeOptions),
      () => new Worker(new URL('./worker.js', import.meta.url), { type: 'module' }),
    ),
};
