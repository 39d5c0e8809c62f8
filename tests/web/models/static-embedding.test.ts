/** Static embeddings: model2vec and sentence-transformers' StaticEmbedding. Expected values: PyTorch's, by tests/fixtures/models/static_embedding.py. */
import { readFileSync } from 'node:fs';
import { load, similarity } from 'heed';
import { load as loadTraining } from 'heed/train';
import { expect, test } from 'vitest';
import { writeSafetensors } from '../../../web/src/io/safetensors.js';
import { expectClose } from './fixtures.js';
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
  'of model2vec': { ...model2vec, 'modules.json': modules('.') },
};
const expected = (name: string) => ({
  data: Float32Array.from(golden[name].flat() as number[]),
  shape: [texts.length, 16],
});

test('model2vec', async () => {
  using model = await heed.fromPretrained(model2vec);
  expect(model.config).toMatchObject({
    family: 'model2vec',
    vocabSize: 24,
    embedDim: 16,
    numLayers: 0,
    maxLength: 512,
    normalize: true,
  });
  expectClose(await model.embed(texts), expected('model2vec'));
  // Each text by itself gives the same, and so does a worker.
  expect((await model.embed(texts[0]!)).data).toEqual((await model.embed(texts)).data.slice(0, 16));
  using worker = await heed.fromPretrained(model2vec, { worker: true });
  expect(await worker.embed(texts)).toEqual(await model.embed(texts));
  expect((await model.tokenize('the pelican')).tokens).toEqual([['the']]);
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

test.each(Object.entries(folders))('inspect describes a StaticEmbedding %s', async (name, folder) => {
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
  await expect(heed.quantize(folder)).rejects.toMatchObject({ code: 'UNSUPPORTED', message: `source: ${notAtRoot}` });
  const training = await loadTraining();
  using model = await training.fromPretrained(folder);
  await expect(model.save()).rejects.toMatchObject({ code: 'UNSUPPORTED', message: `save: ${notAtRoot}` });
});
const notAtRoot =
  'expected a folder with config.json and with its weights and its tokenizer at its root, got one without these';

test('trains', async () => {
  const training = await loadTraining();
  using model = await training.fromPretrained(model2vec, { trainable: true });
  const [table] = model.parameters();
  expect(table!.shape).toEqual(shape);
  const vectors = model.train().sentenceVectors(texts);
  expect(vectors).toEqual(await model.embed(texts));
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
  const mapped = { ...model2vec, 'model.safetensors': weights('embeddings', 'mapping') };
  await expect(heed.fromPretrained(mapped)).rejects.toThrow(
    "model.safetensors: expected a table 'embedding.weight' or 'embeddings' alone, got 'embeddings', 'mapping'",
  );
  const { 'model.safetensors': _, ...noTable } = folders['in the root'];
  await expect(heed.fromPretrained(noTable)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  const { 'config.json': __, ...noConfig } = tinyModel();
  await expect(heed.fromPretrained(noConfig)).rejects.toThrow("'config.json' among its files");
});
