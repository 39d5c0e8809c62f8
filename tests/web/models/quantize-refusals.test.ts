/** Errors of `heed.quantize`, and of loading invalid quantized folders. */
import { load } from 'heed';
import { expect, test } from 'vitest';
import { bertFiles } from './bert-files.js';
import { headerOf } from './fixtures.js';

const heed = await load();
const sizes = { width: 32, inner: 64, heads: 4, layers: 2, vocab: 50, positions: 40 };

test.each<[string, () => Promise<unknown>, string]>([
  [
    'quantized folders',
    async () => heed.quantize((await heed.quantize(bertFiles(sizes))).files),
    'expected weights that are not quantized, got',
  ],
  [
    'texts without a tokenizer',
    () => heed.quantize(bertFiles(sizes), { texts: ['a'] }),
    'quantize.texts: expected no texts for a folder without tokenizer.json, got 1',
  ],
  ['no texts', () => heed.quantize(bertFiles(sizes), { texts: [] }), 'quantize.texts: expected at least one text'],
  [
    'unknown tables',
    () => heed.quantize(bertFiles(sizes), { tables: 'int1' as 'int4' }),
    "quantize.tables: expected one of 'int8', 'int4', 'int3', 'int2'",
  ],
  [
    'no weights',
    () => heed.quantize({ 'config.json': bertFiles(sizes)['config.json']! }),
    "expected 'model.safetensors' among its files",
  ],
])('%s', async (_, call, message) => {
  await expect(call()).rejects.toMatchObject({ name: 'HeedError', message: expect.stringContaining(message) });
});

test('data of 3 and 4 bits that is truncated, or has other scales or outliers', async () => {
  const { files } = await heed.quantize(bertFiles(sizes), { tables: 'int4' });
  const changed = (change: (entries: Record<string, { dtype: string; shape: number[] }>) => void) => {
    const file = files['model.safetensors']!;
    const entries = headerOf(file);
    const end = 8 + new DataView(file.buffer, file.byteOffset).getUint32(0, true);
    change(entries);
    const json = new TextEncoder().encode(JSON.stringify(entries));
    const prefix = new Uint8Array(8);
    new DataView(prefix.buffer).setUint32(0, json.length, true);
    return { ...files, 'model.safetensors': new Uint8Array([...prefix, ...json, ...file.subarray(end)]) };
  };
  const table = 'embeddings.word_embeddings.weight';
  // A larger matrix, so that it has outliers, one of them in a row that does not exist.
  const large = { ...sizes, inner: 4096 };
  const { files: withOutliers } = await heed.quantize(bertFiles(large), { matrices: 'int3' });
  const outliers = { ...withOutliers, 'model.safetensors': withOutliers['model.safetensors']!.slice() };
  const start = 8 + new DataView(outliers['model.safetensors'].buffer).getUint32(0, true);
  const name = 'encoder.layer.0.output.dense.weight_outliers';
  const [begin] = headerOf(outliers['model.safetensors'])[name].data_offsets;
  new DataView(outliers['model.safetensors'].buffer).setFloat32(start + begin, 32, true);
  for (const [folder, message] of [
    [
      changed((entries) => {
        entries[table]!.shape = [25, 8, 4];
      }),
      'expected [50, 17] bytes of 4-bit rows, as config.json says, got shape [25, 8, 4]',
    ],
    [
      changed((entries) => {
        entries[table]!.shape = [100, 4, 2];
      }),
      'expected [50, 4, 4] bytes of 4-bit rows, as config.json says, got shape [100, 4, 2]',
    ],
    [
      changed((entries) => {
        entries[table]!.shape = [50 * 16];
      }),
      'expected [50, 17] bytes of 4-bit rows, as config.json says',
    ],
    [
      changed((entries) => {
        entries[`${table}_column_scale`]!.shape = [2, 16];
        entries[`${table}_column_scale`]!.dtype = 'BF16';
        entries[`${table}_columns`] = entries[`${table}_column_scale`]!;
        delete entries[`${table}_column_scale`];
      }),
      `expected the scales of its columns in '${table}_column_scale', got U8 without them`,
    ],
    [
      changed((entries) => {
        entries[`${table}_scale`]!.dtype = 'I8';
        entries[`${table}_scale`]!.shape = [50, 2];
      }),
      `tensor '${table}_scale': expected 50 scales, one per row, got 100`,
    ],
    [{ ...files, 'model.safetensors': files['model.safetensors']!.subarray(0, -3) }, 'truncated'],
    [outliers, 'expected rows below 32, columns below 4096 and values, got 32,'],
  ] as const)
    for (const dtype of ['fp32', 'q8'] as const)
      await expect(heed.fromPretrained(folder, { dtype })).rejects.toThrow(message);
  // Rows that config.json wrongly declares as 4-bit.
  const { quantization_config } = JSON.parse(new TextDecoder().decode(files['config.json']));
  delete quantization_config.transform_config;
  const original = bertFiles(sizes);
  const config = { ...JSON.parse(new TextDecoder().decode(original['config.json'])), quantization_config };
  await expect(
    heed.fromPretrained({ ...original, 'config.json': JSON.stringify(config) }, { dtype: 'q8' }),
  ).rejects.toMatchObject({ name: 'HeedError', message: expect.stringContaining('rows of 2 to 4 bits') });
  await heed.fromPretrained(files, { dtype: 'q8' }); // the model works afterwards
});

test('marks of rotated matrices that are wrong', async () => {
  const original = bertFiles(sizes);
  const { files } = await heed.quantize(original);
  const query = 'encoder.layer.0.attention.self.query';
  const expected = `tensor '${query}.weight': expected int8 rows of a layer's matrix, because config.json says that it is rotated`;
  const configOf = (folder: Record<string, Uint8Array>) => JSON.parse(new TextDecoder().decode(folder['config.json']));
  const { transform_config } = configOf(files).quantization_config;
  const marked = (folder: Record<string, Uint8Array>, transform: unknown) => ({
    ...folder,
    'config.json': JSON.stringify({ ...configOf(folder), quantization_config: { transform_config: transform } }),
  });
  const { rotation } = transform_config.config_groups;
  const withRotation = (changes: object) => marked(files, { config_groups: { rotation: { ...rotation, ...changes } } });
  const targets = (...names: string[]) => withRotation({ apply: [{ targets: names }] });
  for (const [folder, error] of [
    [marked(original, transform_config), { code: 'INVALID_FILE', message: expect.stringContaining(expected) }],
    [
      targets('embeddings.word_embeddings'),
      { code: 'INVALID_FILE', message: expect.stringContaining("tensor 'embeddings.word_embeddings.weight'") },
    ],
    [withRotation({ type: 'hadamard' }), { code: 'UNSUPPORTED', message: expect.stringContaining('hadamard') }],
    [withRotation({ block_size: 128 }), { code: 'UNSUPPORTED', message: expect.stringContaining('block_size 64') }],
    [withRotation({ apply: 'all' }), { code: 'INVALID_FILE', message: expect.stringContaining('apply') }],
    [withRotation({ apply: [null] }), { code: 'INVALID_FILE', message: expect.stringContaining('apply') }],
    [marked(files, 'yes'), { code: 'INVALID_FILE', message: expect.stringContaining('transform_config') }],
  ] as const)
    for (const dtype of ['fp32', 'q8'] as const)
      await expect(heed.fromPretrained(folder as never, { dtype })).rejects.toMatchObject(error);
});
