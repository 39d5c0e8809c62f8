/** The WebAssembly module with training. */
import create from 'heed-glue/training';
import { nodeOptions, start } from '../../base/start-worker.js';
import type { Variant } from '../../base/wasm/module.js';
import { packaged } from '../../base/wasm/packaged.js';

/**
 * @internal Bundlers recognize exactly these expressions: they copy the WebAssembly files and bundle the script
 * separately.
 */
export const training: Variant = {
  name: 'training',
  prefix: 'train-',
  create,
  loadThreaded: null,
  files: {
    'relaxed-simd': () => new URL('./heed-train-relaxed-simd.wasm', import.meta.url),
    simd128: () => new URL('./heed-train-simd128.wasm', import.meta.url),
  },
  threadFiles: null,
  startWorker: () =>
    start(
      'train-worker.js',
      ({ Worker }) =>
        new Worker(packaged('train-worker.js', new URL('./train-worker.js', import.meta.url)), nodeOptions),
      () => new Worker(new URL('./train-worker.js', import.meta.url), { type: 'module' }),
    ),
};
