/** `heed.inspect`: sizes of a folder without its weights. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type LoadProgress, load } from 'heed';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bertFiles } from './bert-files.js';
import { fixtures } from './fixtures.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const sizes = { width: 32, inner: 64, heads: 4, layers: 2, vocab: 80_000, positions: 40 };
const large: Record<string, Uint8Array | string> = {
  ...bertFiles(sizes),
  'tokenizer.json': tinyModel()['tokenizer.json'] as string,
};
/** Number of bytes of each file that the server has sent. */
const sent = new Map<string, number>();
const server = createServer((request, response) => {
  const name = request.url!.slice('/model/'.length);
  const file = large[name];
  if (file === undefined) return void response.writeHead(404).end();
  const bytes = Buffer.from(file as string);
  response.writeHead(200, { 'content-length': bytes.length });
  // Sends data as fast as they are read.
  let at = 0;
  const send = () => {
    while (at < bytes.length && !response.destroyed) {
      const part = bytes.subarray(at, at + 65_536);
      at += part.length;
      sent.set(name, at);
      if (!response.write(part)) return void response.once('drain', send);
    }
    response.end();
  };
  send();
});
let url = '';
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, resolve));
  url = `http://localhost:${(server.address() as AddressInfo).port}/model/`;
});
afterAll(() => void server.close());

const bytesOf = (file: Uint8Array | string) => Buffer.from(file as string).length;

test('tells the sizes of a folder from the start of its files', async () => {
  const found = await heed.inspect(url);
  expect(found).toMatchObject({
    family: 'bert',
    problem: null,
    vocabSize: 80_000,
    embedDim: 32,
    numLayers: 2,
    numHeads: 4,
    feedForwardDim: 64,
    maxLength: 40,
    storage: ['F32'],
    pooling: 'mean',
    normalize: false,
    unusedTensors: [],
    missing: ['modules.json: the mean is used, and vectors are not normalized'],
  });
  const total = Object.values(large).reduce((sum, file) => sum + bytesOf(file), 0);
  const quantized = await heed.quantize(large);
  expect(found.download).toEqual({ fp32: total, q8: quantized.report.bytesAfter });
  expect((await heed.inspect(quantized.files)).download).toEqual({ fp32: found.download.q8, q8: found.download.q8 });
  expect(found.files.map(({ path }) => path).sort()).toEqual(Object.keys(large).sort());
  using model = await heed.fromPretrained(large);
  expect(found.parameterCount).toBe(model.config.parameterCount);
  expect(found.memory.fp32).toBe(4 * found.parameterCount);
  expect(found.memory.q8).toBeGreaterThan(found.parameterCount);
  expect(found.memory.q8).toBeLessThan(1.05 * found.parameterCount);
});

test.each(['bert', 'clip', 'siglip', 'dinov2', 'qwen3', 'embeddinggemma', 'modernbert'])(
  'tells of %s what the loaded model does',
  async (name) => {
    const found = await heed.inspect(`${fixtures}${name}`);
    using model = await heed.fromPretrained(`${fixtures}${name}`);
    for (const key of ['family', 'pooling', 'normalize', 'prompts', 'labels', 'hasImageEncoder', 'embedDim'] as const)
      expect([key, found[key]]).toEqual([key, model.config[key]]);
  },
);

test('does not fetch the weights', async () => {
  sent.clear();
  await heed.inspect(url);
  expect(sent.get('model.safetensors')).toBeLessThan(bytesOf(large['model.safetensors']!));
});

test('a load knows the total before its first report', async () => {
  const seen: LoadProgress[] = [];
  using _ = await heed.fromPretrained(url, { onProgress: (progress) => seen.push({ ...progress }) });
  const { download } = await heed.inspect(url);
  expect(seen[0]!.file.name).toContain('config.json');
  expect(seen[0]!.total).toBe(download.fp32);
  expect(seen.at(-1)!.done).toBe(download.fp32);
});

test('folders of other kinds', async () => {
  const { files } = await heed.quantize(bertFiles({ ...sizes, vocab: 50 }), { tables: 'int4' });
  const quantized = await heed.inspect(files);
  const original = await heed.inspect(bertFiles({ ...sizes, vocab: 50 }));
  expect(quantized.storage.sort()).toEqual(['BF16', 'I8', 'U8']);
  expect(quantized.parameterCount).toBe(original.parameterCount);
  expect(quantized.missing).toContain('tokenizer.json: only token ids can be given');
  // The model in the package is one file, whose JSON files are not counted twice.
  const shipped = await heed.inspect();
  expect(shipped.download.q8).toBe(shipped.files.find(({ path }) => path === 'model.safetensors')!.bytes);
  expect(shipped).toMatchObject({ family: 'bert', pooling: 'mean', normalize: true, missing: [], problem: null });
});

test('names what speaks against loading, and fails for what cannot be read', async () => {
  const config = (changes: object) => ({
    ...tinyModel(),
    'config.json': JSON.stringify({
      ...JSON.parse(new TextDecoder().decode(tinyModel()['config.json'] as Uint8Array)),
      ...changes,
    }),
  });
  expect((await heed.inspect(config({ model_type: 'gpt2' }))).problem).toMatch(
    /^config.json: model_type: expected one of .*\bbert, .*, got "gpt2"$/,
  );
  const { 'model.safetensors': _, ...noWeights } = tinyModel();
  expect(await heed.inspect(noWeights)).toMatchObject({
    parameterCount: 0,
    problem: expect.stringContaining("'model.safetensors'"),
    missing: expect.arrayContaining(['model.safetensors: the weights']),
  });
  await expect(heed.inspect({})).rejects.toMatchObject({ code: 'NOT_FOUND' });
  await expect(heed.inspect(tinyModel(), { dtype: 'q8' } as object)).rejects.toThrow('inspect: expected');
  await expect(heed.inspect(url, { signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough');
});
