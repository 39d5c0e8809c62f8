/**
 * Measures what the first page shows before the model has loaded, and writes src/pages/see/measured.json (the example words in the bundled model) and
 * src/pages/see/recorded.json (a run of “Watch it learn”): `node demo/measure.mjs`, after `npm run build` and whenever the bundled model changes.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { load } from 'heed';
import { load as loadTraining } from 'heed/train';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** Imports sources of the demo, in TypeScript. */
async function importing(name) {
  const folder = here('../build/measure/');
  mkdirSync(folder, { recursive: true });
  const outfile = `${folder}${name.replaceAll('/', '-')}.mjs`;
  await build({
    entryPoints: [here(`src/${name}.ts`)],
    outfile,
    bundle: true,
    format: 'esm',
    external: ['heed', 'heed/*'],
  });
  return import(pathToFileURL(outfile));
}

const { describeHeads, viewSense } = await importing('engine/senses');
const { words } = await importing('pages/see/words');
const { recordedRun } = await importing('engine/learning/recording');

const heed = await load({ build: 'simd128' });
const model = await heed.fromPretrained();
const heads = await describeHeads(
  model,
  words.flatMap(({ word, sentences }) => sentences.map((sentence) => ({ sentence, word }))),
);
const views = [];
for (const { word, sentences } of words) {
  const view = await viewSense(model, sentences, word, heads);
  for (const occurrence of view.pair) delete occurrence.all;
  views.push(view);
}
const { numLayers, numHeads, embedDim } = model.config;
const measured = { layers: numLayers, heads: numHeads, width: embedDim, described: heads, views };
writeFileSync(here('src/pages/see/measured.json'), `${JSON.stringify(measured)}\n`);
for (const { word, cosines, similarity } of views) console.log(word, cosines.join(' '), 'sentences', similarity);
console.log(heads);
heed.dispose();

const training = await loadTraining({ build: 'simd128' });
writeFileSync(here('src/pages/see/recorded.json'), `${JSON.stringify(recordedRun(training))}\n`);
training.dispose();
