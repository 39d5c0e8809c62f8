/**
 * Measures what the first page shows before the model has loaded, and writes src/pages/see/measured.json and others.json (the example words in the bundled model) and
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

const { cosine, describeHeads, isWord, rounded } = await importing('engine/senses');
const { nearest, trace } = await importing('engine/stage');
const { writeWeights, writeWords } = await importing('pages/see/measured');
const { words } = await importing('pages/see/words');
const { recordedRun } = await importing('engine/learning/recording');

const heed = await load({ build: 'simd128' });
const model = await heed.fromPretrained(undefined, { dtype: 'fp32' });
const dictionary = await heed.TextIndex.load(here('../web/model/dictionary'), { embedder: model });
const known = new Map();
const { numLayers, numHeads, embedDim, parameterCount } = model.config;
const everyLayer = Array.from({ length: numLayers }, (_, i) => i + 1);
const described = await describeHeads(
  model,
  words.flatMap(({ word, sentences }) => sentences.map((sentence) => ({ sentence, word }))),
);

/** What the page shows of a sentence before the model has loaded. In a control, only the words nearest to the example's word are shown, and no weights. */
async function measure(sentence, word, isControl) {
  const wordsOf = async ({ tokens, states }, isShown) => {
    const found = [];
    for (const [at, token] of tokens.entries())
      found.push(isShown(token) ? writeWords(await nearest(model, dictionary, known, token, states[at])) : '');
    return found;
  };
  const [on, off] = [await trace(model, sentence, [], described), await trace(model, sentence, everyLayer, described)];
  const weights = (of) => writeWeights(of, on.tokens.map(isWord));
  const drawn = {
    means: on.means.map(weights),
    heads: Object.fromEntries(Object.entries(on.heads).map(([kind, head]) => [kind, weights(head)])),
  };
  const isTheWord = (token) => token === word;
  const measured = {
    sentence,
    tokens: on.tokens.join(' '),
    words: await wordsOf(on, isControl ? isTheWord : isWord),
    without: (await wordsOf(off, isTheWord))[on.tokens.indexOf(word)],
  };
  return { trace: on, measured: { ...measured, ...(!isControl && drawn) } };
}

const examples = [];
for (const { word, sentences, control } of words) {
  const all = [];
  for (const [i, sentence] of sentences.entries()) all.push(await measure(sentence, word, i === 2));
  const vectors = all.map(({ trace: { tokens, states } }) => states[tokens.indexOf(word)]);
  const cosines = (a, b) => vectors[a].map((vector, layer) => rounded(cosine(vector, vectors[b][layer])));
  const { data } = await model.embed(sentences.slice(0, 2));
  examples.push({
    sentences: all.map(({ measured }) => measured),
    different: cosines(0, 1),
    same: cosines(control, 2),
    similarity: rounded(cosine(data.subarray(0, embedDim), data.subarray(embedDim))),
  });
  console.log(word, ...all.map(({ measured, trace: { tokens } }) => measured.words[tokens.indexOf(word)]));
}
const shown = { layers: numLayers, heads: numHeads, width: embedDim, parameters: parameterCount, described };
// The page opens with the first example; the others are loaded later.
for (const [name, content] of [
  ['measured', { ...shown, examples: examples.slice(0, 1) }],
  ['others', { examples: examples.slice(1) }],
])
  writeFileSync(here(`src/pages/see/${name}.json`), `${JSON.stringify(content)}\n`);
console.log(described);
heed.dispose();

const training = await loadTraining({ build: 'simd128' });
writeFileSync(here('src/pages/see/recorded.json'), `${JSON.stringify(recordedRun(training))}\n`);
training.dispose();
