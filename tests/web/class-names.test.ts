/** Messages and consoles name classes as the documentation does, although the package is minified. */
import * as package_ from 'heed';
import * as corpus from 'heed/corpus';
import * as draw from 'heed/draw';
import * as evaluation from 'heed/evaluation';
import * as lens from 'heed/lens';
import * as train from 'heed/train';
import * as util from 'heed/util';
import { afterAll, expect, test } from 'vitest';
import { layers } from '../../web/src/layers/classes.js';
import { tinyModel } from './models/tiny.js';

const heed = await package_.load();
const training = await train.load();
afterAll(() => {
  heed.dispose();
  training.dispose();
});

/** The names of heed's own classes. */
const PUBLISHED = new Set([
  ...['Heed', 'HeedError', 'Tensor', 'Loss', 'Parameter', 'Schedule', 'Tokenizer', 'TextIndex', 'DecoderCache'],
  ...['PretrainedModel', 'TrainableModel', 'Sequential', 'Module', ...Object.keys(training.optim)],
  ...[...Object.keys(layers), 'FeatureTokenizer', 'StandardScaler', 'MinMaxScaler'],
]);

const isBuiltIn = (name: string) => typeof (globalThis as Record<string, unknown>)[name] === 'function';

/** The names of classes that are not published, of a value and of all that can be reached from it. */
function foundIn(value: unknown, path: string, seen = new Set<unknown>()): string[] {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return [];
  if (ArrayBuffer.isView(value)) return [];
  seen.add(value);
  const isClass = typeof value === 'function' && /^class\b/.test(String(value));
  const name = isClass ? value.name : (Object.getPrototypeOf(value)?.constructor?.name ?? 'Object');
  const wrong = PUBLISHED.has(name) || isBuiltIn(name) || /Function$/.test(name) ? [] : [`${path}: ${name}`];
  return [
    ...wrong,
    ...Object.keys(value).flatMap((key) => foundIn((value as Record<string, unknown>)[key], `${path}.${key}`, seen)),
  ];
}

test('classes that are exported, and members of the objects of load()', () => {
  const entries = { heed: package_, draw, evaluation, lens, corpus, train, util, load: heed, training };
  for (const [name, entry] of Object.entries(entries)) expect(foundIn({ ...entry }, name)).toEqual([]);
});

/** What calls return, by the names that messages give it. */
const made: [string, () => unknown][] = [
  ['Heed', () => heed],
  ['Heed', () => training],
  ['Tensor', () => heed.softmax([[1, 2]])],
  ['PretrainedModel', () => heed.fromPretrained(tinyModel())],
  ['PretrainedModel', () => heed.fromPretrained(tinyModel(), { worker: true })],
  ['PretrainedModel', () => heed.fromPretrained(tinyModel(), { workers: 2 })],
  ['PretrainedModel', () => training.fromPretrained(tinyModel())],
  ['PretrainedModel', () => training.fromPretrained(tinyModel(), { trainable: true, worker: true })],
  ['TrainableModel', () => training.fromPretrained(tinyModel(), { trainable: true })],
  ['Tokenizer', () => package_.loadTokenizer(tinyModel())],
  ['TextIndex', () => heed.TextIndex.of(['a'], [[1, 0]])],
  ['TextIndex', () => training.TextIndex.of()],
  ['Linear', () => new heed.Linear({ inFeatures: 2, outFeatures: 2 })],
  ['Transformer', () => new training.Transformer({ embedDim: 4, numHeads: 2, feedForwardDim: 4, numEncoderLayers: 1, numDecoderLayers: 1 })], // biome-ignore format: one row per class
  ['Sequential', () => new heed.Sequential([])],
  ['Sequential', () => new training.Sequential([])],
  ['DecoderCache', () => new heed.Decoder({ embedDim: 4, numHeads: 2, feedForwardDim: 4, numLayers: 1 }).makeCache([[1, 2, 3, 4]])], // biome-ignore format: one row per class
  ['Parameter', () => new training.Linear({ inFeatures: 2, outFeatures: 2 }).parameters()[0]],
  ['AdamW', () => optimizer()],
  ['Schedule', () => training.optim.schedules.linear(optimizer(), { warmup: 0, steps: 2 })],
  ['Loss', () => training.losses.mse(new training.Linear({ inFeatures: 2, outFeatures: 1 }).train().forward([[1, 2]]), [[1]])], // biome-ignore format: one row per class
];

const optimizer = () =>
  new training.optim.AdamW(new training.Linear({ inFeatures: 2, outFeatures: 2 }).parameters(), { lr: 1 });

test.each(made)('%s %#', async (name, make) => {
  const value = await make();
  expect((value as object).constructor.name).toBe(name);
  const article = /^[AEIO]/.test(name) ? 'an' : 'a';
  expect(() => heed.softmax(value as never, { axis: value as never })).toThrow(` got ${article} ${name}`);
  if (name.endsWith('Model')) (value as Disposable)[Symbol.dispose]();
});
