/**
 * The latency of MiniLM's shape. node.mjs and page.mjs import the libraries for their environment and pass them in.
 *
 * @typedef {object} Place
 * @property {string} name e.g. 'Node 24.1' or 'Chromium 140'
 * @property {any} heed
 * @property {any} ort onnxruntime-web
 * @property {any} [ortNative] onnxruntime-node
 * @property {any} [tf] @tensorflow/tfjs-core, on wasm
 * @property {any} [jax] @jax-js/jax, which needs Node 22
 * @property {any} [transformers] @huggingface/transformers
 * @property {string} [transformersDevice] the device that transformers.js runs on; its default in Node is onnxruntime's native library
 * @property {(path: string) => Promise<Uint8Array>} read a file of the model folder
 * @property {string} modelsRoot where transformers.js finds the model folders
 * @property {(line: string) => void} log
 */

import { heedContestant } from './contestants/heed.mjs';
import { jaxContestant } from './contestants/jax.mjs';
import { onnxContestant } from './contestants/onnxruntime.mjs';
import { tfjsContestant } from './contestants/tfjs.mjs';
import { corpus } from './corpus.mjs';
import { families } from './families.mjs';
import { agreement, makeBatch, median, race, SHAPES } from './harness.mjs';

const BUILDS = ['relaxed-simd', 'simd128'];

/** The encoder's files, by name. */
async function encoderFiles(place, names = ['config.json', 'model.safetensors']) {
  return Object.fromEntries(await Promise.all(names.map(async (name) => [name, await place.read(name)])));
}

/** heed in every build and dtype that this environment supports. */
async function heeds(place, files) {
  const list = [];
  for (const build of BUILDS) {
    for (const dtype of ['fp32', 'q8']) {
      try {
        list.push(await heedContestant({ heed: place.heed, build, dtype, files }));
      } catch (error) {
        place.log(`heed ${dtype} (${build}) is skipped: ${error.message}`);
      }
    }
  }
  return list;
}

async function peers(place, files) {
  const graph = async (name) => place.read(`onnx/${name}.onnx`);
  const list = [];
  for (const [kind, name] of [
    ['fp32', 'model'],
    ['fp32, fused', 'model_fused'],
    ['int8', 'model_quantized'],
    ['int8, fused', 'model_quantized_fused'],
  ]) {
    list.push(await onnxContestant({ ort: place.ort, name: `onnxruntime-web ${kind}`, graph: await graph(name) }));
  }
  if (place.ortNative) {
    const session = { intraOpNumThreads: 1, interOpNumThreads: 1 };
    for (const [kind, name] of [
      ['fp32, fused', 'model_fused'],
      ['int8, fused', 'model_quantized_fused'],
    ]) {
      list.push(
        await onnxContestant({
          ort: place.ortNative,
          name: `onnxruntime-node ${kind}`,
          graph: await graph(name),
          session,
        }),
      );
    }
  }
  if (place.tf) list.push(await tfjsContestant({ tf: place.tf, files }));
  if (place.jax) list.push(await jaxContestant({ jax: place.jax, files }));
  return list;
}

/** The minimum cosine between the outputs of two libraries that compute in fp32. */
const SAME = 0.99999;

/**
 * Latency at the four shapes, with all libraries interleaved. Also compares their outputs.
 * @throws Error if a library computes something else in fp32
 */
async function latency(place, { seconds = 10 } = {}) {
  const files = await encoderFiles(place);
  const contestants = [...(await heeds(place, files)), ...(await peers(place, files))];
  const rows = [];
  for (const shape of SHAPES) {
    const batch = makeBatch(shape);
    const reference = (await contestants[0].run(batch)).slice();
    const agreements = [];
    for (const { name, run } of contestants) {
      agreements.push(agreement(reference, await run(batch)));
      const { cosine } = agreements.at(-1);
      if (name.includes('fp32') && !(cosine >= SAME))
        throw new Error(`bench: ${shape.join(' x ')}: the output of ${name} has cosine ${cosine}`);
    }
    const timings = await race(contestants, batch, { seconds });
    rows.push({ shape, timings: timings.map((t, k) => ({ ...t, agreement: agreements[k] })) });
    const line = timings.map((t) => `${t.name} ${median(t.ms).toFixed(1)}`).join(' | ');
    place.log(`${shape.join(' x ')}: ${line}`);
  }
  for (const c of contestants) await c.dispose();
  return rows;
}

/** The parts of a run by their names. `texts`: for the corpus. */
export async function measure(place, { parts, seconds, texts }) {
  const result = { place: place.name };
  if (parts.includes('latency')) result.latency = await latency(place, { seconds });
  if (parts.includes('families')) result.families = await families(place, { seconds });
  if (parts.includes('corpus')) result.corpus = await corpus(place, texts, { seconds });
  return result;
}
