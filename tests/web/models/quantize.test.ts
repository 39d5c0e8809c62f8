/** `heed.quantize`: loading the folders that it writes, and the files that it copies. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { load, type PretrainedModel, similarity } from 'heed';
import { afterAll, describe, expect, test } from 'vitest';
import { int8Rows } from '../../../web/src/folders/quantize-rows.js';
import { headerEnd, parseHeader, writeSafetensors } from '../../../web/src/io/safetensors.js';
import { bertFiles, idsOf } from './bert-files.js';
import { codedDecoded } from './coded.js';
import { bytesOf, fixtures, headerOf, readSafetensors } from './fixtures.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const scratch = mkdtempSync(join(tmpdir(), 'heed-quantize-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const sizes = { width: 32, inner: 64, heads: 4, layers: 2, vocab: 50, positions: 40 };
const input = { inputIds: idsOf([7, 12, 3], sizes.vocab) };
const texts = ['the quick fox', 'a brown x', 'z 12'];
const tensorsOf = (file: Uint8Array) => {
  const path = join(scratch, 'tensors.safetensors');
  writeFileSync(path, file);
  return readSafetensors(path);
};
const embedded = async (files: object, dtype: 'fp32' | 'q8', given: object | string[] = input) => {
  using model: PretrainedModel = await heed.fromPretrained(files as never, { dtype });
  return await model.embed(given as never);
};
const cosines = (a: Awaited<ReturnType<typeof embedded>>, b: typeof a) =>
  a.toArray<number[][]>().map((row, n) => similarity([row], [b.toArray<number[][]>()[n]!]).data[0]!);

/** A file's tensors as arguments for `writeSafetensors`. */
function listed(file: Uint8Array) {
  const entries = headerOf(file);
  return [...tensorsOf(file)].map(([name, { data, shape }]) => ({ name, dtype: entries[name].dtype, shape, data }));
}

describe('int8', () => {
  const original = bertFiles(sizes);

  test('has rows with a scale each, before their integers; the rest is as it was', async () => {
    const { files, report } = await heed.quantize({
      ...original,
      'notes/READ ME.txt': 'text',
      'pytorch_model.bin': 'x',
    });
    expect(Object.keys(files).sort()).toEqual(['config.json', 'model.safetensors', 'notes/READ ME.txt']);
    expect(new TextDecoder().decode(files['notes/READ ME.txt'])).toBe('text');
    const before = tensorsOf(original['model.safetensors']!);
    const entries = headerOf(files['model.safetensors']!);
    const query = 'encoder.layer.0.attention.self.query.weight';
    expect(entries[query]).toMatchObject({ dtype: 'I8', shape: [32, 32] });
    expect(entries[`${query}_scale`]).toMatchObject({ dtype: 'F32', shape: [32, 1] });
    expect(entries[`${query}_scale`].data_offsets[1]).toBe(entries[query].data_offsets[0]);
    const { data, scales } = int8Rows(before.get(query)!.data, 32, { table: false, rotated: true, tensor: query });
    const body = files['model.safetensors']!.subarray(
      files['model.safetensors']!.length -
        Math.max(
          ...Object.values(entries as Record<string, { data_offsets?: number[] }>).map(
            (entry) => entry.data_offsets?.[1] ?? 0,
          ),
        ),
    );
    const bytes = (name: string) => body.slice(...(entries[name].data_offsets as [number, number]));
    expect(new Int8Array(bytes(query).buffer)).toEqual(data);
    expect(new Float32Array(bytes(`${query}_scale`).buffer)).toEqual(scales);
    for (const name of ['embeddings.token_type_embeddings.weight', 'encoder.layer.1.output.dense.bias'])
      expect(new Float32Array(bytes(name).buffer)).toEqual(before.get(name)!.data);
    expect(report.leftOut).toEqual(['pytorch_model.bin']);
    expect(report.int8).toHaveLength(2 + 6 * 2);
    expect(report.bytesAfter).toBe(Object.values(files).reduce((sum, { length }) => sum + length, 0));
    expect(report.bytesAfter).toBeLessThan(0.5 * report.bytesBefore);
    expect(report.loss).toBeNull();
  });

  test("loads as 'q8' with the matrices that quantizing at load makes, and as 'fp32' dequantized", async () => {
    // With token embeddings that are exact in int8, both are the same, bit for bit.
    const tensors = tensorsOf(original['model.safetensors']!);
    const entries = headerOf(original['model.safetensors']!);
    for (const [name, { data, shape }] of tensors)
      if (name.startsWith('embeddings.') && shape.length === 2)
        data.forEach((v, i) => (data[i] = i % shape[1]! === 0 ? 127 / 256 : Math.round(v * 400) / 256));
    const exact = {
      ...original,
      'model.safetensors': writeSafetensors(
        [...tensors].map(([name, { data, shape }]) => ({ name, dtype: entries[name].dtype, shape, data })),
      ),
    };
    const { files } = await heed.quantize(exact);
    expect(await embedded(files, 'q8')).toEqual(await embedded(exact, 'q8'));
    const fp32 = await embedded(files, 'fp32');
    expect(fp32).not.toEqual(await embedded(exact, 'fp32'));
    for (const cosine of cosines(fp32, await embedded(exact, 'fp32'))) expect(cosine).toBeGreaterThan(0.999);
  });

  test('a tensor that is no weight, whatever its name ends in, and matrices that stay floats', async () => {
    const all = listed(original['model.safetensors']!);
    const extra = { name: 'logit_scale', dtype: 'F32', shape: [], data: new Float32Array([2]) };
    const given = { ...original, 'model.safetensors': writeSafetensors([...all, extra]) };
    const { files, report } = await heed.quantize(given);
    expect(report.leftOut).toEqual(['logit_scale']);
    expect((await heed.inspect(given)).unusedTensors).toEqual(['logit_scale']);
    const { ignore } = JSON.parse(new TextDecoder().decode(files['config.json'])).quantization_config;
    expect(ignore).toEqual(['embeddings.token_type_embeddings']);
  });

  test('reports the loss on texts', async () => {
    const { files, report } = await heed.quantize(tinyModel(), { texts });
    for (const dtype of ['fp32', 'q8'] as const) {
      const found = cosines(await embedded(tinyModel(), 'fp32', texts), await embedded(files, dtype, texts));
      const { mean, worst, text } = report.loss![dtype];
      expect(worst).toBeCloseTo(Math.min(...found), 6);
      expect(mean).toBeCloseTo(found.reduce((a, b) => a + b) / 3, 6);
      expect(text).toBe(texts[found.indexOf(Math.min(...found))]);
    }
  });

  test.each([
    'distilbert',
    'mpnet',
    'electra',
    'albert',
    'modernbert',
    'nomic_bert',
    'roberta',
    'bert-f16',
    'bert-bf16',
  ])('%s', async (name) => {
    const folder = bytesOf(join(fixtures, name));
    const { files } = await heed.quantize(folder);
    const { inputIds } = JSON.parse(readFileSync(join(fixtures, name, 'input.json'), 'utf8'));
    for (const dtype of ['fp32', 'q8'] as const)
      for (const cosine of cosines(
        await embedded(folder, 'fp32', { inputIds }),
        await embedded(files, dtype, { inputIds }),
      ))
        expect(cosine).toBeGreaterThan(0.99);
  });

  test.each(['int8', 'int3'] as const)('tables that arrive in several chunks: %s', async (tables) => {
    const large = bertFiles({ ...sizes, vocab: 40_000, layers: 0 });
    const { files } = await heed.quantize(large, { tables });
    const ids = { inputIds: [[0, 1, 16_383, 16_384, 32_767, 32_768, 39_999]] };
    for (const dtype of ['fp32', 'q8'] as const) {
      const vectors = async (from: object) => {
        using model = await heed.fromPretrained(from as never, { dtype });
        return (await model.encode(ids)).lastHiddenState.at(0) as never;
      };
      for (const cosine of cosines(await vectors(large), await vectors(files)))
        expect(cosine).toBeGreaterThan(tables === 'int8' ? 0.98 : 0.95);
    }
  });

  test('shards become one file', async () => {
    const all = listed(original['model.safetensors']!);
    const parts = [all.slice(0, 10), all.slice(10)];
    const file = (i: number) => `model-0000${i + 1}-of-00002.safetensors`;
    const { 'model.safetensors': _, ...others } = original;
    const sharded = {
      ...others,
      ...Object.fromEntries(parts.map((part, i) => [file(i), writeSafetensors(part)])),
      'model.safetensors.index.json': JSON.stringify({
        weight_map: Object.fromEntries(parts.flatMap((part, i) => part.map(({ name }) => [name, file(i)]))),
      }),
    };
    const { files } = await heed.quantize(sharded);
    expect(Object.keys(files).sort()).toEqual(['config.json', 'model.safetensors']);
    expect(await embedded(files, 'q8')).toEqual(await embedded((await heed.quantize(original)).files, 'q8'));
  });
});

/** The folder with its weights of 3 and 4 bits decoded to fp32. `original` determines their widths. */
function decoded(files: Record<string, Uint8Array>, original: Record<string, Uint8Array | string>) {
  const file = files['model.safetensors']!;
  const start = headerEnd(file, 'model', file.length);
  const tensors = parseHeader(file.subarray(8, start), 'model', file.length).map(({ begin, end, ...tensor }) => ({
    ...tensor,
    data: file.slice(start + begin, start + end),
  }));
  const shapes = tensorsOf(original['model.safetensors'] as Uint8Array);
  const all = codedDecoded(tensors, (name) => shapes.get(name)!.shape[1]!);
  // A table that config.json calls coded is coded.
  const config = JSON.parse(new TextDecoder().decode(files['config.json']));
  const groups = Object.entries<{ targets: string[] }>(config.quantization_config.config_groups);
  config.quantization_config.config_groups = Object.fromEntries(
    groups.filter(([, { targets }]) => !targets.includes('Embedding')),
  );
  return { ...files, 'config.json': JSON.stringify(config), 'model.safetensors': writeSafetensors(all) };
}

describe('tables in 2 to 4 bits', () => {
  const name = 'embeddings.word_embeddings.weight';

  test.each([2, 3, 4] as const)('are looked up in both dtypes: %s bits', async (bits) => {
    const original = bertFiles({ ...sizes, width: 76 });
    const { files, report } = await heed.quantize(original, { tables: `int${bits}` });
    expect(report[`int${bits}`]).toEqual([name]);
    const entries = headerOf(files['model.safetensors']!);
    expect(entries[name]).toMatchObject({ dtype: 'U8', shape: [50, bits, 10] });
    expect(entries[`${name}_scale`]).toMatchObject({ dtype: 'BF16', shape: [50, 1] });
    expect(entries[`${name}_column_scale`]).toMatchObject({ dtype: 'BF16', shape: [1, 76] });
    const rowsOf = async (from: object, dtype: 'fp32' | 'q8') => {
      using model = await heed.fromPretrained(from as never, { dtype });
      return (await model.encode(input, { outputHiddenStates: true })).hiddenStates[0]!;
    };
    const reference = await rowsOf(decoded(files, original), 'fp32');
    for (const dtype of ['fp32', 'q8'] as const) expect(await rowsOf(files, dtype)).toEqual(reference);
    for (const cosine of cosines(await embedded(original, 'fp32'), await embedded(files, 'q8')))
      expect(cosine).toBeGreaterThan({ 2: 0.8, 3: 0.95, 4: 0.98 }[bits]);
  });

  test('come with biases, norms and small tables in bfloat16', async () => {
    const original = bertFiles(sizes);
    const { files, report } = await heed.quantize(original, { tables: 'int4' });
    const [before, entries] = [tensorsOf(original['model.safetensors']!), headerOf(files['model.safetensors']!)];
    const after = tensorsOf(files['model.safetensors']!);
    for (const name of [
      'embeddings.token_type_embeddings.weight',
      'embeddings.LayerNorm.weight',
      'encoder.layer.1.output.dense.bias',
    ]) {
      expect(report.bf16).toContain(name);
      expect(entries[name].dtype).toBe('BF16');
      expect(after.get(name)!.shape).toEqual(before.get(name)!.shape);
      after.get(name)!.data.forEach((v, i) => {
        const exact = before.get(name)!.data[i]!;
        expect(Math.abs(v - exact)).toBeLessThanOrEqual(Math.abs(exact) / 256);
      });
    }
    expect(report.bf16).toHaveLength(1 + 2 + 2 * 10);
    expect((await heed.quantize(original)).report.bf16).toEqual([]);
  });

  test('without their mark in config.json they become int8 in memory', async () => {
    const original = bertFiles(sizes);
    const { files } = await heed.quantize(original, { tables: 'int4' });
    const config = JSON.parse(new TextDecoder().decode(files['config.json']));
    delete config.quantization_config.config_groups;
    const unmarked = { ...files, 'config.json': JSON.stringify(config) };
    expect(await embedded(unmarked, 'fp32')).toEqual(await embedded(files, 'fp32'));
    for (const cosine of cosines(await embedded(unmarked, 'q8'), await embedded(files, 'q8')))
      expect(cosine).toBeGreaterThan(0.999);
  });

  test('stay in 4 bits in memory, also for fp32 arithmetic', async () => {
    const { files } = await heed.quantize(bertFiles({ ...sizes, vocab: 40_000 }), { tables: 'int4' });
    const { memory, parameterCount } = await heed.inspect(files);
    const saved = (4 - 0.5) * 32 * 40_000 - 4 * 40_000; // a scale per row remains
    expect(memory.fp32).toBe(4 * parameterCount - saved);
    const config = JSON.parse(new TextDecoder().decode(files['config.json']));
    delete config.quantization_config.config_groups;
    const wasm = new Uint8Array(readFileSync('dist/heed-simd128.wasm')); // gives each load a memory of its own
    const taken = async (from: object) => {
      using own = await load({ build: 'simd128', wasm: wasm.slice() });
      using _ = await own.fromPretrained(from as never, { dtype: 'fp32' });
      return own.info.memoryBytes;
    };
    const unmarked = await taken({ ...files, 'config.json': JSON.stringify(config) });
    expect(await taken(files)).toBeLessThan(unmarked - 0.9 * saved);
  });

  test('are the output layer of masked language models', async () => {
    const { files } = await heed.quantize(tinyModel(), { tables: 'int4' });
    const logits = async (dtype: 'fp32' | 'q8', from: object = files) => {
      using model = await heed.fromPretrained(from as never, { dtype });
      return (await model.predict('fill-mask', 'the [MASK] fox')).logits;
    };
    const [fp32, q8] = [await logits('fp32'), await logits('q8')];
    expect(q8.shape).toEqual(fp32.shape);
    expect(similarity([[...q8.data]], [[...fp32.data]]).data[0]).toBeGreaterThan(0.99);
    expect(await logits('fp32', decoded(files, tinyModel()))).toEqual(fp32);
  });
});

describe('matrices in 2 to 4 bits', () => {
  test.each([
    ['bert', 'int3'],
    ['albert', 'int4'],
    ['modernbert', 'int3'],
    ['deberta-v2', 'int4'],
    ['qwen3', 'int3'],
    ['bert', 'int2'],
  ] as const)('of %s are those of their values: %s', async (name, matrices) => {
    const original = bytesOf(join(fixtures, name));
    const given = JSON.parse(readFileSync(join(fixtures, name, 'input.json'), 'utf8'));
    const { files, report } = await heed.quantize(original, { matrices });
    expect(report[matrices].length).toBeGreaterThan(3);
    for (const each of report[matrices]) expect(each).toMatch(/layer|mapping/);
    expect(report.int8.length).toBeGreaterThan(0);
    const reference = decoded(files, original);
    const inputs = { inputIds: given.inputIds };
    for (const dtype of ['fp32', 'q8'] as const)
      expect(await embedded(files, dtype, inputs)).toEqual(await embedded(reference, dtype, inputs));
    for (const cosine of cosines(await embedded(files, 'fp32', inputs), await embedded(original, 'fp32', inputs)))
      expect(cosine).toBeGreaterThan(matrices === 'int2' ? 0.3 : 0.7);
  });

  test('with a type for each', async () => {
    const original = bertFiles(sizes);
    const isInner = (name: string) => name.endsWith('intermediate.dense.weight');
    const matrices = (name: string) => (isInner(name) ? 'int2' : name.includes('query') ? 'int8' : 'int4');
    const { files, report } = await heed.quantize(original, { tables: 'int2', matrices });
    expect(report.int2.filter((name) => !isInner(name))).toEqual(['embeddings.word_embeddings.weight']);
    expect(report.int2.length).toBe(3);
    expect(report.int8.filter((name) => name.includes('query')).length).toBe(2);
    const { config_groups } = JSON.parse(new TextDecoder().decode(files['config.json'])).quantization_config;
    const ofBits = Object.values(config_groups as Record<string, { targets: string[]; weights: { num_bits: number } }>);
    expect(ofBits.map(({ weights }) => weights.num_bits)).toEqual([8, 4, 2, 2]);
    expect(ofBits[2]!.targets.every((module) => isInner(`${module}.weight`))).toBe(true);
    expect(ofBits[3]!.targets).toEqual(['Embedding']);
    expect(await embedded(files, 'fp32')).toEqual(await embedded(decoded(files, original), 'fp32'));
    const wrong = () => 'int5' as 'int4';
    await expect(heed.quantize(original, { matrices: wrong })).rejects.toThrow(
      /quantize.matrices\('.*'\): expected one of/,
    );
  });

  test('and tables', async () => {
    const original = bertFiles(sizes);
    const { files, report } = await heed.quantize(original, { tables: 'int4', matrices: 'int4' });
    expect(report.int8).toEqual(['embeddings.position_embeddings.weight']);
    expect(report.int4).toHaveLength(1 + 6 * 2);
    const { config_groups } = JSON.parse(new TextDecoder().decode(files['config.json'])).quantization_config;
    expect(Object.keys(config_groups)).toEqual(['group_0']);
    const weights = { num_bits: 4, type: 'trellis' };
    expect(config_groups.group_0).toMatchObject({ targets: ['Linear', 'Embedding'], weights });
    for (const cosine of cosines(await embedded(files, 'q8'), await embedded(original, 'fp32')))
      expect(cosine).toBeGreaterThan(0.95);
    await expect(heed.quantize(files)).rejects.toThrow('weights that are not quantized');
  });

  test('with error feedback, for folders with a tokenizer', async () => {
    const original = tinyModel();
    const texts = ['the quick fox', 'a brown x', 'quick x a', 'the fox'];
    const with_ = (await heed.quantize(original, { matrices: 'int3', texts })).report.loss!;
    const { 'tokenizer.json': _, ...bare } = original;
    const { files } = await heed.quantize(bare, { matrices: 'int3' });
    const tokens = { 'tokenizer.json': original['tokenizer.json']! };
    const vectors = async (from: object) => {
      using model = await heed.fromPretrained(from as never);
      return await model.embed(texts);
    };
    const [before, after] = [await vectors(original), await vectors({ ...files, ...tokens })];
    const mean = cosines(before, after).reduce((sum, cosine) => sum + cosine, 0) / texts.length;
    expect(1 - with_.fp32.mean).toBeLessThan(1 - mean);
  });
});

describe('the pooler', () => {
  const name = 'bert.pooler.dense.weight';
  const folder = bytesOf(join(fixtures, 'bert'));
  const pooling = { '1_Pooling/config.json': '{"pooling_mode_mean_tokens":true}' };
  const poolerOf = async (files: object) => {
    using model = await heed.fromPretrained(files as never);
    return (await model.encode({ inputIds: [[5, 6]] })).poolerOutput;
  };

  test('is left out where the folder pools otherwise and no classifier reads it', async () => {
    const names = [...tensorsOf(folder['model.safetensors']!).keys()];
    const classifier = names.filter((each) => each.startsWith('classifier.'));
    const all = listed(folder['model.safetensors']!);
    const without = writeSafetensors(all.filter(({ name }) => !classifier.includes(name)));
    const { files, report } = await heed.quantize({ ...folder, ...pooling, 'model.safetensors': without });
    expect(report.leftOut).toEqual(expect.arrayContaining(names.filter((each) => each.includes('pooler.'))));
    expect(await poolerOf(files)).toBeUndefined();
  });

  test('stays for a classifier, and in folders that do not pool', async () => {
    for (const given of [{ ...folder, ...pooling }, folder]) {
      const { files, report } = await heed.quantize(given);
      expect(report.int8).toContain(name);
      expect(await poolerOf(files)).toBeDefined();
    }
  });
});

describe('in Node', () => {
  test('writes a new folder, beside its name until it is whole', async () => {
    const out = join(scratch, 'out');
    const { files, report } = await heed.quantize(tinyModel(), { out, tables: 'int4' });
    expect(files).toEqual({});
    const inMemory = (await heed.quantize(tinyModel(), { tables: 'int4' })).files;
    expect(bytesOf(out)).toEqual(
      Object.fromEntries(Object.entries(inMemory).map(([path, bytes]) => [path, new Uint8Array(bytes)])),
    );
    expect(report.files.map(({ path }) => path).sort()).toEqual(Object.keys(inMemory).sort());
    await expect(heed.quantize(tinyModel(), { out })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: `out: expected a new folder's path, got '${out}', which exists`,
    });
    // If the source is a folder, hidden files and weights for other programs are not copied.
    writeFileSync(join(out, '.hidden'), 'x');
    const again = join(scratch, 'again');
    await expect(heed.quantize(out, { out: again })).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining('weights that are not quantized'),
    });
    expect(existsSync(again)).toBe(false);
  });

  test('follows links to files, as in the cache of Hugging Face', async () => {
    const [blobs, snapshot] = [join(scratch, 'blobs'), join(scratch, 'snapshot')];
    for (const path of [blobs, snapshot, join(snapshot, '1_Pooling')]) mkdirSync(path);
    const given = { ...bertFiles(sizes), '1_Pooling/config.json': '{"pooling_mode_cls_token":true}' };
    Object.entries(given).forEach(([path, bytes], i) => {
      writeFileSync(join(blobs, String(i)), bytes);
      symlinkSync(join(blobs, String(i)), join(snapshot, path));
    });
    symlinkSync(join(blobs, 'gone'), join(snapshot, 'broken.txt'));
    const { files } = await heed.quantize(snapshot);
    expect(files).toEqual((await heed.quantize(given)).files);
    expect(Object.keys(files).sort()).toEqual(['1_Pooling/config.json', 'config.json', 'model.safetensors']);
  });

  test('leaves nothing behind when it fails or is stopped', async () => {
    const bad = bertFiles(sizes);
    new DataView(bad['model.safetensors']!.buffer).setFloat32(
      bad['model.safetensors']!.length - 4 * 64 * 32,
      Number.NaN,
      true,
    );
    const out = join(scratch, 'bad');
    await expect(heed.quantize(bad, { out })).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringMatching(/expected finite weights, got NaN in row \d+/),
    });
    const stop = new AbortController();
    await expect(
      heed.quantize(tinyModel(), { out, signal: stop.signal, onProgress: () => stop.abort(new Error('enough')) }),
    ).rejects.toThrow('enough');
    expect(readdirSync(scratch).filter((name) => name.startsWith('bad'))).toEqual([]);
  });
});
