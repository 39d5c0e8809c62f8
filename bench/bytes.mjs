/** The bytes that a page downloads to run or to train one encoder on one thread, without the model: uncompressed, and as brotli (quality 11). */

import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { build } from 'esbuild';

const peers = new URL('node_modules/', import.meta.url);
const dist = new URL('../dist/', import.meta.url);

/** @returns {Promise<{ name: string, raw: number, brotli: number }[]>} */
export async function shippedBytes() {
  const chunks = (await readdir(dist)).filter((name) => name.endsWith('.js') && !/^(cli|train)/.test(name));
  const sets = {
    heed: [...chunks, 'heed-relaxed-simd.wasm'].map((name) => new URL(name, dist)),
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
  for (const [name, files] of Object.entries(sets))
    rows.push(sizes(name, await Promise.all(files.map((file) => readFile(file)))));
  return rows;
}

/** The same for training; the other libraries are bundled with what their gradients need. @returns {Promise<{ name: string, raw: number, brotli: number }[]>} */
export async function trainingBytes() {
  const chunks = (await readdir(dist)).filter((name) => name.endsWith('.js') && name.startsWith('train'));
  const heed = [...chunks, 'heed-train-relaxed-simd.wasm'].map((name) => readFile(new URL(name, dist)));
  const tfjs = `import '@tensorflow/tfjs-core/dist/register_all_gradients'; export * from '@tensorflow/tfjs-core';`;
  const wasm = '@tensorflow/tfjs-backend-wasm';
  const sets = {
    'heed/train': await Promise.all(heed),
    'jax-js': await bundled(`export * from '@jax-js/jax';`),
    'tfjs-wasm': [
      ...(await bundled(`${tfjs} import '${wasm}';`)),
      await readFile(new URL(`${wasm}/dist/tfjs-backend-wasm-simd.wasm`, peers)).catch(() => Buffer.alloc(0)),
    ],
    'tfjs-cpu': await bundled(`${tfjs} import '@tensorflow/tfjs-backend-cpu';`),
  };
  return Object.entries(sets).flatMap(([name, bodies]) => (bodies.length > 0 ? [sizes(name, bodies)] : []));
}

/** Bundles and minifies a script, as a page would; nothing if a library is not installed. */
async function bundled(contents) {
  const options = { bundle: true, minify: true, format: 'esm', platform: 'browser', write: false, logLevel: 'silent' };
  const stdin = { contents, resolveDir: fileURLToPath(new URL('.', import.meta.url)) };
  const external = ['fs', 'path', 'perf_hooks', 'worker_threads', 'os', 'crypto', 'util'];
  try {
    const { outputFiles } = await build({ ...options, stdin, external });
    return outputFiles.map(({ contents: body }) => Buffer.from(body));
  } catch {
    return [];
  }
}

function sizes(name, bodies) {
  const sum = (f) => bodies.reduce((total, body) => total + f(body), 0);
  return { name, raw: sum((b) => b.length), brotli: sum((b) => brotliCompressSync(b).length) };
}
