/** The programs that compute what the pages with an encoder show: “Meaning”, “Inside”, “Speed” and “Teach it”. */
import type { LabelledText } from '../../engine/learning/examples';
import { headerBytes, weightsOf } from '../../engine/learning/shared';
import { literal, program } from './writing';

export interface EncoderState {
  /** Where the model comes from; null: the bundled one. */
  source: string | null;
  dtype: 'fp32' | 'q8';
  texts: string[];
  /** The index of the text whose attention is shown. */
  sentence: number;
  layer: number;
  head: number;
}

/** The arguments of `fromPretrained`. The bundled model's default is 'q8', that of others 'fp32'. */
export const openedAs = (source: string | null, dtype: 'fp32' | 'q8'): string =>
  source === null
    ? `undefined, ${literal({ dtype })}`
    : `${literal(source)}${dtype === 'q8' ? ", { dtype: 'q8' }" : ''}`;

export function encoderCode({ source, dtype, texts, sentence, layer, head }: EncoderState): string {
  return program([
    "import { load, similarity } from 'heed';",
    '',
    'const heed = await load();',
    `const model = await heed.fromPretrained(${openedAs(source, dtype)});`,
    `const texts = ${literal(texts)};`,
    'const vectors = await model.embed(texts);',
    'console.log(similarity(vectors).toArray());',
    `const { tokens, attentions } = await model.encode([texts[${sentence}]], { outputAttentions: true });`,
    `console.log(tokens[0]); // layer ${layer + 1}, head ${head + 1}: one row per query`,
    `console.log(attentions[${layer}].toArray()[0][${head}]);`,
  ]);
}

export interface StageState {
  texts: string[];
  word: string;
  /** Layers whose attention is switched off, counted from 1. */
  off: number[];
  /** The layer whose weights are shown, counted from 1, and its head, counted from 0; undefined: the mean of all. */
  layer: number;
  head: number | undefined;
}

export function stageCode({ texts, word, off, layer, head }: StageState): string {
  const edit = off.map((number) => ({ site: `layers.${number - 1}.attention`, scale: 0 }));
  return program([
    "import { load, similarity } from 'heed';",
    '',
    'const heed = await load();',
    "const model = await heed.fromPretrained(undefined, { dtype: 'fp32' });",
    `const texts = ${literal(texts)};`,
    `const options = ${literal({ outputAttentions: true, outputHiddenStates: true, ...(edit.length > 0 && { edit }) })};`,
    'const both = [];',
    'for (const text of texts) both.push(await model.encode([text], options));',
    `const at = both.map(({ tokens }) => Math.max(0, tokens[0].indexOf(${literal(word)})));`,
    'const after = (i, layer) => [both[i].hiddenStates[layer].toArray()[0][at[i]]];',
    'for (const layer of both[0].hiddenStates.keys()) // the cosine of the word’s two vectors',
    '  console.log(layer, similarity(after(0, layer), after(1, layer)).data[0]);',
    `const heads = both[0].attentions[${layer - 1}].toArray()[0].map((rows) => rows[at[0]]);`,
    head === undefined
      ? 'const weights = heads[0].map((_, key) => heads.reduce((sum, row) => sum + row[key], 0) / heads.length);'
      : `const weights = heads[${head}];`,
    `console.log(both[0].tokens[0], weights); // layer ${layer}, ${head === undefined ? 'the mean of all heads' : `head ${head + 1}`}`,
  ]);
}

/** `recipe`: the options of `trainClassifier`. */
export function labelsCode(examples: LabelledText[], text: string, recipe: object): string {
  return program([
    "import { classify, load } from 'heed/train';",
    '',
    'const heed = await load();',
    'const model = await heed.fromPretrained(undefined, { trainable: true, dropout: 0 });',
    'model.freeze(); // only a layer on its vectors is trained',
    `const examples = ${literal(examples)};`,
    `await heed.trainClassifier(model, examples, ${literal({ ...recipe, batchSize: examples.length, seed: 1 })});`,
    `console.log(await classify(model, ${literal(text)}, { topK: ${new Set(examples.map(({ label }) => label)).size} }));`,
  ]);
}

/** `classifier`: as engine/learning/shared.ts writes it. */
export function sharedCode(classifier: string, text: string): string {
  const [, ...labels] = classifier.split('\t');
  return program([
    "import { load } from 'heed';",
    '',
    'const heed = await load();',
    "const model = await heed.fromPretrained(undefined, { dtype: 'fp32' });",
    `const labels = ${literal(labels)};`,
    '// For each label: a scale, a bias and the weights in 8 bits.',
    `const bytes = Uint8Array.from(atob('${weightsOf(classifier)}'), (c) => c.charCodeAt(0));`,
    'const size = bytes.length / labels.length;',
    'const floatAt = (i) => new DataView(bytes.buffer).getFloat32(i, true);',
    `const weightsAt = (i) => [...new Int8Array(bytes.buffer, i + ${headerBytes}, size - ${headerBytes})].map((w) => w * floatAt(i));`,
    'const weight = labels.map((_, i) => weightsAt(i * size));',
    'const bias = labels.map((_, i) => floatAt(i * size + 4));',
    `const logits = heed.linear(await model.embed([${literal(text)}]), { weight, bias });`,
    'heed.softmax(logits).data.forEach((score, i) => console.log({ label: labels[i], score }));',
  ]);
}

/** Tokens per second in texts of `length` tokens. */
export function speedCode(length: number): string {
  return program([
    "import { load } from 'heed';",
    '',
    'const heed = await load();',
    "const model = await heed.fromPretrained(undefined, { dtype: 'fp32' });",
    `const inputIds = [Array.from({ length: ${length} }, (_, i) => 200 + i)];`,
    'for (let i = 0; i < 20; i++) await model.encode({ inputIds }); // the engine optimizes the code',
    'const calls = 50;',
    'const start = performance.now();',
    'for (let i = 0; i < calls; i++) await model.encode({ inputIds });',
    `console.log((1000 * calls * ${length}) / (performance.now() - start), 'tokens per second');`,
  ]);
}
