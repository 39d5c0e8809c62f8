/** Every public function, class and method has an example in its documentation, and the examples run. */
import * as heed from 'heed';
import * as heedCorpus from 'heed/corpus';
import * as heedDraw from 'heed/draw';
import * as heedEvaluation from 'heed/evaluation';
import * as heedLens from 'heed/lens';
import * as heedTrain from 'heed/train';
import * as heedUtil from 'heed/util';
import { afterAll, describe, expect, it } from 'vitest';
import { ambiguousTypes, publicItems, typeErrors } from './api-examples.js';
import { fixture, fixtures } from './models/fixtures.js';
import { tinyClip, tinyModel } from './models/tiny.js';

const items = publicItems();
const tokenizer = await heed.loadTokenizer(tinyModel());

it('every public function, class and method has an example, of its own or in that of its class', () => {
  expect(items.length).toBeGreaterThan(100);
  const without = items.filter(({ name, examples, around }) => {
    const call = `.${name.split('.').at(-1)}(`;
    return examples.length === 0 && !(name.includes('.') && around.some((example) => example.includes(call)));
  });
  expect(without.map(({ name }) => name)).toEqual([]);
});

it('an exported type has one meaning in all entries', () => {
  expect(ambiguousTypes()).toEqual([]);
});

/** Examples that need an environment that these tests lack. */
const runElsewhere: [name: RegExp, where: string][] = [
  [/^adapters\//, 'with the packages that the adapters are for: tests/adapters'],
  [/^corpus: /, 'a corpus in a folder: tests/web/scale'],
  [/^draw\/index: /, 'a canvas: tests/web/draw.browser.test.ts'],
];

it('the examples of heed/corpus, which need a corpus, read nothing that does not exist', () => {
  const examples = items.filter(({ name }) => name.startsWith('corpus: ')).flatMap(({ examples }) => examples);
  expect(examples.length).toBeGreaterThan(3);
  const check = (codes: string[]) => typeErrors('corpus', Object.keys(heedCorpus), codes);
  expect(check(examples)).toEqual([]);
  expect(check(["const { done } = await workEmbedding('vectors');"])).toEqual([expect.stringContaining("'done'")]);
});

/** A line `expression; // [1, 2]` states the expression's value, with numbers rounded as written. */
const claim = /^([^\s/].*); \/\/ ([[\-\d"tf].*)$/gm;

/** The JSON at the start of a comment; undefined if there is none or if it is abbreviated. */
function jsonAt(comment: string): string | undefined {
  for (let end = comment.length; end > 0; end--) {
    const text = comment.slice(0, end);
    try {
      JSON.parse(text);
      return text;
    } catch {}
  }
  return undefined;
}

/** Compares with the value in a comment, each number to as many decimals as are written. */
function expectAs(value: unknown, json: string): void {
  const written = json.match(/-?\d+(\.\d+)?/g) ?? [];
  const expected: unknown = JSON.parse(json);
  let next = 0;
  const compare = (got: unknown, want: unknown) => {
    if (Array.isArray(want)) {
      expect(got).toHaveLength(want.length);
      for (const [i, entry] of want.entries()) compare((got as unknown[])[i], entry);
    } else if (typeof want === 'number') {
      const decimals = written[next++]!.split('.')[1]?.length ?? 0;
      expect(got).toBeCloseTo(want, decimals || 3);
    } else expect(got).toBe(want);
  };
  compare(value, expected);
}

/** The tiny model with other labels. */
function withLabels(labels: string[]) {
  const files = tinyModel();
  const config = JSON.parse(new TextDecoder().decode(files['config.json'] as Uint8Array));
  const id2label = Object.fromEntries(labels.map((label, id) => [id, label]));
  return { ...files, 'config.json': JSON.stringify({ ...config, id2label }) };
}

describe('the examples run', async () => {
  const training = await heedTrain.load();
  const model = await training.fromPretrained();
  const withHeads = await training.fromPretrained(tinyModel());
  const entailmentModel = await training.fromPretrained(withLabels(['contradiction', 'neutral', 'entailment']));
  const imageModel = await training.fromPretrained(tinyClip());
  const imageClassifier = await training.fromPretrained(fixture('vit-labels').folder);
  const crossEncoder = await training.fromPretrained(tinyModel('bert-one-label'));
  const gliner = await training.fromPretrained(`${fixtures}gliner`);
  const trained = await training.fromPretrained();
  await training.trainClassifier(trained, [
    { text: 'win a prize', label: 'spam' },
    { text: 'see you at noon', label: 'other' },
  ]);
  const { 'head.safetensors': headBytes } = await trained.save({ head: true });
  afterAll(() => {
    training.dispose();
  });
  const rows = (count: number, width: number) =>
    Array.from({ length: count }, (_, i) => Array.from({ length: width }, (_, j) => Math.sin(i * width + j)));

  /** The variables that examples use without defining them. */
  function scope(): Record<string, unknown> {
    const layer = new training.Linear({ inFeatures: 8, outFeatures: 1 }).train();
    const decoder = new training.Decoder({ embedDim: 8, numHeads: 2, feedForwardDim: 16, numLayers: 1 });
    const optimizer = new training.optim.AdamW(layer.parameters(), { lr: 1e-3 });
    const sequential = new training.Sequential([layer]).train();
    return {
      ...heed,
      ...heedDraw,
      ...heedUtil,
      ...heedLens,
      ...heedEvaluation,
      heed: training,
      load: heedTrain.load,
      masks: training.masks,
      model,
      classifier: withHeads,
      tagger: withHeads,
      maskedModel: withHeads,
      imageModel,
      gliner,
      imageClassifier,
      imageData: { data: new Uint8ClampedArray(4 * 30 * 20), width: 30, height: 20 },
      blob: { data: new Uint8Array(3 * 8 * 8), width: 8, height: 8 }, // Node decodes no images
      entailmentModel,
      answerer: withHeads,
      crossEncoder,
      headBytes,
      source: rows(3, 8),
      inputs: rows(10, 8),
      labels: new Array(10).fill(0),
      texts: ['a fox', 'a dog'],
      text: 'a fox',
      x: rows(3, 8),
      keyMask: [1, 1, 0],
      sourceKeyMask: [1, 1, 0],
      memory: rows(3, 8),
      target: rows(2, 8),
      outputs: [],
      numHeads: 2,
      attention: new training.MultiHeadAttention({ embedDim: 8, numHeads: 2 }),
      layer,
      decoder,
      optimizer,
      schedule: training.optim.schedules.constant(optimizer, { warmup: 0 }),
      sequential,
      bytes: training.TextIndex.of(
        ['north', 'east'],
        [
          [0, 1],
          [1, 0],
        ],
      ).toSafetensors(),
      tokenizer,
      writeFile: () => {},
      console: { log: () => {} },
      expectAs,
    };
  }

  const examples = items
    .filter(({ name }) => !runElsewhere.some(([pattern]) => pattern.test(name)))
    .flatMap(({ name, examples }) => examples.map((code) => ({ name, code })));

  it.each(examples)('$name', async ({ name, code }) => {
    const script = code.replaceAll(claim, (line, expression: string, comment: string) => {
      const json = jsonAt(comment);
      return json === undefined ? line : `expectAs(${expression}, ${JSON.stringify(json)});`;
    });
    const names = scope();
    // Modules of heed/train are trained; heed's `model` is a pretrained encoder.
    if (/^(train\/)?index: (pipeline|loadTokenizer|Heed\.(inspect|loadTokenizer|prune|quantize))$/.test(name))
      names.source = tinyModel();
    if (name.startsWith('train/')) Object.assign(names, { model: names.sequential, target: [[0], [0], [0]] });
    await new Function(...Object.keys(names), `return (async () => {${script}\n})()`)(...Object.values(names));
  });
});
