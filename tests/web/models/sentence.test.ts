/**
 * The modules after the encoder in a sentence-transformers folder: poolings, Dense, LayerNorm, Normalize; and prompts.
 */
import { HeedError, load, type Pooling } from 'heed';
import { describe, expect, test } from 'vitest';
import { bytesOf, expectClose, fixture } from './fixtures.js';
import { runsAsItIs, tinyModel } from './tiny.js';

const heed = await load();
const { folder, expected, input } = fixture('sentence');
const files = bytesOf(folder);
const json = (value: unknown) => JSON.stringify(value);
const modulesUpTo = (count: number) =>
  json((JSON.parse(new TextDecoder().decode(files['modules.json'])) as object[]).slice(0, count));
const poolingConfig = (...keys: string[]) =>
  json({ word_embedding_dimension: 24, ...Object.fromEntries(keys.map((key) => [key, true])) });

const MODES: [string, Pooling][] = [
  ['pooling_mode_cls_token', 'cls'],
  ['pooling_mode_max_tokens', 'max'],
  ['pooling_mode_mean_tokens', 'mean'],
  ['pooling_mode_mean_sqrt_len_tokens', 'mean_sqrt_len'],
  ['pooling_mode_weightedmean_tokens', 'weighted_mean'],
  ['pooling_mode_lasttoken', 'last'],
];

describe.each([false, true])("the folder's vectors are PyTorch's (worker: %s)", (worker) => {
  test('with all modes, LayerNorm, Dense in F16 and in BF16, and Normalize', async () => {
    using model = await heed.fromPretrained(folder, { worker });
    expect(model.config).toMatchObject({ normalize: true, pooling: MODES.map(([, mode]) => mode).join('+') });
    expectClose(await model.embed(input), expected.get('vectors'), 'vectors');
    expect(model.dimensions).toBe(expected.get('vectors')!.shape[1]);
    expect(model.dimensions).not.toBe(model.config.embedDim);
    expectClose(await model.embed(input, { normalize: false }), expected.get('unnormalized'), 'unnormalized');
  });
});

test.each(MODES)('%s', async (key, mode) => {
  const alone = { ...files, 'modules.json': modulesUpTo(2) };
  using named = await heed.fromPretrained({ ...alone, '1_Pooling/config.json': poolingConfig(key) });
  expect(named.config.pooling).toBe(mode);
  expectClose(await named.embed(input), expected.get(key));
  using other = await heed.fromPretrained(alone);
  expectClose(await other.embed(input, { pooling: mode, normalize: false }), expected.get(key));
});

test('several modes are concatenated, in the published order or the requested one', async () => {
  using model = await heed.fromPretrained({ ...files, 'modules.json': modulesUpTo(2) });
  expectClose(await model.embed(input), expected.get('pooled'));
  const { data, shape } = await model.embed(input, { pooling: ['last', 'cls'] });
  expect(shape).toEqual([3, 48]);
  const [last, cls] = [expected.get('pooling_mode_lasttoken')!, expected.get('pooling_mode_cls_token')!];
  for (let n = 0; n < 3; n++) {
    const wanted = [last, cls].flatMap((part) => [...part.data.subarray(n * 24, (n + 1) * 24)]);
    expectClose(
      { data: data.slice(n * 48, (n + 1) * 48), shape: [48] },
      { data: Float32Array.from(wanted), shape: [48] },
    );
  }
  await expect(model.embed(input, { pooling: [] })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  await expect(model.embed(input, { pooling: ['cls', 'sum'] as never })).rejects.toThrow(/weighted_mean/);
  using dense = await heed.fromPretrained(folder);
  await expect(dense.embed(input, { pooling: 'mean' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
});

test('a prompt can be excluded from the pooling', async () => {
  const tiny = tinyModel();
  const prompts = { 'config_sentence_transformers.json': json({ prompts: { query: 'the x ' } }) };
  const pooling = json({ pooling_mode_mean_tokens: true, include_prompt: false });
  using without = await heed.fromPretrained({ ...tiny, ...prompts, '1_Pooling/config.json': pooling });
  using within = await heed.fromPretrained({ ...tiny, ...prompts });
  const texts = ['quick fox', 'fox'];
  const { lastHiddenState, attentionMask, tokens } = await without.encode(texts.map((text) => `the x ${text}`));
  expect(tokens[1]!.slice(0, 4)).toEqual(['[CLS]', 'the', 'x', 'fox']);
  const means = (skip: number) =>
    texts.map((_, n) => {
      const [, width, dim] = lastHiddenState.shape as [number, number, number];
      const length = attentionMask.data.subarray(n * width, (n + 1) * width).reduce((a, b) => a + b, 0);
      return Array.from({ length: dim }, (_, e) => {
        let sum = 0;
        for (let i = skip; i < length; i++) sum += lastHiddenState.data[(n * width + i) * dim + e]!;
        return sum / (length - skip);
      });
    });
  const close = (actual: unknown, wanted: number[][]) =>
    (actual as number[][]).forEach((row, n) => {
      for (const [e, v] of row.entries()) expect(v).toBeCloseTo(wanted[n]![e]!, 5);
    });
  close((await without.embed(texts, { promptName: 'query' })).toArray(), means(3));
  close((await within.embed(texts, { promptName: 'query' })).toArray(), means(0));
  // Token ids have no prompt that could be excluded from the pooling.
  expect((await without.embed({ inputIds: [[2, 12, 3]] })).toArray()).toEqual(
    (await within.embed({ inputIds: [[2, 12, 3]] })).toArray(),
  );
});

test('do_lower_case lower-cases texts; offsets refer to the original text', async () => {
  const tokenizer = JSON.parse(tinyModel()['tokenizer.json'] as string) as { normalizer: unknown };
  tokenizer.normalizer = null;
  const tiny = { ...tinyModel(), ...runsAsItIs, 'tokenizer.json': json(tokenizer) };
  using cased = await heed.fromPretrained(tiny);
  using lowered = await heed.fromPretrained({ ...tiny, 'sentence_bert_config.json': json({ do_lower_case: true }) });
  expect((await cased.tokenize('The Fox')).tokens[0]).toEqual(['[CLS]', '[UNK]', '[UNK]', '[SEP]']);
  const { tokens, offsets } = await lowered.tokenize('İ The Fox');
  expect(tokens[0]!.slice(-3)).toEqual(['the', 'fox', '[SEP]']);
  expect(offsets[0]!.slice(-3, -1)).toEqual([
    [2, 5],
    [6, 9],
  ]);
});

test.each<[string, Record<string, string | Uint8Array>, string, RegExp]>([
  [
    'an unknown mode',
    { '1_Pooling/config.json': poolingConfig('pooling_mode_new') },
    'UNSUPPORTED',
    /pooling_mode_new/,
  ],
  [
    'a width that does not follow',
    { '1_Pooling/config.json': poolingConfig(MODES[0]![0]) },
    'INVALID_FILE',
    /expected a layer for vectors of width 24, .*, got a layer for width/,
  ],
  [
    'weights of another shape',
    { '4_Dense/model.safetensors': files['3_Dense/model.safetensors']! },
    'INVALID_FILE',
    /expected '.*' \[9, 20\], .*, got \[/,
  ],
  [
    'no bias where one is due',
    { '3_Dense/model.safetensors': files['4_Dense/model.safetensors']! },
    'INVALID_FILE',
    /linear/,
  ],
  [
    'weights cut off',
    { '3_Dense/model.safetensors': files['3_Dense/model.safetensors']!.subarray(0, 900) },
    'INVALID_FILE',
    /truncated/,
  ],
  [
    'an activation that is not known',
    { '3_Dense/config.json': json({ in_features: 144, out_features: 20, activation_function: 'torch.nn.Threshold' }) },
    'INVALID_FILE',
    /3_Dense.*activation_function: expected one of Identity, Tanh.*, got .*Threshold/,
  ],
  ['no weights', { '2_LayerNorm/model.safetensors': '' }, 'INVALID_FILE', /2_LayerNorm/],
])('%s is refused', async (_, change, code, message) => {
  const error = await heed.fromPretrained({ ...files, ...change }).then(
    () => null,
    (e) => e,
  );
  expect(error).toBeInstanceOf(HeedError);
  expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
});

test('a pooling without a mode is the mean', async () => {
  const vectorsOf = async (config: string) => {
    using model = await heed.fromPretrained({ ...alone(), '1_Pooling/config.json': config });
    expect(model.config.pooling).toBe('mean');
    return (await model.embed({ inputIds: [[5, 6, 7]] })).toArray();
  };
  const mean = await vectorsOf(json({ word_embedding_dimension: 24, pooling_mode_mean_tokens: true }));
  for (const config of [{}, { word_embedding_dimension: 24 }, { pooling_mode_cls_token: false }])
    expect(await vectorsOf(json(config))).toEqual(mean);
  function alone() {
    return {
      ...files,
      'modules.json': json([
        { type: 'x.Transformer', path: '' },
        { type: 'x.Pooling', path: '1_Pooling' },
      ]),
    };
  }
});
