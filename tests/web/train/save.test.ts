/**
 * Saved folders: their content, and loading with the same results. tests/fixtures/saved/check.py compares them with
 * PyTorch.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { type Heed, load as loadPlain, similarity } from 'heed';
import { load, type SavedFiles, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { int8Rows } from '../../../web/src/folders/quantize-rows.js';
import { headerEnd, parseHeader } from '../../../web/src/io/safetensors.js';
import { bertFiles } from '../models/bert-files.js';
import { bytesOf, fixtures } from '../models/fixtures.js';
import { tinyModel } from '../models/tiny.js';
import { changeWeights, entriesOf, jsonOf, tensorsOf, textOf, withTensors } from './save-support.js';

let heed: TrainingHeed;
let plain: Heed;
beforeAll(async () => {
  heed = await load({ build: 'simd128' });
  plain = await loadPlain({ build: 'simd128' });
});

const examples = ['apple fruit', 'pear fruit', 'cat animal', 'dog animal'].map((line) => {
  const [text, label] = line.split(' ') as [string, string];
  return { text, label };
});
const texts = ['a ripe melon', 'a lion'];

const original = (name: string) => fs.readFileSync(new URL(`../../../web/model/${name}`, import.meta.url));

describe('save', () => {
  it('copies what has not changed', async () => {
    const model = await heed.fromPretrained();
    const files = await model.save();
    const names = ['config.json', 'tokenizer.json', 'tokenizer_config.json', 'modules.json', '1_Pooling/config.json'];
    expect(Object.keys(files).sort()).toEqual([...names, 'sentence_bert_config.json', 'model.safetensors'].sort());
    for (const name of names) expect(textOf(files, name)).toBe(original(name).toString());
    expect(Object.fromEntries(entriesOf(files['model.safetensors']!))).toEqual(Object.fromEntries(entriesOfShipped()));
  });

  it('rejects a model without all of its layers, also after a classifier was trained on it', async () => {
    const model = await heed.fromPretrained(undefined, { numLayers: 2 });
    await heed.trainClassifier(model, examples, { epochs: 1, seed: 1 });
    const message = 'save: expected a model with all of its layers, got 2 of 6';
    await expect(model.save()).rejects.toMatchObject({ name: 'HeedError', code: 'UNSUPPORTED', message });
  });

  it.each([undefined, 'fp32', 'q8'] as const)('writes a classifier on sentence vectors, dtype %s', async (dtype) => {
    const model = await heed.fromPretrained();
    const vectors = await model.embed(texts);
    const { labels } = await heed.trainClassifier(model, examples, { seed: 1 });
    const files = await model.save(dtype ? { dtype } : {});
    expect(jsonOf(files, 'modules.json').at(-1)).toEqual({
      idx: 3,
      name: 'classifier',
      path: '3_Dense',
      type: 'sentence_transformers.models.Dense',
    });
    expect(jsonOf(files, '3_Dense/config.json')).toEqual({
      in_features: 384,
      out_features: 2,
      bias: true,
      activation_function: 'torch.nn.modules.linear.Identity',
    });
    expect([...entriesOf(files['3_Dense/model.safetensors']!)]).toMatchObject([
      ['linear.weight', { dtype: 'F32', shape: [2, 384] }],
      ['linear.bias', { dtype: 'F32', shape: [2] }],
    ]);
    const config = jsonOf(files, 'config.json');
    expect(config).toMatchObject({
      id2label: { 0: 'animal', 1: 'fruit' },
      label2id: { animal: 0, fruit: 1 },
      problem_type: 'single_label_classification',
    });
    expect('quantization_config' in config).toBe(dtype !== 'fp32');
    const again = await plain.fromPretrained(files);
    expect(again.config).toMatchObject({ labels, problemType: 'single_label_classification', unusedTensors: [] });
    // The model's matrices have 3 bits; 'q8' writes those in int8, and keeps its table.
    const storage = { fp32: ['F32'], q8: ['F32', 'I8', 'U8'], own: ['BF16', 'I8', 'U8'] }[dtype ?? 'own'];
    expect([...again.config.storage].sort()).toEqual(storage);
    const now = await again.embed(texts);
    const [logits, own] = [model, again].map((each) => each.predict('sequence-classification', texts));
    if (dtype === 'q8') {
      for (const n of texts.keys()) expect(similarity(now, vectors).at(n, n)).toBeGreaterThan(0.999);
      for (const [i, value] of (await own!).logits.data.entries())
        expect(Math.abs(value - (await logits!).logits.data[i]!)).toBeLessThan(0.05);
    } else {
      expect(now.data).toEqual(vectors.data);
      expect((await own!).logits.data).toEqual((await logits!).logits.data);
    }
    again.dispose();
  });

  it('replaces a classifier that the folder has', async () => {
    const model = await heed.fromPretrained();
    await heed.trainClassifier(model, examples, { seed: 1 });
    const again = await heed.fromPretrained(await model.save());
    await heed.trainClassifier(again, [...examples, { text: 'trumpet', label: 'instrument' }], { seed: 1 });
    const files = await again.save();
    expect(jsonOf(files, 'modules.json')).toHaveLength(4);
    expect(jsonOf(files, '3_Dense/config.json')).toMatchObject({ out_features: 3 });
    const third = await plain.fromPretrained(files);
    expect(third.config.labels).toEqual(['animal', 'fruit', 'instrument']);
    expect((await third.predict('sequence-classification', texts)).logits.shape).toEqual([2, 3]);
    third.dispose();
  });

  it("writes the family's head under the checkpoint's names", async () => {
    const files = tinyModel();
    const model = await heed.fromPretrained(files);
    const before = entriesOf(await fileOf(files));
    const own = ['x', 'y', 'z'].map((text, i) => ({ text, label: model.config.labels[i] ?? `LABEL_${i}` }));
    await heed.trainClassifier(model, own, { seed: 1, head: 'family', epochs: 5 });
    const saved = await model.save();
    const after = entriesOf(saved['model.safetensors']!);
    expect([...after.keys()]).toEqual([...before.keys()]);
    const changed = [...after].filter(([name, { bytes }]) => bytes !== before.get(name)!.bytes).map(([name]) => name);
    expect(changed.sort()).toEqual([
      'bert.pooler.dense.bias',
      'bert.pooler.dense.weight',
      'classifier.bias',
      'classifier.weight',
    ]);
    expect(saved['modules.json']).toBeUndefined();
    const again = await plain.fromPretrained(saved);
    const { logits } = await again.predict('sequence-classification', ['x', 'y z']);
    expect(logits.data).toEqual((await model.predict('sequence-classification', ['x', 'y z'])).logits.data);
    again.dispose();
  });

  it('keeps the layers after the pooling, and adds the list of modules where there is none', async () => {
    const sentence = await heed.fromPretrained(bytesOf(join(fixtures, 'sentence')));
    const files = await sentence.save();
    for (const name of ['2_LayerNorm/model.safetensors', '3_Dense/config.json', '4_Dense/model.safetensors'])
      expect(files[name]).toEqual(new Uint8Array(fs.readFileSync(join(fixtures, 'sentence', name))));
    const model = await heed.fromPretrained(tinyModel());
    await heed.trainClassifier(
      model,
      [
        { text: 'x', label: 'a' },
        { text: 'y', label: 'b' },
      ],
      { epochs: 1 },
    );
    const saved = await model.save();
    expect(jsonOf(saved, 'modules.json').map(({ path }: { path: string }) => path)).toEqual([
      '',
      '1_Pooling',
      '2_Dense',
    ]);
    const again = await plain.fromPretrained(saved);
    expect((await again.embed('x y')).data).toEqual((await model.embed('x y')).data);
    again.dispose();
  });

  it.each([
    ...['jina-bert-v2', 'jina-bert-v2-code', 'new', 'qwen3', 'embeddinggemma'],
    ...['deberta-v2', 'deberta-v2-unshared', 'deberta-v2-convolution'],
  ])('writes %s as published', async (name) => {
    const folder = bytesOf(join(fixtures, name));
    const model = await heed.fromPretrained(folder, { trainable: true });
    for (const parameter of model.parameters()) changeWeights(parameter, (v, i) => v + (i % 7) / 50);
    const input = { inputIds: [[2, 7, 9, 3, 11, 30, 8]] };
    const files = await model.save();
    const before = await tensorsOf(folder['model.safetensors'] as Uint8Array);
    const after = entriesOf(files['model.safetensors']!);
    expect([...after.keys()]).toEqual([...before.keys()]);
    for (const [tensor, { shape, bytes }] of after) {
      expect(shape).toEqual(before.get(tensor)!.shape);
      expect(bytes, tensor).not.toBe(Buffer.from(before.get(tensor)!.bytes).toString('base64'));
    }
    const again = await plain.fromPretrained(files);
    const vectors = (await again.embed(input)).data;
    expect(vectors).toEqual((await model.embed(input)).data);
    using original = await plain.fromPretrained(folder);
    expect(vectors).not.toEqual((await original.embed(input)).data);
    again.dispose();
    model.dispose();
  });

  it.each([true, false])('writes the bias of the word logits under both of its names, tied: %s', async (tied) => {
    const bert = tinyModel() as Record<string, Uint8Array>;
    const tensors = await tensorsOf(bert['model.safetensors']!);
    const copied = (name: string, from: string) => {
      const { bytes, ...rest } = tensors.get(from)!;
      return { name, ...rest, data: bytes };
    };
    const names = ['cls.predictions.bias', 'cls.predictions.decoder.bias'] as const;
    const decoder = copied('cls.predictions.decoder.weight', 'bert.embeddings.word_embeddings.weight');
    const config = JSON.parse(textOf(bert as SavedFiles, 'config.json'));
    const files = {
      ...(await withTensors(bert, [copied(names[1], names[0]), ...(tied ? [] : [decoder])])),
      'config.json': JSON.stringify({ ...config, tie_word_embeddings: tied }),
    };
    const model = await heed.fromPretrained(files, { trainable: true, dropout: 0 });
    const bias = model.parameters().find(({ name }) => name === names[0])!;
    changeWeights(bias, (value, i) => value + Math.sin(i));
    const { data } = (await model.predict('fill-mask', 'the [MASK] fox')).logits;
    const saved = await model.save();
    const values = await tensorsOf(saved['model.safetensors']!);
    for (const name of names) expect(Buffer.from(values.get(name)!.bytes)).toEqual(Buffer.from(bias.value.data.buffer));
    const again = await heed.fromPretrained(saved);
    expect((await again.predict('fill-mask', 'the [MASK] fox')).logits.data).toEqual(data);
  });

  it('keeps F16 and BF16', async () => {
    for (const [name, dtype] of [
      ['bert-f16', 'F16'],
      ['bert-bf16', 'BF16'],
    ] as const) {
      const model = await heed.fromPretrained(bytesOf(join(fixtures, name)));
      const entries = entriesOf((await model.save())['model.safetensors']!);
      expect(entries.get('bert.encoder.layer.0.output.dense.weight')!.dtype).toBe(dtype);
      const all = entriesOf((await model.save({ dtype: 'fp32' }))['model.safetensors']!);
      expect(new Set([...all.values()].map((entry) => entry.dtype))).toEqual(new Set(['F32']));
    }
  });

  it('keeps tensors of types that are not read, which no model uses', async () => {
    const ids = {
      name: 'bert.embeddings.position_ids',
      dtype: 'I64',
      shape: [1, 3],
      data: new BigInt64Array([0n, 1n, 2n]),
    };
    const codes = { name: 'codes', dtype: 'I8', shape: [2], data: new Int8Array([1, -1]) };
    const model = await heed.fromPretrained(await withTensors(bytesOf(join(fixtures, 'bert')), [ids, codes]));
    for (const dtype of [undefined, 'fp32', 'q8'] as const) {
      const entries = entriesOf((await model.save(dtype ? { dtype } : {}))['model.safetensors']!);
      for (const { name, dtype, shape, data } of [ids, codes])
        expect(entries.get(name)).toEqual({ dtype, shape, bytes: Buffer.from(data.buffer).toString('base64') });
    }
  });

  it('keeps matrices in 4 bits', async () => {
    const sizes = { width: 72, inner: 64, heads: 4, layers: 1, vocab: 50, positions: 40 };
    const { files } = await plain.quantize(bertFiles(sizes), { matrices: 'int4' });
    const model = await heed.fromPretrained(files, { trainable: true });
    const same = await model.save();
    expect(entriesOf(same['model.safetensors']!)).toEqual(entriesOf(files['model.safetensors']!));
    changeWeights(model.parameters().find(({ name }) => name.endsWith('self.query.weight'))!, (v) => v + 0.5);
    const { config_groups } = jsonOf(await model.save(), 'config.json').quantization_config;
    expect(config_groups.group_0).toMatchObject({ targets: ['Linear'], weights: { num_bits: 4 } });
    expect(config_groups.group_1).toMatchObject({ targets: ['Embedding'], weights: { num_bits: 8 } });
    const floats = await model.save({ dtype: 'fp32' });
    using loaded = await plain.fromPretrained(floats);
    const input = { inputIds: [[2, 7, 9, 3]] };
    expect((await loaded.embed(input)).data).toEqual((await model.embed(input)).data);
  });

  it('keeps a table in 4 bits with its scales until it changes', async () => {
    const sizes = { width: 40, inner: 64, heads: 4, layers: 1, vocab: 50, positions: 40 };
    const name = 'embeddings.word_embeddings.weight';
    const { files } = await plain.quantize(bertFiles(sizes), { tables: 'int4' });
    const original = entriesOf(files['model.safetensors']!);
    const input = { inputIds: [[2, 7, 9, 3]] };
    const vectorsOf = async (source: SavedFiles, dtype: 'fp32' | 'q8') => {
      using model = await plain.fromPretrained(source, { dtype });
      return (await model.embed(input)).data;
    };
    const model = await heed.fromPretrained(files, { trainable: true });
    const same = await model.save();
    expect(Object.fromEntries(entriesOf(same['model.safetensors']!))).toEqual(Object.fromEntries(original));
    expect(textOf(same, 'config.json')).toBe(new TextDecoder().decode(files['config.json']));
    const floats = await model.save({ dtype: 'fp32' });
    expect(entriesOf(floats['model.safetensors']!).get(name)).toMatchObject({ dtype: 'F32', shape: [50, 40] });
    expect(jsonOf(floats, 'config.json').quantization_config).toBeUndefined();
    expect(await vectorsOf(floats, 'fp32')).toEqual(await vectorsOf(files as SavedFiles, 'fp32'));

    const parameter = (end: string) => model.parameters().find((each) => each.name.endsWith(end))!;
    const add = (end: string) => changeWeights(parameter(end), (v) => v + 0.5);
    add('self.query.weight');
    const other = await model.save();
    const entries = entriesOf(other['model.safetensors']!);
    for (const part of [name, `${name}_scale`]) expect(entries.get(part)).toEqual(original.get(part));
    expect(entries.get('encoder.layer.0.attention.self.query.weight')!.dtype).toBe('F32');
    expect(jsonOf(other, 'config.json').quantization_config).toMatchObject({
      config_groups: { group_1: { weights: { num_bits: 4 } } },
      ignore: expect.arrayContaining(['encoder.layer.0.attention.self.query']),
    });
    expect(await vectorsOf(other, 'fp32')).toEqual((await model.embed(input)).data);
    await vectorsOf(other, 'q8');

    add('word_embeddings.weight');
    const int8 = await model.save({ dtype: 'q8' });
    expect(entriesOf(int8['model.safetensors']!).get(name)).toMatchObject({ dtype: 'I8', shape: [50, 40] });
    expect(jsonOf(int8, 'config.json').quantization_config.config_groups.group_1).toBeUndefined();
    await vectorsOf(int8, 'q8');
  });

  it('quantizes as the core does: a q8 model has the same vectors from either file', async () => {
    const bert = bytesOf(join(fixtures, 'bert'));
    // Token embeddings that are exact in int8, because scales of tables are rounded to bfloat16.
    const words = 'bert.embeddings.word_embeddings.weight';
    const all = await tensorsOf(bert['model.safetensors']!);
    const [count, width] = all.get(words)!.shape as [number, number];
    const data = Float32Array.from({ length: count * width }, (_, i) => (i % width === 0 ? 127 : (i * 7) % 101) / 256);
    const files = await withTensors(bert, [{ name: words, dtype: 'F32', shape: [count, width], data }]);
    const model = await heed.fromPretrained(files);
    const saved = await model.save({ dtype: 'q8' });
    const entries = entriesOf(saved['model.safetensors']!);
    expect(entries.get('bert.encoder.layer.0.output.dense.weight')).toMatchObject({ dtype: 'I8', shape: [24, 40] });
    expect(entries.get('bert.encoder.layer.0.output.dense.weight_scale')).toMatchObject({
      dtype: 'F32',
      shape: [24, 1],
    });
    expect(entries.get(`${words}_scale`)!.dtype).toBe('BF16');
    for (const scale of [...entries.keys()].filter((name) => name.endsWith('_scale')))
      expect([...entries.keys()].indexOf(scale)).toBe(
        [...entries.keys()].indexOf(scale.slice(0, -'_scale'.length)) - 1,
      );
    const output = (await tensorsOf(bert['model.safetensors']!)).get('bert.encoder.layer.0.output.dense.weight')!;
    const rows = int8Rows(new Float32Array(output.bytes.slice().buffer), 40, {
      table: false,
      rotated: true,
      tensor: 'weight',
    });
    expect(entries.get('bert.encoder.layer.0.output.dense.weight')!.bytes).toBe(
      Buffer.from(rows.data.buffer).toString('base64'),
    );
    expect(entries.get('bert.embeddings.LayerNorm.weight')!.dtype).toBe('F32');
    expect(jsonOf(saved, 'config.json').quantization_config.ignore).toContain('bert.pooler.dense');
    const ids = {
      inputIds: [
        [2, 7, 9, 3],
        [2, 30, 12, 61, 3],
      ],
    };
    const [fromFloat, fromInt] = [
      await plain.fromPretrained(files, { dtype: 'q8' }),
      await plain.fromPretrained(saved, { dtype: 'q8' }),
    ];
    expect((await fromInt.embed(ids)).data).toEqual((await fromFloat.embed(ids)).data);
    fromFloat.dispose();
    fromInt.dispose();
  });

  it('refuses a model that is being trained, a disposed one, and a source that is gone', async () => {
    const model = await heed.fromPretrained();
    const training = heed.trainClassifier(model, examples, { epochs: 2 });
    await expect(model.save()).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining('the model is being trained'),
    });
    await training;
    const infinite = await heed.fromPretrained(tinyModel(), { trainable: true });
    const query = infinite.parameters().find(({ name }) => name.endsWith('query.weight'))!;
    changeWeights(query, (v, i) => (i === 30 ? Number.NaN : v));
    await expect(infinite.save({ dtype: 'q8' })).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining(`tensor '${query.name}': expected finite weights, got NaN in row 1`),
    });
    await expect(model.save({ dtype: 'q4' } as never)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    model.dispose();
    await expect(model.save()).rejects.toMatchObject({ code: 'DISPOSED' });
    const folder = fs.mkdtempSync(join(fs.realpathSync('/tmp'), 'heed-save-'));
    for (const [name, bytes] of Object.entries(bytesOf(join(fixtures, 'bert'))))
      fs.writeFileSync(join(folder, name), bytes);
    const other = await heed.fromPretrained(folder);
    fs.rmSync(folder, { recursive: true });
    await expect(other.save()).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});

/** The tensors of the bundled model. */
function entriesOfShipped() {
  const bytes = new Uint8Array(original('model.safetensors'));
  const end = headerEnd(bytes, 'file', bytes.length);
  return new Map(
    parseHeader(bytes.subarray(8, end), 'file', bytes.length).map(({ name, dtype, shape, begin, end: last }) => [
      name,
      { dtype, shape, bytes: Buffer.from(bytes.subarray(end + begin, end + last)).toString('base64') },
    ]),
  );
}

async function fileOf(files: Record<string, Uint8Array | string>): Promise<Uint8Array> {
  const model = await heed.fromPretrained(files);
  return (await model.save())['model.safetensors']!;
}
