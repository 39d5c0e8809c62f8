/** Errors of image models: input that is not an image, contradictory folders, and calls with texts. */
import { join } from 'node:path';
import { load } from 'heed';
import { load as loadTraining } from 'heed/train';
import { describe, expect, test } from 'vitest';
import { bytesOf, expectClose, fixture, fixtures } from './fixtures.js';

describe('bad input', () => {
  const image = { data: new Uint8ClampedArray(16), width: 2, height: 2 };
  const bad: [string, unknown, string, string][] = [
    ['nothing', undefined, 'INVALID_ARGUMENT', 'images: expected { data, width, height }'],
    ['a number', 5, 'INVALID_ARGUMENT', 'images: expected { data, width, height }'],
    ['an object without pixels', [{}], 'INVALID_ARGUMENT', 'images[0]: expected { data, width, height }'],
    ['encoded bytes', new Uint8Array([0x89, 0x50]), 'UNSUPPORTED', 'sharp'],
    ['a path', './cat.png', 'UNSUPPORTED', 'sharp'],
    ['a Blob', [image, new Blob(['x'])], 'UNSUPPORTED', 'images[1]: expected decoded pixels'],
    ['no width', { ...image, width: 0 }, 'INVALID_ARGUMENT', 'images.width: expected a whole number from 1, got 0'],
    [
      'a gigapixel',
      { ...image, width: 2 ** 15, height: 2 ** 15 },
      'OUT_OF_MEMORY',
      'at most 67108864 pixels (2^26), got 32768 x 32768',
    ],
    [
      'a line',
      { data: new Uint8ClampedArray(4 * 200_000), width: 200_000, height: 1 },
      'INVALID_ARGUMENT',
      'images: expected at most 67108864 pixels (2^26) when the shorter side is 20, got 200000 x 1, whose longer side is then 4000000',
    ],
    [
      'the wrong length',
      { ...image, width: 3 },
      'SHAPE_MISMATCH',
      'images.data: expected 24 bytes (RGBA) or 18 (RGB) for 3 x 2 pixels, got 16',
    ],
    [
      'floats',
      { ...image, data: new Float32Array(16) },
      'INVALID_ARGUMENT',
      'images.data: expected a Uint8ClampedArray or a Uint8Array',
    ],
    ['a tensor of grey values', { data: new Float32Array(4), shape: [1, 2, 2] }, 'SHAPE_MISMATCH', 'shape [1, 2, 2]'],
    [
      'a tensor with NaN',
      { data: new Float32Array(1200).fill(NaN), shape: [3, 20, 20] },
      'INVALID_ARGUMENT',
      'finite values',
    ],
    [
      'a tensor of another size',
      { data: new Float32Array(3 * 20 * 15), shape: [3, 20, 15] },
      'SHAPE_MISMATCH',
      '20 x 20 pixels after the preprocessing, got 15 x 20',
    ],
  ];

  test.each(bad)('%s is one clear error', async (_, given, code, message) => {
    const heed = await load();
    using model = await heed.fromPretrained(fixture('clip').folder);
    await expect(model.embedImages(given as never)).rejects.toMatchObject({
      name: 'HeedError',
      code,
      message: expect.stringContaining(message),
    });
    await expect(model.encodeImage(given as never)).rejects.toMatchObject({ code });
    expect((await model.embedImages(image)).shape).toEqual([1, 10]);
  });

  test('models of texts refuse images, and models of images refuse texts', async () => {
    const heed = await load();
    using bert = await heed.fromPretrained(fixture('bert').folder);
    for (const [former, present] of [
      ['embedImage', 'embedImages'],
      ['encodeQuery', 'embedQuery'],
      ['encodeDocument', 'embedDocument'],
    ] as const)
      await expect((bert as unknown as Record<string, () => Promise<never>>)[former]!()).rejects.toMatchObject({
        message: `PretrainedModel: expected ${present}(), got ${former}(), its former name`,
      });
    await expect(bert.embedImages(image)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: "embedImages: expected a model with an image encoder, got 'bert'",
    });
    await expect(bert.encodeImage(image)).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    using dino = await heed.fromPretrained(fixture('dinov2').folder);
    for (const input of ['a fox', { inputIds: [[1, 2]] }])
      for (const call of [() => dino.embed(input), () => dino.encode(input)])
        await expect(call()).rejects.toMatchObject({
          code: 'UNSUPPORTED',
          message: expect.stringContaining('embedImages()'),
        });
  });

  test('folders that contradict themselves are refused', async () => {
    const heed = await load();
    const files = bytesOf(fixture('clip').folder);
    const changed = (file: string, change: object) => {
      const config = JSON.parse(new TextDecoder().decode(files[file]));
      return { ...files, [file]: JSON.stringify({ ...config, ...change }) };
    };
    const vision = {
      hidden_size: 24,
      num_hidden_layers: 3,
      num_attention_heads: 4,
      intermediate_size: 40,
      image_size: 20,
      patch_size: 5,
    };
    const refused: [Record<string, Uint8Array | string>, string][] = [
      [
        changed('config.json', { vision_config: { ...vision, image_size: 25 } }),
        "tensor 'vision_model.embeddings.position_embedding.weight'",
      ],
      [
        changed('config.json', { vision_config: { ...vision, patch_size: 4 } }),
        "tensor 'vision_model.embeddings.patch_embedding.weight'",
      ],
      [
        changed('config.json', { vision_config: { ...vision, num_hidden_layers: 4 } }),
        'vision_model.encoder.layers.3.',
      ],
      [
        changed('config.json', { vision_config: { ...vision, num_attention_heads: 5 } }),
        'config.json: vision_config: num_attention_heads',
      ],
      [changed('config.json', { vision_config: { ...vision, num_channels: 1 } }), 'num_channels'],
      [changed('config.json', { vision_config: 5 }), 'config.json: vision_config'],
      [changed('config.json', { vision_config: { ...vision, hidden_size: 12 } }), 'vision_model.'],
      [changed('preprocessor_config.json', { resample: 1 }), 'resample'],
      [changed('preprocessor_config.json', { image_std: [1, 0, 1] }), 'image_std'],
      [changed('preprocessor_config.json', { size: { longest_edge: 20 } }), 'preprocessor_config.json: size'],
      [
        changed('preprocessor_config.json', { feature_extractor_type: 'WhisperFeatureExtractor' }),
        'feature_extractor_type',
      ],
    ];
    for (const [source, message] of refused)
      await expect(heed.fromPretrained(source), message).rejects.toMatchObject({
        name: 'HeedError',
        message: expect.stringContaining(message),
      });
    const { 'preprocessor_config.json': _, ...without } = files;
    using model = await heed.fromPretrained(without);
    await expect(model.embedImages(image)).rejects.toMatchObject({
      message: expect.stringContaining('preprocessor_config.json'),
    });
    expect((await model.embedImages(fixture('clip').expected.get('pixels')!)).shape).toEqual([4, 10]);
  });
});

test('heed/train runs them, and refuses to train them', async () => {
  const heed = await loadTraining();
  const { folder, expected } = fixture('clip');
  await expect(heed.fromPretrained(folder, { trainable: true })).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: "fromPretrained.trainable: expected a text model, got 'clip'",
  });
  using model = await heed.fromPretrained(folder);
  expectClose(await model.embedImages(expected.get('pixels')!), expected.get('image.vectors'), 'vectors');
  await expect((model as unknown as { save(): Promise<object> }).save()).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: "save: expected a text model, got 'clip'",
  });
});

test.each(['clip', 'dinov2'])('prune refuses %s before it loads the weights', async (name) => {
  const heed = await load();
  const { 'model.safetensors': weights, ...files } = bytesOf(join(fixtures, name));
  await expect(heed.prune(files, { keep: ['a'] })).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: `config.json: model_type: expected a family that encodes texts only, got '${name}'`,
  });
  expect(weights).toBeDefined();
});
