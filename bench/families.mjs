/**
 * DeBERTa v3's (base) and EmbeddingGemma's shapes with two layers, by families.py: heed's default build beside onnxruntime-web and transformers.js on one thread. The outputs are
 * compared before times are taken.
 */

import { heedContestant } from './contestants/heed.mjs';
import { onnxContestant } from './contestants/onnxruntime.mjs';
import { transformersContestant } from './contestants/transformers.mjs';
import { agreement, makeBatch, median, race, speedup } from './harness.mjs';

/** Folder -> what it is called, and the graph whose operators are those of published exports, which transformers.js runs. */
export const FAMILIES = {
  deberta: { title: 'DeBERTa v3 base, two layers', published: 'model' },
  gemma: { title: 'EmbeddingGemma, two layers', published: 'model_fused' },
};
const VOCAB = 8000;
const SHAPES = [
  [1, 16],
  [1, 128],
  [8, 128],
];
/** heed's precision -> the ending of the graphs' names, and the minimum cosine to heed's fp32 output. */
const PRECISIONS = { fp32: { ending: '', cosine: 0.999999 }, q8: { ending: '_quantized', cosine: 0.995 } };

const named = (contestant, name) => Object.assign(contestant, { name });

async function contestantsOf(place, folder, dtype, build) {
  const read = (path) => place.read(`../${folder}/${path}`);
  const { ending } = PRECISIONS[dtype];
  const names = ['config.json', 'model.safetensors'];
  const files = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await read(name)])));
  const list = [named(await heedContestant({ heed: place.heed, build, dtype, files }), 'heed')];
  for (const [name, graph] of [
    ['onnxruntime-web', `model${ending}`],
    ['onnxruntime-web, fused', `model${ending}_fused`],
  ])
    list.push(await onnxContestant({ ort: place.ort, name, graph: await read(`onnx/${graph}.onnx`) }));
  // In Node, transformers.js runs onnxruntime's native library.
  if (place.transformersDevice === 'wasm') {
    const file = FAMILIES[folder].published.replace('model', `model${ending}`);
    list.push(await transformersContestant({ place, name: 'transformers.js', folder, file }));
  }
  return list;
}

/** @param {import('./suite.mjs').Place} place */
export async function families(place, { seconds = 10 } = {}) {
  const { info } = await place.heed.load();
  const results = [];
  for (const [folder, { title }] of Object.entries(FAMILIES)) {
    const references = new Map();
    for (const [dtype, { cosine: least }] of Object.entries(PRECISIONS)) {
      const contestants = await contestantsOf(place, folder, dtype, info.build);
      for (const shape of SHAPES) {
        const batch = makeBatch(shape, VOCAB);
        const cosines = [];
        for (const { name, run } of contestants) {
          const output = await run(batch);
          if (dtype === 'fp32' && name === 'heed') references.set(String(shape), output.slice());
          const { cosine } = agreement(references.get(String(shape)), output);
          if (!(cosine >= least))
            throw new Error(`bench: ${title}, ${dtype}: the output of ${name} has cosine ${cosine}`);
          cosines.push(cosine);
        }
        const timings = await race(contestants, batch, { seconds });
        const rows = timings.map((t, k) => ({
          name: t.name,
          ms: median(t.ms),
          heedIs: speedup(timings[0], t),
          cosine: cosines[k],
        }));
        results.push({ title, dtype, shape, rows });
        const line = rows.map((r) => `${r.name} ${r.ms.toFixed(1)} ms (${r.heedIs.median.toFixed(2)})`).join(' | ');
        place.log(`${title}, ${dtype}, ${shape.join(' x ')}: ${line}`);
      }
      for (const { dispose } of contestants) await dispose();
    }
  }
  return { build: info.build, results };
}
