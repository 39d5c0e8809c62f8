/** CLIP in the folders that sentence-transformers writes. */
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { tinyClip } from './tiny.js';

const images = [0, 1].map((n) => ({
  width: 40 + n,
  height: 32,
  data: Uint8ClampedArray.from({ length: 3 * (40 + n) * 32 }, (_, i) => (37 * i + n) % 256),
}));

describe("sentence-transformers' folders of CLIP", () => {
  const json = (value: object) => JSON.stringify(value);
  const module = (path: string, type = 'sentence_transformers.models.CLIPModel') => ({ idx: 0, name: '0', path, type });
  const below = (folder: string, modules = [module(folder)]) => ({
    ...Object.fromEntries(Object.entries(tinyClip()).map(([path, file]) => [`${folder}/${path}`, file])),
    'modules.json': json(modules),
    'config_sentence_transformers.json': json({ __version__: {} }),
  });
  const atRoot = { ...tinyClip(), 'modules.json': json([module('', 'sentence_transformers.base.modules.CLIPModel')]) };

  test.each<[string, Record<string, Uint8Array | string>]>([
    ['in a folder of their own', below('0_CLIPModel')],
    ['at the root', atRoot],
  ])('give the same vectors of texts and images, %s', async (_, files) => {
    const heed = await load();
    using expected = await heed.fromPretrained(tinyClip());
    using model = await heed.fromPretrained(files);
    const texts = ['w5 w6 w7', 'w9'];
    expect(await model.embed(texts)).toEqual(await expected.embed(texts));
    expect(await model.embedImages(images)).toEqual(await expected.embedImages(images));
    const found = await heed.inspect(files);
    expect(found).toMatchObject({ problem: null, family: 'clip', pooling: 'last', missing: [] });
    const read = Object.keys(files).filter((path) => !/expected|input\.json/.test(path));
    expect(found.files.map(({ path }) => path).sort()).toEqual(read.sort());
    expect(found.parameterCount).toBe((await heed.inspect(tinyClip())).parameterCount);
  });

  test('normalize if a module says so', async () => {
    const heed = await load();
    const modules = [module('0_CLIPModel'), module('1_Normalize', 'sentence_transformers.models.Normalize')];
    using model = await heed.fromPretrained(below('0_CLIPModel', modules));
    const vectors = [await model.embed('w5'), await model.embedImages(images[0]!)];
    for (const { data } of vectors) expect(Math.hypot(...data)).toBeCloseTo(1, 5);
  });

  test('name the file that is missing, and cannot be quantized or pruned', async () => {
    const heed = await load();
    const { '0_CLIPModel/config.json': _, ...without } = below('0_CLIPModel') as Record<string, Uint8Array | string>;
    for (const call of [() => heed.fromPretrained(without), () => heed.inspect(without)])
      await expect(call()).rejects.toMatchObject({
        code: 'NOT_FOUND',
        message: expect.stringContaining('0_CLIPModel/config.json'),
      });
    const files = below('0_CLIPModel');
    for (const call of [() => heed.quantize(files), () => heed.prune(files, { keep: ['w5'] })])
      await expect(call()).rejects.toMatchObject({
        code: 'UNSUPPORTED',
        message: expect.stringContaining(
          "a folder with config.json, weights and tokenizer at its root, got a folder without config.json, as modules.json says that the model is in '0_CLIPModel/'",
        ),
      });
  });
});
