/**
 * The measurements. node.mjs and page.mjs import the libraries for their environment and pass them in.
 *
 * @typedef {object} Place
 * @property {string} name e.g. 'Node 24.1' or 'Chromium 140'
 * @property {any} heed
 * @property {any} ort onnxruntime-web
 * @property {any} [ortNative] onnxruntime-node
 * @property {any} [tf] @tensorflow/tfjs-core, on wasm
 * @property {any} [transformers] @huggingface/transformers
 * @property {(path: string) => Promise<Uint8Array>} read a file of the model folder
 * @property {string} modelsRoot where transformers.js finds the folder `minilm`
 * @property {(line: string) => void} log
 */

import { heedContestant } from './contestants/heed.mjs';
import { onnxContestant } from './contestants/onnxruntime.mjs';
import { tfjsContestant } from './contestants/tfjs.mjs';
import { agreement, makeBatch, median, race, SHAPES, speedup } from './harness.mjs';

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
  return list;
}

/** Latency at the four shapes, with all libraries interleaved. Also compares their outputs. */
export async function latency(place, { seconds = 10 } = {}) {
  const files = await encoderFiles(place);
  const contestants = [...(await heeds(place, files)), ...(await peers(place, files))];
  const rows = [];
  for (const shape of SHAPES) {
    const batch = makeBatch(shape);
    const reference = (await contestants[0].run(batch)).slice();
    const agreements = [];
    for (const c of contestants) agreements.push(agreement(reference, await c.run(batch)));
    const timings = await race(contestants, batch, { seconds });
    rows.push({ shape, timings: timings.map((t, k) => ({ ...t, agreement: agreements[k] })) });
    const line = timings.map((t) => `${t.name} ${median(t.ms).toFixed(1)}`).join(' | ');
    place.log(`${shape.join(' x ')}: ${line}`);
  }
  for (const c of contestants) await c.dispose();
  return rows;
}

/** Texts per second over real sentences of mixed lengths: heed's `embed` and transformers.js's pipeline, each with its defaults and int8. */
export async function corpus(place, texts, { chunk = 64 } = {}) {
  if (!place.transformers) return null;
  const { pipeline, env } = place.transformers;
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.localModelPath = place.modelsRoot;
  const device = place.transformersDevice;
  const extract = await pipeline('feature-extraction', 'minilm', { dtype: 'q8', ...(device ? { device } : {}) });

  const names = ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'];
  const files = await encoderFiles(place, names);
  const runtime = await place.heed.load();
  const contestants = [];
  for (const dtype of ['q8', 'fp32']) {
    const model = await runtime.fromPretrained(files, { dtype });
    const embed = async (batch) => (await model.embed(batch, { pooling: 'mean', normalize: true })).data;
    contestants.push({ name: `heed ${dtype} (${runtime.info.build})`, run: embed, dispose: () => model.dispose() });
  }
  contestants.push({
    name: 'transformers.js q8',
    run: async (batch) => (await extract(batch, { pooling: 'mean', normalize: true })).data,
    dispose: () => extract.dispose(),
  });

  const batches = [];
  for (let i = 0; i < texts.length; i += chunk) batches.push(texts.slice(i, i + chunk));
  for (const c of contestants) await c.run(batches[0]);
  const same = agreement(await contestants[1].run(batches[0]), await contestants[2].run(batches[0]));
  const timings = contestants.map(({ name }) => ({ name, ms: [] }));
  for (const [round, batch] of batches.entries()) {
    for (let k = 0; k < contestants.length; k++) {
      const at = (k + round) % contestants.length;
      const before = performance.now();
      await contestants[at].run(batch);
      timings[at].ms.push((performance.now() - before) / batch.length);
    }
  }
  for (const c of contestants) await c.dispose();
  const rows = timings.map((t) => ({
    name: t.name,
    textsPerSecond: 1000 / median(t.ms),
    heedIs: speedup(timings[0], t),
  }));
  for (const r of rows) place.log(`${r.name}: ${r.textsPerSecond.toFixed(0)} texts/s`);
  return { texts: texts.length, rows, cosine: same.cosine };
}
