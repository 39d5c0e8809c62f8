/** CLIP, SigLIP, ViT, DINOv2 and DINOv3: tiny checkpoints, and images that Pillow has preprocessed. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load, semanticSearch } from 'heed';
import { describe, expect, test } from 'vitest';
import { bytesOf, expectClose, fixture, fixtures } from './fixtures.js';
import { template, tinyClip, withWords } from './tiny.js';

interface Case {
  width: number;
  height: number;
  data: string;
  expected: string;
}

const bytes = (text: string) => new Uint8ClampedArray(Buffer.from(text, 'base64'));

function inputOf(name: string): { ids?: number[][]; images: Case[] } {
  return JSON.parse(readFileSync(join(fixtures, name, 'input.json'), 'utf8'));
}
const imagesOf = (name: string) =>
  inputOf(name).images.map(({ width, height, data }) => ({ width, height, data: bytes(data) }));

/** The same image with alpha. */
function withAlpha({ width, height, data }: { width: number; height: number; data: Uint8ClampedArray }) {
  const rgba = new Uint8ClampedArray(4 * width * height).fill(77);
  for (let i = 0; i < width * height; i++) rgba.set(data.subarray(3 * i, 3 * i + 3), 4 * i);
  return { width, height, data: rgba };
}

const names = [
  'clip',
  'clip-end',
  'clip-text-gelu',
  'clip-image-gelu',
  'siglip',
  'dinov2',
  'dinov2-same',
  'dinov2-swiglu',
  'dinov2-registers',
  'dinov2-registers-larger',
  'dinov3',
  'dinov3-gated',
  'vit',
  'vit-labels',
  'dinov2-labels',
];
const withTexts = ['clip', 'clip-end', 'clip-text-gelu', 'clip-image-gelu', 'siglip'];

describe.each(names)('%s', (name) => {
  const { folder, expected } = fixture(name);

  test("gives PyTorch's vectors, hidden states and attentions of images", async () => {
    const heed = await load();
    using model = await heed.fromPretrained(folder);
    const images = imagesOf(name);
    expectClose(await model.embedImages(images), expected.get('image.vectors'), 'vectors');
    const out = await model.encodeImage(images, { outputAttentions: true, outputHiddenStates: true });
    expect(out.hiddenStates).toHaveLength(4);
    for (const [i, state] of out.hiddenStates!.entries())
      expectClose(state, expected.get(`image.hidden_states.${i}`), `hidden state ${i}`);
    for (const [i, weights] of out.attentions!.entries())
      expectClose(weights, expected.get(`image.attentions.${i}`), `attention ${i}`);
    expectClose(out.lastHiddenState, expected.get('image.hidden_states.3'), 'last hidden state');
    expectClose(out.poolerOutput, expected.get('image.pooler'), 'pooler output');
    const logits = expected.get('image.logits');
    if (logits) expectClose(out.logits!, logits, 'logits');
    else expect(out.logits).toBeUndefined();
  });

  test('takes one image, images with alpha, and preprocessed ones', async () => {
    const heed = await load();
    using model = await heed.fromPretrained(folder);
    const images = imagesOf(name);
    const vectors = await model.embedImages(images, { normalize: true });
    expect((await model.embedImages(images[2]!, { normalize: true })).data).toEqual(vectors.slice(2, 3).data);
    expect((await model.embedImages(images.map(withAlpha), { normalize: true })).data).toEqual(vectors.data);
    const pixels = expected.get('pixels')!;
    expectClose(await model.embedImages(pixels), expected.get('image.vectors'), 'of preprocessed values');
    expect((await model.embedImages([])).shape).toEqual([0, vectors.shape[1]]);
  });

  test('int8 arithmetic stays near fp32', async () => {
    const heed = await load();
    using exact = await heed.fromPretrained(folder);
    using int8 = await heed.fromPretrained(folder, { dtype: 'q8' });
    const images = imagesOf(name);
    const [a, b] = [
      await exact.embedImages(images, { normalize: true }),
      await int8.embedImages(images, { normalize: true }),
    ];
    expect(b.data).not.toEqual(a.data);
    const width = a.shape[1]!;
    for (let n = 0; n < images.length; n++) {
      let cosine = 0;
      for (let i = n * width; i < (n + 1) * width; i++) cosine += a.data[i]! * b.data[i]!;
      expect(cosine).toBeGreaterThan(0.99);
    }
  });

  test('uses every tensor that the published code uses', async () => {
    const heed = await load();
    using model = await heed.fromPretrained(folder);
    const unused = { clip: ['logit_scale'], siglip: ['logit_scale', 'logit_bias'], vit: [] };
    const { unusedTensors, family } = model.config;
    const names = unusedTensors.map((name) => name.replace(`${family}.`, ''));
    expect(names).toEqual(unused[family as keyof typeof unused] ?? ['embeddings.mask_token']);
  });
});

describe.each(withTexts)('texts of %s', (name) => {
  const { folder, expected } = fixture(name);
  const inputIds = inputOf(name).ids!;

  test("gives PyTorch's hidden states, attentions and vectors", async () => {
    const heed = await load();
    using model = await heed.fromPretrained(folder);
    const out = await model.encode({ inputIds }, { outputAttentions: true, outputHiddenStates: true });
    for (const [i, state] of out.hiddenStates.entries())
      expectClose(state, expected.get(`text.hidden_states.${i}`), `hidden state ${i}`);
    for (const [i, weights] of out.attentions.entries())
      expectClose(weights, expected.get(`text.attentions.${i}`), `attention ${i}`);
    const vectors = await model.embed({ inputIds });
    expectClose(vectors, expected.get('text.vectors'), 'vectors');
    const [hits] = semanticSearch(vectors, await model.embedImages(imagesOf(name)), { topK: 2 });
    expect(hits).toHaveLength(2);
  });
});

test('images are resized as by Pillow, to the bit', async () => {
  const { resize, FILTERS } = await import('../../../web/src/images/resize.js');
  const cases = JSON.parse(readFileSync(join(fixtures, 'resized.json'), 'utf8')) as (Omit<Case, 'width' | 'height'> & {
    size: [number, number];
    to: [number, number];
    resample: number;
  })[];
  expect(cases.length).toBeGreaterThan(10);
  for (const {
    size: [width, height],
    to,
    resample,
    data,
    expected,
  } of cases) {
    const out = resize({ width, height, data: bytes(data) }, ...to, FILTERS[resample]!);
    expect([...out], `${width} x ${height} to ${to}, filter ${resample}`).toEqual([...bytes(expected)]);
  }
});

test.each(names)(
  "%s's images are preprocessed as by Hugging Face's classes, to the bit before normalization",
  async (name) => {
    const { Preprocessing } = await import('../../../web/src/images/preprocessing.js');
    const { Settings } = await import('../../../web/src/io/settings.js');
    const { expected } = fixture(name);
    const settings = Settings.parse(
      readFileSync(join(fixtures, name, 'preprocessor_config.json')),
      'preprocessor_config.json',
    );
    const preprocessing = new Preprocessing(settings, name.split('-')[0]!);
    const values = expected.get('pixels')!.data;
    for (const [n, { width, height, data, expected: out }] of inputOf(name).images.entries()) {
      const image = { width, height, data: bytes(data) };
      // DINOv3's preprocessing does not round to bytes.
      if (!name.startsWith('dinov3')) expect([...preprocessing.pixels(image).data]).toEqual([...bytes(out)]);
      const { values: got } = preprocessing.apply(image);
      expectClose({ data: got, shape: [] }, { data: values.slice(n * got.length, (n + 1) * got.length), shape: [] });
    }
  },
);

test('in a worker, the vectors are the same, and progress is reported', async () => {
  const heed = await load();
  for (const options of [{ worker: true }, { workers: 2 }]) {
    using model = await heed.fromPretrained(fixture('clip').folder, options);
    const images = imagesOf('clip');
    const steps: number[] = [];
    const vectors = await model.embedImages(images, { onProgress: ({ done, total }) => steps.push(done / total) });
    expectClose(vectors, fixture('clip').expected.get('image.vectors'), 'vectors');
    expect(steps).toEqual([0.25, 0.5, 0.75, 1]);
    expect((await model.embedImages([])).shape).toEqual([0, 10]);
    const { attentions } = await model.encodeImage(images[0]!, { outputAttentions: true });
    expect(attentions![0]!.shape).toEqual([1, 4, 17, 17]);
    await expect(model.embedImages([images[0]!, { ...images[1]!, data: new Uint8Array(3) }])).rejects.toMatchObject({
      code: 'SHAPE_MISMATCH',
      message: expect.stringContaining('images[1].data'),
    });
    expect((await model.embed({ inputIds: [[78, 5, 79]] })).shape).toEqual([1, 10]);
    await expect(model.embedImages(images, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      name: 'AbortError',
    });
    // Views of one buffer.
    const all = new Uint8ClampedArray(images.reduce((sum, { data }) => sum + data.length, 0));
    let at = 0;
    const views = images.map(({ data, ...size }) => {
      all.set(data, at);
      at += data.length;
      return { ...size, data: all.subarray(at - data.length, at) };
    });
    expect(await model.embedImages(views)).toEqual(vectors);
  }
});

test('a signal stops a call between images', async () => {
  const heed = await load();
  using model = await heed.fromPretrained(fixture('dinov2').folder);
  const stop = new AbortController();
  const call = model.embedImages(imagesOf('dinov2'), {
    signal: stop.signal,
    onProgress: () => stop.abort(new Error('enough')),
  });
  await expect(call).rejects.toThrow('enough');
});

test('dispose() ends a call', async () => {
  const heed = await load();
  const model = await heed.fromPretrained(fixture('dinov2').folder);
  const call = model.embedImages(imagesOf('dinov2'));
  model.dispose();
  await expect(call).rejects.toMatchObject({ code: 'DISPOSED' });
});

test("CLIP's tokenizer.json gives the ids of CLIP's own tokenizer", async () => {
  const { TextTokenizer } = await import('../../../web/src/text/tokenizer.js');
  const { Settings } = await import('../../../web/src/io/settings.js');
  const { tokenizer, cases } = JSON.parse(readFileSync(join(fixtures, 'clip-tokenizer.json'), 'utf8'));
  const split = await TextTokenizer.open(new Settings(tokenizer, 'tokenizer.json'), undefined);
  for (const { text, ids } of cases) {
    const { tokens } = split.tokenize(text, undefined, Infinity);
    expect(
      tokens.map(({ id }) => id),
      text,
    ).toEqual(ids);
  }
  const { tokens } = split.tokenize('a Photo', undefined, Infinity);
  expect(tokens.map(({ start, end }) => [start, end])).toEqual([
    [0, 0],
    [0, 1],
    [2, 7],
    [0, 0],
  ]);
});

test("CLIP's texts are cut before their end token", async () => {
  const heed = await load();
  using model = await heed.fromPretrained(tinyClip());
  const long = Array.from({ length: 30 }, (_, i) => `w${i + 1}`).join(' ');
  const vectors = await model.embed(['w5 w6 w7', long]);
  const inputIds = [
    [78, 5, 6, 7, 79],
    [78, ...Array.from({ length: 18 }, (_, i) => i + 1), 79],
  ];
  expect((await model.tokenize(['w5 w6 w7', long])).inputIds).toEqual(inputIds);
  expectClose(vectors, await model.embed({ inputIds }));
  expectClose(vectors.slice(0, 1), {
    data: fixture('clip').expected.get('text.vectors')!.data.slice(0, 10),
    shape: [1, 10],
  });
});

test("SigLIP's texts are filled up with the padding token, which is attended to", async () => {
  const heed = await load();
  const files = withWords('siglip', template(['A', 'w1'], [1]), { pad_token: 'w1' });
  using model = await heed.fromPretrained(files);
  const { inputIds, tokens } = await model.tokenize('w5 w6 w7');
  expect(inputIds).toEqual([[5, 6, 7, ...new Array(13).fill(1)]]);
  expect(tokens[0]!.at(-1)).toBe('w1');
  const first = { data: fixture('siglip').expected.get('text.vectors')!.data.slice(0, 24), shape: [1, 24] };
  expectClose(await model.embed('w5 w6 w7'), first);
  const long = Array.from({ length: 30 }, () => 'w9').join(' ');
  expect((await model.encode([long, 'w2'])).lastHiddenState.shape).toEqual([2, 16, 24]);
  using other = await heed.fromPretrained({
    ...files,
    'tokenizer_config.json': JSON.stringify({ pad_token: { content: 'w4' } }),
  });
  expect((await other.tokenize('w5')).inputIds).toEqual([[5, 1, ...new Array(14).fill(4)]]);
});

test.each([
  ['clip', 'last'],
  ['siglip', 'last'],
  ['dinov2', 'cls'],
])('the pooling of %s', async (name, pooling) => {
  const heed = await load();
  using model = await heed.fromPretrained(fixture(name).folder);
  expect(model.config.pooling).toBe(pooling);
  expect((await heed.inspect(fixture(name).folder)).pooling).toBe(pooling);
});

test('registers are between the class and the patches', async () => {
  const heed = await load();
  using model = await heed.fromPretrained(fixture('dinov2-registers').folder);
  const { lastHiddenState } = await model.encodeImage(imagesOf('dinov2-registers')[0]!);
  expect(lastHiddenState.shape).toEqual([1, 1 + 3 + 16, 24]);
  const files = bytesOf(join(fixtures, 'dinov2-registers'));
  const config = JSON.parse(new TextDecoder().decode(files['config.json'] as Uint8Array));
  const loadWith = (count: unknown) =>
    heed.fromPretrained({ ...files, 'config.json': JSON.stringify({ ...config, num_register_tokens: count }) });
  await expect(loadWith(2)).rejects.toMatchObject({
    code: 'INVALID_FILE',
    message: expect.stringContaining("'embeddings.register_tokens': expected [2, 24], as config.json says"),
  });
  await expect(loadWith(-1)).rejects.toThrow('num_register_tokens: expected a whole number from 0 to 256, got -1');
});

test('inspect and quantize know the encoder of images', async () => {
  const heed = await load();
  const { folder } = fixture('siglip');
  const seen = await heed.inspect(folder);
  expect(seen).toMatchObject({
    family: 'siglip',
    problem: null,
    hasImageEncoder: true,
    missing: ['tokenizer.json: only token ids can be given'],
    unusedTensors: ['logit_scale', 'logit_bias'],
  });
  expect(seen.files.map(({ path }) => path)).toContain('preprocessor_config.json');
  const { files, report } = await heed.quantize(folder);
  expect(report.int8).toContain('vision_model.encoder.layers.0.mlp.fc1.weight');
  using exact = await heed.fromPretrained(folder);
  using small = await heed.fromPretrained(files);
  const [a, b] = [
    await exact.embedImages(imagesOf('siglip'), { normalize: true }),
    await small.embedImages(imagesOf('siglip'), { normalize: true }),
  ];
  const cosine = a.data.reduce((sum, v, i) => sum + v * b.data[i]!, 0) / 4;
  expect(cosine).toBeGreaterThan(0.99);
  expect(cosine).toBeLessThan(1);
});
