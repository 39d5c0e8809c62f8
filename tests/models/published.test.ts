/**
 * Published checkpoints (tools/checkpoints.mjs fetches them), beside what sentence-transformers and onnxruntime make of
 * them (tests/fixtures/published/generate.py).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load, type PretrainedModel, pipeline, type Tensor } from 'heed';
import { describe, expect, test } from 'vitest';
import { type Expected, readSafetensors } from '../web/models/fixtures.js';

const checkpoints = fileURLToPath(new URL('../../build/checkpoints/', import.meta.url));
const fixtures = fileURLToPath(new URL('../fixtures/published/', import.meta.url));
const texts = JSON.parse(readFileSync(join(fixtures, 'texts.json'), 'utf8')) as string[];

function reference(name: string): { ids: number[][]; values: Map<string, Expected> } {
  return {
    ids: JSON.parse(readFileSync(join(fixtures, `${name}.json`), 'utf8')),
    values: readSafetensors(join(fixtures, `${name}.safetensors`)),
  };
}

/** The bound on differences of entries of normalized vectors between fp32 implementations. */
const TOLERANCE = 2e-6;

function expectSame(actual: Tensor, expected: Expected): void {
  expect(actual.shape).toEqual(expected.shape);
  const width = expected.shape[1]!;
  const differences = texts.map((_, row) => {
    let most = 0;
    for (let i = row * width; i < (row + 1) * width; i++) {
      const difference = Math.abs(actual.data[i]! - expected.data[i]!);
      if (!(difference <= most)) most = difference; // NaN included
    }
    return most;
  });
  const wrong = differences.flatMap((difference, row) => (difference <= TOLERANCE ? [] : [{ row, difference }]));
  expect(wrong).toEqual([]);
}

/** Mean and least cosine of the rows of normalized vectors. */
function cosines(actual: Tensor, expected: Expected): { mean: number; least: number } {
  const width = expected.shape[1]!;
  const all = texts.map((_, row) => {
    let sum = 0;
    for (let i = row * width; i < (row + 1) * width; i++) sum += actual.data[i]! * expected.data[i]!;
    return sum;
  });
  return { mean: all.reduce((a, b) => a + b) / all.length, least: Math.min(...all) };
}

async function expectTokens(model: PretrainedModel, ids: number[][]): Promise<void> {
  const { inputIds, attentionMask } = await model.tokenize(texts);
  expect(inputIds.map((row, n) => row.slice(0, attentionMask[n]!.lastIndexOf(1) + 1))).toEqual(ids);
}

const heed = await load();

// The least mean cosine of vectors by int8 arithmetic to those in fp32, somewhat below what was measured on these texts, many of
// which are unlike the sentences that the models were trained on: 0.9985 and 0.9983.
const SAFETENSORS = {
  'all-MiniLM-L6-v2': { q8: 0.998 },
  'all-mpnet-base-v2': { q8: 0.9975 },
};

describe.each(Object.entries(SAFETENSORS))('%s', (name, { q8 }) => {
  const folder = join(checkpoints, name);
  const { ids, values } = reference(name);
  const vectors = values.get('vectors')!;

  test("has sentence-transformers' tokens and vectors", async () => {
    using model = await heed.fromPretrained(folder);
    await expectTokens(model, ids);
    expectSame(await model.embed(texts, { normalize: true }), vectors);
  });

  test('stays near them in int8 arithmetic, also from a quantized folder', async () => {
    const { files } = await heed.quantize(folder);
    for (const source of [folder, files]) {
      using model = await heed.fromPretrained(source, { dtype: 'q8' });
      const { mean, least } = cosines(await model.embed(texts, { normalize: true }), vectors);
      expect(mean).toBeGreaterThan(q8);
      expect(least).toBeGreaterThan(0.98);
    }
  });
});

// As above, of the int8 files to their dequantized weights in fp32; measured: 0.9949, 0.9980, 0.9891 and 0.9987.
const ONNX = {
  'all-minilm-l6-v2': { pooling: 'mean', q8: 0.99 },
  'bge-small-en-v15': { pooling: 'cls', q8: 0.995 },
  'bge-small-zh-v15': { pooling: 'cls', q8: 0.98 },
  'e5-small-v2': { pooling: 'mean', q8: 0.996 },
} as const;

describe.each(Object.entries(ONNX))('%s, from ONNX files', (name, { pooling, q8 }) => {
  const folder = join(checkpoints, name);
  const { ids, values } = reference(name);
  const options = { pooling, normalize: true };
  const named = { weights: 'onnx/model_quantized.onnx' };

  test("has onnxruntime's tokens and vectors", async () => {
    using model = await heed.fromPretrained(folder);
    await expectTokens(model, ids);
    expectSame(await model.embed(texts, options), values.get('vectors')!);
  });

  test('stays near them in int8 arithmetic', async () => {
    using model = await heed.fromPretrained(folder, { dtype: 'q8', weights: 'onnx/model.onnx' });
    const { mean, least } = cosines(await model.embed(texts, options), values.get('vectors')!);
    expect(mean).toBeGreaterThan(0.9975); // measured: 0.9983 and more
    expect(least).toBeGreaterThan(0.98);
  });

  test("has PyTorch's vectors for the dequantized weights of the int8 file", async () => {
    using model = await heed.fromPretrained(folder, named);
    expectSame(await model.embed(texts, options), values.get('quantized')!);
  });

  test('stays near those with the integers of the int8 file', async () => {
    using model = await heed.fromPretrained(folder, { dtype: 'q8' });
    const { mean, least } = cosines(await model.embed(texts, options), values.get('quantized')!);
    expect(mean).toBeGreaterThan(q8);
    expect(least).toBeGreaterThan(0.9);
  });

  test("gives a pipeline's users the same vectors", async () => {
    const extract = await pipeline('feature-extraction', folder, { dtype: 'fp32' });
    const some = texts.slice(0, 8);
    const vectors = await extract(some, options);
    const expected = values.get('vectors')!;
    const width = expected.shape[1]!;
    expect(vectors.dims).toEqual([some.length, width]);
    vectors.data.forEach((value: number, i: number) =>
      expect(Math.abs(value - expected.data[i]!)).toBeLessThanOrEqual(TOLERANCE),
    );
  });
});
