/**
 * Decoders of words whose weights are not the token embeddings, although config.json does not say so. transformers then
 * uses the decoder.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { load } from 'heed';
import { load as loadTraining } from 'heed/train';
import { describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../../web/src/io/safetensors.js';
import type { TokenIds } from '../../../web/src/models/input.js';
import { changeWeights } from '../train/save-support.js';
import { expectClose, readSafetensors, storedTensors } from './fixtures.js';
import { fieldsOf, messageOf, textOf } from './onnx-edit.js';
import { onnxExpected, onnxFolder, onnxInput } from './onnx-fixtures.js';
import { tinyModel } from './tiny.js';

type Files = Record<string, Uint8Array | string>;
const heed = await load();
const FACTOR = -2;

const jsonOf = (files: Files, path: string) => {
  const file = files[path]!;
  return JSON.parse(typeof file === 'string' ? file : new TextDecoder().decode(file));
};
const settingsOf = (files: Files) => jsonOf(files, 'config.json');
const withSettings = (files: Files, settings: object): Files => ({
  ...files,
  'config.json': JSON.stringify({ ...settingsOf(files), ...settings }),
});
const scaled = (bytes: Uint8Array, factor: number) => {
  const values = new Float32Array(bytes.slice().buffer);
  return new Uint8Array(values.map((value) => factor * value).buffer);
};

const root = fileURLToPath(new URL('../../fixtures/families/heads/', import.meta.url));
const DECODER = 'cls.predictions.decoder.weight';
const WORDS = 'ernie.embeddings.word_embeddings.weight';
const BIAS = 'cls.predictions.bias';
const ernie = tinyModel('../families/heads/ernie');
const input = JSON.parse(readFileSync(`${root}ernie/input.json`, 'utf8')) as TokenIds;
const tensors = storedTensors(ernie['model.safetensors'] as Uint8Array);
/** The folder with a decoder that is the token embeddings, multiplied. */
const withDecoder = (factor: number): Files => {
  const words = tensors.find(({ name }) => name === WORDS)!;
  const own = { ...words, name: DECODER, data: scaled(words.data, factor) };
  const all = [...tensors.filter(({ name }) => name !== DECODER), own];
  return { ...ernie, 'model.safetensors': writeSafetensors(all.sort((a, b) => (a.name < b.name ? -1 : 1))) };
};

/** transformers' logits of the masked words, with the products multiplied. */
function expectedLogits(factor: number) {
  const logits = readSafetensors(`${root}ernie/expected.safetensors`).get('fill-mask')!;
  const bias = new Float32Array(tensors.find(({ name }) => name === BIAS)!.data.slice().buffer);
  const [, length, words] = logits.shape as [number, number, number];
  return (masks: readonly number[][]) => {
    const rows = masks.map(([n, i]) => {
      const first = (n! * length + i!) * words;
      return [...logits.data.subarray(first, first + words)].map((x, word) => factor * (x - bias[word]!) + bias[word]!);
    });
    return { data: Float32Array.from(rows.flat()), shape: [masks.length, words] };
  };
}

/** The length of the difference, relative to that of the expected values. */
function distance(a: Float32Array, b: Float32Array): number {
  const norm = (values: Float32Array) => Math.hypot(...values);
  return norm(a.map((value, i) => value - b[i]!)) / norm(b);
}

test('quantize keeps such a decoder and says so in config.json', async () => {
  const { files, report } = await heed.quantize(withDecoder(FACTOR));
  expect(settingsOf(files).tie_word_embeddings).toBe(false);
  expect(report.int8).toContain(DECODER);
  using model = await heed.fromPretrained(files);
  const { logits, masks } = await model.predict('fill-mask', input);
  expect(distance(logits.data, expectedLogits(FACTOR)(masks).data)).toBeLessThan(0.02);
});

test('quantize leaves out a decoder that is the token embeddings', async () => {
  const { files, report } = await heed.quantize(withDecoder(1));
  expect(settingsOf(files).tie_word_embeddings).not.toBe(false);
  expect(report.leftOut).toContain(DECODER);
  using model = await heed.fromPretrained(files);
  const { logits, masks } = await model.predict('fill-mask', input);
  expect(distance(logits.data, expectedLogits(1)(masks).data)).toBeLessThan(0.02);
});

test('quantize compares tensors in different shards', async () => {
  const { 'model.safetensors': file, ...files } = withDecoder(FACTOR);
  const all = storedTensors(file as Uint8Array);
  const parts = { 'a.safetensors': [all.find(({ name }) => name === DECODER)!] };
  Object.assign(parts, { 'b.safetensors': all.filter(({ name }) => name !== DECODER) });
  const shards = Object.entries(parts);
  const map = Object.fromEntries(shards.flatMap(([path, some]) => some.map(({ name }) => [name, path])));
  const { report } = await heed.quantize({
    ...files,
    ...Object.fromEntries(shards.map(([path, some]) => [path, writeSafetensors(some)])),
    'model.safetensors.index.json': JSON.stringify({ weight_map: map }),
  });
  expect(report.int8).toContain(DECODER);
});

test('prune keeps the rows of such a decoder and says so in config.json', async () => {
  const keep = ['the quick fox', 'the [MASK] fox'];
  const { files, report } = await heed.prune(withDecoder(FACTOR), { keep });
  expect(settingsOf(files)).toMatchObject({ tie_word_embeddings: false, vocab_size: report.rows.after });
  using before = await heed.fromPretrained(withSettings(withDecoder(FACTOR), { tie_word_embeddings: false }));
  using after = await heed.fromPretrained(files);
  const results = await Promise.all([before, after].map((model) => model.predict('fill-mask', keep[1]!)));
  const ids = [ernie, files].map((folder) => jsonOf(folder, 'tokenizer.json').model.vocab.fox as number);
  expect(ids[1]).toBeLessThan(ids[0]!);
  const [a, b] = results.map(({ logits }, i) => logits.toArray<number[][]>()[0]![ids[i]!]);
  expect(b).toBeCloseTo(a!, 5);
});

test('save writes the values of the token embeddings to a decoder that is a copy of them', async () => {
  const training = await loadTraining();
  const model = await training.fromPretrained(withDecoder(1), { trainable: true, dropout: 0 });
  changeWeights(model.parameters().find(({ name }) => name === WORDS)!, (value) => value / 2);
  const { data } = (await model.predict('fill-mask', input)).logits;
  const saved = await model.save();
  const stored = new Map(storedTensors(saved['model.safetensors']!).map(({ name, data }) => [name, data]));
  expect(stored.get(DECODER)).toEqual(stored.get(WORDS));
  using again = await heed.fromPretrained(saved);
  expect((await again.predict('fill-mask', input)).logits.data).toEqual(data);
});

describe('ONNX', () => {
  const [GRAPH, INITIALIZER, NAME, RAW_DATA] = [7, 5, 8, 9];
  const { 'model.safetensors': _, ...folder } = onnxFolder('bert-mask');
  /** The file with another decoder, which is the last matrix of the graph. */
  const edited = (file: Uint8Array, factor: number) => {
    const tensor = (bytes: Uint8Array) => {
      const fields = fieldsOf(bytes);
      if (fields.every(({ field, bytes }) => field !== NAME || textOf(bytes) !== 'onnx::MatMul_359')) return bytes;
      return messageOf(
        fields.map((each) => (each.field === RAW_DATA ? { ...each, bytes: scaled(each.bytes, factor) } : each)),
      );
    };
    const graph = (bytes: Uint8Array) =>
      messageOf(
        fieldsOf(bytes).map((each) => (each.field === INITIALIZER ? { ...each, bytes: tensor(each.bytes) } : each)),
      );
    return messageOf(
      fieldsOf(file).map((each) => (each.field === GRAPH ? { ...each, bytes: graph(each.bytes) } : each)),
    );
  };
  const files: Files = {
    'config.json': folder['config.json']!,
    'tokenizer.json': folder['tokenizer.json']!,
    'onnx/model.onnx': edited(folder['onnx/model.onnx'] as Uint8Array, FACTOR),
  };
  const { ids } = onnxInput('bert-mask');
  const plain = onnxExpected('bert-mask', 'exact').get('logits')!;
  const bias = readSafetensors(
    fileURLToPath(new URL('../../fixtures/onnx/bert-mask/model.safetensors', import.meta.url)),
  ).get(BIAS)!;
  const words = bias.data.length;
  const own = plain.data.map((value, i) => FACTOR * (value - bias.data[i % words]!) + bias.data[i % words]!);
  const expected = { data: own, shape: plain.shape };

  test('is rejected, and used with tie_word_embeddings: false', async () => {
    using tied = await heed.fromPretrained(files);
    await expect(tied.predict('fill-mask', ids!)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: `model: expected tie_word_embeddings: false in config.json, as '${DECODER}' is not the token embeddings, got true`,
    });
    using model = await heed.fromPretrained(withSettings(files, { tie_word_embeddings: false }));
    expectClose((await model.predict('fill-mask', ids!)).logits, expected, 'logits');
  });

  test('quantize keeps it', async () => {
    const quantized = (await heed.quantize(files)).files;
    expect(settingsOf(quantized).tie_word_embeddings).toBe(false);
    using model = await heed.fromPretrained(quantized);
    expect(distance((await model.predict('fill-mask', ids!)).logits.data, own)).toBeLessThan(0.03);
  });

  test('quantize leaves out a copy of the token embeddings', async () => {
    const { files: quantized } = await heed.quantize({
      ...files,
      'onnx/model.onnx': folder['onnx/model.onnx']!,
    });
    expect(settingsOf(quantized).tie_word_embeddings).not.toBe(false);
    expect(storedTensors(quantized['model.safetensors']!).map(({ name }) => name)).not.toContain(DECODER);
    using model = await heed.fromPretrained(quantized);
    expect(distance((await model.predict('fill-mask', ids!)).logits.data, plain.data)).toBeLessThan(0.03);
  });
});
