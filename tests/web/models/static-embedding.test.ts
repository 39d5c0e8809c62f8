/** Static embeddings: model2vec and sentence-transformers' StaticEmbedding. Expected values: PyTorch's, by tests/fixtures/models/static_embedding.py. */
import { readFileSync } from 'node:fs';
import { type LoadProgress, load, similarity } from 'heed';
import { load as loadTraining } from 'heed/train';
import { describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../../web/src/io/safetensors.js';
import { type Expected, expectClose } from './fixtures.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const golden = JSON.parse(
  readFileSync(new URL('../../fixtures/models/static-embedding.json', import.meta.url), 'utf8'),
);
const texts: string[] = golden.texts;
const shape = [24, 16];
const data = Float32Array.from(golden.table.flat() as number[]);
const weights = (name: string, ...others: string[]) =>
  writeSafetensors([name, ...others].map((each) => ({ name: each, dtype: 'F32' as const, shape, data })));
const tokenizer = tinyModel()['tokenizer.json']!;
const model2vec = {
  'config.json': JSON.stringify({ model_type: 'model2vec', hidden_dim: 16, normalize: true, seq_length: 1000000 }),
  'model.safetensors': weights('embeddings'),
  'tokenizer.json': tokenizer,
};
const modules = (path: string) =>
  JSON.stringify([{ idx: 0, name: '0', path, type: 'sentence_transformers.models.StaticEmbedding' }]);
const folders = {
  'in a folder': {
    'modules.json': modules('0_StaticEmbedding'),
    '0_StaticEmbedding/model.safetensors': weights('embedding.weight'),
    '0_StaticEmbedding/tokenizer.json': tokenizer,
  },
  'in the root': {
    'modules.json': modules(''),
    'model.safetensors': weights('embedding.weight'),
    'tokenizer.json': tokenizer,
  },
};
/** A folder as saved by model2vec, which sentence-transformers can read, too. */
const ownFolder = { ...model2vec, 'modules.json': modules('.') };
/** A folder of model2vec with a quantized vocabulary. */
function quantizedFolder(...names: ('mapping' | 'weights')[]) {
  const clusters = Float32Array.from(golden.clusters.flat() as number[]);
  const values = { mapping: Int32Array.from(golden.mapping), weights: Float64Array.from(golden.weights) };
  return {
    ...ownFolder,
    'config.json': JSON.stringify({ model_type: 'model2vec', normalize: true, vocabulary_quantization: 17 }),
    'model.safetensors': writeSafetensors([
      { name: 'embeddings', dtype: 'F32', shape: [17, 16], data: clusters },
      ...names.map((name) => ({ name, dtype: name === 'mapping' ? 'I32' : 'F64', shape: [24], data: values[name] })),
    ]),
  };
}
const expected = (name: string) => ({
  data: Float32Array.from(golden[name].flat() as number[]),
  shape: [texts.length, 16],
});

/** Checks the cosines of vectors of unit norm. */
function expectNear(actual: Expected, exact: Expected, least: number): void {
  const [count, width] = actual.shape as [number, number];
  for (let n = 0; n < count; n++) {
    const row = ({ data }: Expected) => data.slice(n * width, (n + 1) * width);
    expect(row(actual).reduce((sum, value, i) => sum + value * row(exact)[i]!, 0)).toBeGreaterThan(least);
  }
}

test.each([
  ['with', ownFolder],
  ['without', model2vec],
])('model2vec, %s modules.json', async (_, folder) => {
  using model = await heed.fromPretrained(folder);
  expect(model.config).toMatchObject({
    family: 'model2vec',
    vocabSize: 24,
    embedDim: 16,
    numLayers: 0,
    maxLength: 512,
    normalize: true,
  });
  expectClose(await model.embed(texts), expected('model2vec'));
  // A single text has the same vector, and so does a worker.
  expect((await model.embed(texts[0]!)).data).toEqual((await model.embed(texts)).data.slice(0, 16));
  using worker = await heed.fromPretrained(folder, { worker: true });
  expect(await worker.embed(texts)).toEqual(await model.embed(texts));
  const { tokens, truncated } = await model.tokenize(['the pelican', 'quick fox '.repeat(200)]);
  expect(tokens[0]).toEqual(['the']);
  expect(truncated).toEqual([0, 93]); // the limit is 512 * 3 characters: 153 times both words, and one
  await expect(model.tokenize('a '.repeat(600), { truncation: false })).rejects.toMatchObject({ code: 'TOO_LONG' });
  expect((await model.tokenize('quick fox '.repeat(200), { truncation: false })).truncated).toEqual([0]);
  const pairs = await model.tokenize('quick fox '.repeat(200), { textPairs: 'the fox' });
  expect(pairs.tokens[0]!.slice(-2)).toEqual(['the', 'fox']);
  expect(pairs.truncated).toEqual([93]);
});

describe("model2vec's vocabulary quantization", () => {
  test.each([
    ['mapped', quantizedFolder('mapping')],
    ['weighted', quantizedFolder('mapping', 'weights')],
  ])('%s', async (name, folder) => {
    const progress: LoadProgress[] = [];
    using model = await heed.fromPretrained(folder, { onProgress: (each) => progress.push(each) });
    const { vocabSize, embedDim, unusedTensors } = model.config;
    expect({ vocabSize, embedDim, unusedTensors }).toEqual({ vocabSize: 24, embedDim: 16, unusedTensors: [] });
    const vectors = await model.embed(texts);
    expectClose(vectors, expected(name));
    const bytes = [folder['model.safetensors'], folder['config.json'], folder['tokenizer.json']!];
    const total = bytes.reduce((sum, file) => sum + file.length, 0);
    expect(progress.at(-1)).toMatchObject({ done: total, total });
    using q8 = await heed.fromPretrained(folder, { dtype: 'q8' });
    expectNear(await q8.embed(texts.slice(0, 2)), expected(name), 0.99);
    expect(await heed.inspect(folder)).toMatchObject({ problem: null, vocabSize: 24, embedDim: 16, unusedTensors: [] });
  });

  test.each(['int8', 'int4'] as const)('is quantized further, to %s', async (tables) => {
    const folder = quantizedFolder('mapping', 'weights');
    const { files } = await heed.quantize(folder, { tables });
    for (const dtype of ['fp32', 'q8'] as const) {
      using model = await heed.fromPretrained(files, { dtype });
      expectNear(await model.embed(texts.slice(0, 2)), expected('weighted'), 0.98);
    }
  });

  test('is pruned: tokens that are not needed lose their entries', async () => {
    const folder = quantizedFolder('mapping', 'weights');
    const { files, report } = await heed.prune(folder, { keep: texts.slice(0, 2) });
    expect(report.rows.after).toBeLessThan(24);
    using model = await heed.fromPretrained(files);
    expect(model.config.vocabSize).toBe(report.rows.after);
    const exact = expected('weighted');
    expectClose(await model.embed(texts.slice(0, 2)), { data: exact.data.slice(0, 32), shape: [2, 16] });
  });

  test('trains and is saved with a row for each token', async () => {
    const training = await loadTraining();
    const folder = quantizedFolder('mapping', 'weights');
    using model = await training.fromPretrained(folder, { trainable: true });
    const [table] = model.parameters();
    expect(table!.shape).toEqual(shape);
    expectClose(model.train().sentenceVectors(texts), expected('weighted'));
    using same = await heed.fromPretrained(await model.save());
    expectClose(await same.embed(texts), expected('weighted'));
    const target = { data: new Float32Array(texts.length * 16), shape: [texts.length, 16] };
    training.losses.mse(model.sentenceVectors(texts, { normalize: false }), target).backward();
    new training.optim.SGD([table!], { lr: 1 }).step();
    using changed = await heed.fromPretrained(await model.save());
    expect((await changed.embed(texts)).data).toEqual((await model.embed(texts)).data);
    expect((await changed.embed(texts)).data).not.toEqual((await same.embed(texts)).data);
  });

  test.each([
    ['mapping', 'I32', Int32Array.from({ length: 24 }, (_, i) => i), [24], 'rows of the table, from 0 to 6, got 7'],
    ['mapping', 'I64', BigInt64Array.from({ length: 24 }, () => -1n), [24], 'rows of the table, from 0 to 6, got -1'],
    ['weights', 'F32', new Float32Array(24), [24], '7 numbers, one per row of the table, got 24'],
    ['mapping', 'F8_E4M3', new Uint8Array(24), [24], 'dtype F8_E4M3'],
  ])('refuses wrong entries of %s in %s', async (name, dtype, data, shape, message) => {
    const table = { name: 'embeddings', dtype: 'F32', shape: [7, 16], data: new Float32Array(7 * 16) };
    const file = writeSafetensors([table, { name, dtype, shape, data }]);
    await expect(heed.fromPretrained({ ...ownFolder, 'model.safetensors': file })).rejects.toMatchObject({
      code: expect.stringMatching(/INVALID_FILE|UNSUPPORTED/),
      message: expect.stringContaining(message),
    });
  });
});

test.each([
  ['int8 without scales', 'I8', Int8Array.from(golden.integers.flat() as number[]), 'fromIntegers'],
  ['float64', 'F64', Float64Array.from(golden.table.flat() as number[]), 'model2vec'],
] as const)("model2vec's tables of %s", async (_, dtype, data, name) => {
  const file = writeSafetensors([{ name: 'embeddings', dtype, shape, data }]);
  using model = await heed.fromPretrained({ ...ownFolder, 'model.safetensors': file });
  expectClose(await model.embed(texts), expected(name));
});

test.each(Object.entries(folders))("sentence-transformers' StaticEmbedding %s", async (_, folder) => {
  using model = await heed.fromPretrained(folder);
  expectClose(await model.embed(texts), expected('staticEmbedding'));
  expect((await model.tokenize('the pelican')).tokens).toEqual([['the', '[UNK]']]);
});

test('is quantized and inspected like other models', async () => {
  for (const tables of ['int8', 'int4'] as const) {
    const { files, report } = await heed.quantize(model2vec, { tables, texts: texts.slice(0, 2) });
    expect(report[tables]).toEqual(['embeddings']);
    expect(report.loss!.q8.worst).toBeGreaterThan(0.98);
    using model = await heed.fromPretrained(files, { dtype: 'q8' });
    using original = await heed.fromPretrained(model2vec);
    const [a, b] = [await model.embed('the fox'), await original.embed('the fox')];
    expect(similarity(a, b).data[0]).toBeGreaterThan(0.98);
    expect(await heed.inspect(files)).toMatchObject({
      problem: null,
      vocabSize: 24,
      embedDim: 16,
      parameterCount: 24 * 16,
    });
  }
});

test.each(Object.entries({ ...folders, 'of model2vec': ownFolder }))(
  'inspect describes a StaticEmbedding %s',
  async (name, folder) => {
    const found = await heed.inspect(folder);
    expect(found).toMatchObject({
      family: 'model2vec',
      problem: null,
      vocabSize: 24,
      embedDim: 16,
      numLayers: 0,
      parameterCount: 24 * 16,
      missing: [],
      unusedTensors: [],
    });
    expect(found.files.map(({ path }) => path).sort()).toEqual(Object.keys(folder).sort());
    if (name === 'of model2vec') return;
    await expect(heed.quantize(folder)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringMatching(`source: ${notAtRoot}`),
    });
    const training = await loadTraining();
    using model = await training.fromPretrained(folder);
    await expect(model.save()).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringMatching(`save: ${notAtRoot}`),
    });
  },
);
const notAtRoot =
  "expected a folder with config.json, weights and tokenizer at its root, got a folder without config.json( and tokenizer.json)?(, as modules.json says that the model is in '[^']+')?$";

test('trains', async () => {
  const training = await loadTraining();
  using model = await training.fromPretrained(model2vec, { trainable: true });
  const [table] = model.parameters();
  expect(table!.shape).toEqual(shape);
  const vectors = model.train().sentenceVectors(texts);
  expect(vectors.data).toEqual((await model.embed(texts)).data);
  const zeros = { data: new Float32Array(vectors.data.length), shape: vectors.shape };
  training.losses.mse(model.sentenceVectors(texts, { normalize: false }), zeros).backward();
  expect(table!.grad!.data.some((x) => x !== 0)).toBe(true);
  new training.optim.SGD([table!], { lr: 1 }).step();
  using again = await heed.fromPretrained(await model.save());
  expect((await again.embed(texts)).data).toEqual((await model.embed(texts)).data);
  expect((await again.embed(texts)).data).not.toEqual(vectors.data);
});

test('says what it lacks', async () => {
  using model = await heed.fromPretrained(model2vec);
  await expect(model.encode('a')).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message:
      'encode: expected a model with an encoder, got static embeddings. They have vectors of texts only: use embed()',
  });
  await expect(model.predict('fill-mask', 'a')).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  await expect(heed.fromPretrained({ ...model2vec, 'model.safetensors': weights('mapping') })).rejects.toThrow(
    "model.safetensors: expected a table 'embedding.weight' or 'embeddings', got 'mapping'",
  );
  const { 'model.safetensors': _, ...noTable } = folders['in the root'];
  await expect(heed.fromPretrained(noTable)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  const { 'config.json': __, ...noConfig } = tinyModel();
  await expect(heed.fromPretrained(noConfig)).rejects.toThrow("'config.json' among its files");
});
