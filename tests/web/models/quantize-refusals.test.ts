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
    'odd widths in 4 bits',
    () => heed.quantize(bertFiles({ ...sizes, width: 33, heads: 3 }), { tables: 'int4' }),
    "expected an even width for tables: 'int4', got 33",
  ],
  [
    'odd widths of matrices in 4 bits',
    () => heed.quantize(bertFiles({ ...sizes, width: 33, heads: 3 }), { matrices: 'int4' }),
    "expected an even width for matrices: 'int4', got 33",
  ],
  [
    'texts without a tokenizer',
    () => heed.quantize(bertFiles(sizes), { texts: ['a'] }),
    'quantize.texts: expected no texts for a folder without tokenizer.json, got 1',
  ],
  ['no texts', () => heed.quantize(bertFiles(sizes), { texts: [] }), 'quantize.texts: expected at least one text'],
  [
    'unknown tables',
    () => heed.quantize(bertFiles(sizes), { tables: 'int2' as 'int4' }),
    "quantize.tables: expected one of 'int8', 'int4'",
  ],
  [
    'no weights',
    () => heed.quantize({ 'config.json': bertFiles(sizes)['config.json']! }),
    "expected 'model.safetensors' among its files",
  ],
])('%s', async (_, call, message) => {
  await expect(call()).rejects.toMatchObject({ name: 'HeedError', message: expect.stringContaining(message) });
});

test('4-bit data that is truncated or has other scales', async () => {
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
  for (const [folder, message] of [
    [
      changed((entries) => {
        entries[table]!.shape = [25, 34];
      }),
      'expected [50, 17] bytes of 4-bit rows, as config.json says, got shape [25, 34]',
    ],
    [
      changed((entries) => {
        entries[table]!.shape = [50 * 17];
      }),
      'expected [50, 17] bytes of 4-bit rows, as config.json says',
    ],
    [
      changed((entries) => {
        entries[`${table}_scale`]!.dtype = 'I8';
        entries[`${table}_scale`]!.shape = [50, 2];
      }),
      `tensor '${table}_scale': expected 50 scales, one per row, got 100`,
    ],
    [{ ...files, 'model.safetensors': files['model.safetensors']!.subarray(0, -3) }, 'truncated'],
  ] as const)
    for (const dtype of ['fp32', 'q8'] as const)
      await expect(heed.fromPretrained(folder, { dtype })).rejects.toThrow(message);
  // Rows that config.json wrongly declares as 4-bit.
  const { quantization_config } = JSON.parse(new TextDecoder().decode(files['config.json']));
  const original = bertFiles(sizes);
  const config = { ...JSON.parse(new TextDecoder().decode(original['config.json'])), quantization_config };
  await expect(
    heed.fromPretrained({ ...original, 'config.json': JSON.stringify(config) }, { dtype: 'q8' }),
  ).rejects.toMatchObject({ name: 'HeedError', message: expect.stringContaining('4-bit rows') });
  await heed.fromPretrained(files, { dtype: 'q8' }); // the model works afterwards
});
