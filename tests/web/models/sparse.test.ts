/**
 * Sparse vectors. Expected values: SPLADE's formula, applied to PyTorch's logits of the masked language models
 * (tests/fixtures/models/generate.py).
 */
import { load, sparseDot } from 'heed';
import { describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../../web/src/io/safetensors.js';
import { fixture, readSafetensors } from './fixtures.js';
import { tinyModel } from './tiny.js';

const heed = await load();

/** The weights w_j, computed from logits [N,L,V] over the tokens that are not padding. */
function expectedOf(name: string, sums: boolean, activation: string): Float64Array[] {
  const { expected, input } = fixture(name);
  const { data, shape } = expected.get('mask')!;
  const [count, length, words] = shape as [number, number, number];
  return Array.from({ length: count }, (_, n) => {
    const weights = new Float64Array(words);
    for (let i = 0; i < length; i++) {
      if (input.attentionMask![n]![i] !== 1) continue;
      for (let j = 0; j < words; j++) {
        let weight = Math.log1p(Math.max(0, data[(n * length + i) * words + j]!));
        if (activation === 'log1p_relu') weight = Math.log1p(weight);
        weights[j] = sums ? weights[j]! + weight : Math.max(weights[j]!, weight);
      }
    }
    return weights;
  });
}

const modules = JSON.stringify([
  { idx: 0, name: '0', path: '', type: 'sentence_transformers.sparse_encoder.models.MLMTransformer.MLMTransformer' },
  { idx: 1, name: '1', path: '1_SpladePooling', type: 'sentence_transformers.sparse_encoder.models.SpladePooling' },
]);

describe.each(['bert', 'distilbert', 'roberta', 'modernbert'])('%s', (name) => {
  test.each([
    ['max', 'relu'],
    ['sum', 'relu'],
    ['max', 'log1p_relu'],
    ['sum', 'log1p_relu'],
  ])('%s of %s', async (strategy, activation) => {
    const { input } = fixture(name);
    const pooling = JSON.stringify({ pooling_strategy: strategy, activation_function: activation });
    using model = await heed.fromPretrained({
      ...tinyModel(name),
      'modules.json': modules,
      '1_SpladePooling/config.json': pooling,
    });
    const vectors = await model.embedSparse(input);
    expectedOf(name, strategy === 'sum', activation).forEach((weights, n) => {
      const { indices, values } = vectors[n]!;
      const dense = new Float64Array(weights.length);
      indices.forEach((j, i) => {
        dense[j] = values[i]!;
      });
      weights.forEach((weight, j) => {
        expect(Math.abs(dense[j]! - weight), `text ${n}, token ${j}`).toBeLessThanOrEqual(1e-5 + 1e-4 * weight);
      });
      expect([...indices]).toEqual([...indices].sort((a, b) => a - b));
      expect(values.every((value) => value > 0)).toBe(true);
    });
  });
});

test('texts of more tokens than have logits at once, alone and in a list, here and in a worker', async () => {
  using model = await heed.fromPretrained(tinyModel());
  const texts = ['the quick brown fox '.repeat(9), 'a x'];
  const vectors = await model.embedSparse(texts);
  expect(await model.embedSparse(texts[0]!)).toEqual([vectors[0]]);
  using worker = await heed.fromPretrained(tinyModel(), { worker: true });
  expect(await worker.embedSparse(texts)).toEqual(vectors);
  const { logits } = await model.predict('fill-mask', '[MASK]');
  expect(logits.shape[1]).toBeGreaterThan(Math.max(...vectors[0]!.indices));
});

test('the dot product of sparse vectors', () => {
  const vector = (entries: Record<number, number>) => ({
    indices: Int32Array.from(Object.keys(entries), Number),
    values: Float32Array.from(Object.values(entries)),
  });
  expect(sparseDot(vector({ 1: 2, 5: 3, 9: 4 }), vector({ 0: 7, 5: 0.5, 9: 2, 11: 1 }))).toBe(9.5);
  expect(sparseDot(vector({}), vector({ 1: 1 }))).toBe(0);
  expect(() => sparseDot(vector({ 1: 1 }), { indices: new Int32Array(2), values: new Float32Array(1) })).toThrow(
    'sparseDot: b: expected as many values as indices, got 1 and 2',
  );
});

test('refuses a decoder with other rows than the vocabulary', async () => {
  const { folder, input } = fixture('bert');
  const tensors = readSafetensors(`${folder}/model.safetensors`);
  const [words, width] = tensors.get('bert.embeddings.word_embeddings.weight')!.shape as [number, number];
  tensors.set('cls.predictions.decoder.weight', {
    shape: [words + 8, width],
    data: new Float32Array((words + 8) * width),
  });
  tensors.set('cls.predictions.decoder.bias', { shape: [words + 8], data: new Float32Array(words + 8) });
  tensors.delete('cls.predictions.bias');
  const files = tinyModel();
  const config = JSON.parse(new TextDecoder().decode(files['config.json'] as Uint8Array));
  using model = await heed.fromPretrained({
    ...files,
    'config.json': JSON.stringify({ ...config, tie_word_embeddings: false }),
    'model.safetensors': writeSafetensors([...tensors].map(([name, tensor]) => ({ name, dtype: 'F32', ...tensor }))),
  });
  const message = `decoder: expected ${words} rows, the vocab_size of config.json, got ${words + 8}`;
  await expect(model.embedSparse(input)).rejects.toMatchObject({ code: 'INVALID_FILE', message });
  expect((await model.embed(input)).shape[1]).toBe(width); // the model works afterwards
});

test('says what is missing', async () => {
  using model = await heed.fromPretrained(tinyModel('nomic_bert'));
  await expect(model.embedSparse('a')).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  const other = { ...tinyModel(), 'modules.json': modules };
  for (const [config, message] of [
    [{ pooling_strategy: 'mean' }, "pooling_strategy: expected 'max' or 'sum', got \"mean\""],
    [{ activation_function: 'tanh' }, "activation_function: expected 'relu' or 'log1p_relu', got \"tanh\""],
  ] as const)
    await expect(
      heed.fromPretrained({ ...other, '1_SpladePooling/config.json': JSON.stringify(config) }),
    ).rejects.toThrow(message);
});
