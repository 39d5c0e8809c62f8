/** The bytes of other libraries' scripts and WebAssembly that a page downloads for one encoder, without the model: uncompressed, and as brotli (quality 11). tools/size.mjs measures heed's. */

import { readFile } from 'node:fs/promises';
import { brotliCompressSync } from 'node:zlib';

const peers = new URL('node_modules/', import.meta.url);

/** @returns {Promise<{ name: string, raw: number, brotli: number }[]>} */
export async function peerBytes() {
  const sets = {
    'onnxruntime-web': ['ort.wasm.min.mjs', 'ort-wasm-simd-threaded.mjs', 'ort-wasm-simd-threaded.wasm'].map(
      (name) => new URL(`onnxruntime-web/dist/${name}`, peers),
    ),
    'transformers.js': [
      new URL('@huggingface/transformers/dist/transformers.web.min.js', peers),
      ...['ort-wasm-simd-threaded.asyncify.mjs', 'ort-wasm-simd-threaded.asyncify.wasm'].map(
        (name) => new URL(`@huggingface/transformers/node_modules/onnxruntime-web/dist/${name}`, peers),
      ),
    ],
    'tfjs-wasm': [
      ...['tf-core.fesm.min.js'].map((name) => new URL(`@tensorflow/tfjs-core/dist/${name}`, peers)),
      ...['tf-backend-wasm.fesm.min.js', 'tfjs-backend-wasm-simd.wasm'].map(
        (name) => new URL(`@tensorflow/tfjs-backend-wasm/dist/${name}`, peers),
      ),
    ],
  };
  const rows = [];
  for (const [name, files] of Object.entries(sets)) {
    const bodies = await Promise.all(files.map((file) => readFile(file)));
    const sum = (f) => bodies.reduce((total, body) => total + f(body), 0);
    rows.push({ name, raw: sum((b) => b.length), brotli: sum((b) => brotliCompressSync(b).length) });
  }
  return rows;
}
