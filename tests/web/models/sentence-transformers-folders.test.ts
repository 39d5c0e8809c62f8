/**
 * Settings of sentence-transformers: pooling, the order of modules, the Transformer module, similarity.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { classify, loadTokenizer, type Tensor } from 'heed';
import { evaluateEmbeddingSimilarity } from 'heed/evaluation';
import { load as loadTraining } from 'heed/train';
import { describe, expect, test } from 'vitest';
import { type Files, heed, json, parsed, texts, tiny, vectorsOf } from './folder-support.js';
import { runsAsItIs } from './tiny.js';

const modules = (...entries: [path: string, type: string][]) => ({
  'modules.json': json(
    entries.map(([path, type], idx) => ({
      idx,
      name: String(idx),
      path,
      type: `sentence_transformers.models.${type}`,
    })),
  ),
});

describe('pooling_mode of sentence-transformers 5.4', () => {
  const pooled = (config: object): Files => ({
    ...tiny,
    ...modules(['', 'Transformer'], ['1_Pooling', 'Pooling']),
    '1_Pooling/config.json': json({ embedding_dimension: 24, include_prompt: true, ...config }),
  });
  const names = {
    cls: 'cls_token',
    max: 'max_tokens',
    mean: 'mean_tokens',
    mean_sqrt_len_tokens: 'mean_sqrt_len_tokens',
    weightedmean: 'weightedmean_tokens',
    lasttoken: 'lasttoken',
  };
  const old = (key: string) => vectorsOf(pooled({ [`pooling_mode_${key}`]: true }));

  test.each(Object.entries(names))('%s', async (name, key) => {
    const expected = await old(key);
    expect(await vectorsOf(pooled({ pooling_mode: name }))).toEqual(expected);
    expect(await vectorsOf(pooled({ pooling_mode: [name] }))).toEqual(expected);
  });

  test('several are joined in the order of the list', async () => {
    const [last, mean, cls] = [await old('lasttoken'), await old('mean_tokens'), await old('cls_token')];
    const expected = texts.map((_, n) => [...last[n]!, ...mean[n]!, ...cls[n]!]);
    const files = pooled({ pooling_mode: ['lasttoken', 'mean', 'cls'] });
    expect(await vectorsOf(files)).toEqual(expected);
    expect((await heed.inspect(files)).pooling).toBe('last+mean+cls');
  });

  test('it has priority over the old keys', async () => {
    const expected = await old('max_tokens');
    expect(await vectorsOf(pooled({ pooling_mode: 'max', pooling_mode_cls_token: true }))).toEqual(expected);
  });

  test.each([['median'], [[]], [['mean', 'median']], [3], ['toString'], [[['mean']]]])(
    '%j is rejected',
    async (mode) => {
      await expect(heed.fromPretrained(pooled({ pooling_mode: mode }))).rejects.toMatchObject({
        code: 'UNSUPPORTED',
        message: expect.stringMatching(/pooling_mode: expected one or more of cls, max, mean, .*, got /),
      });
    },
  );
});

describe('values of modules', () => {
  const dense = (settings: object) => ({
    '1_Dense/config.json': json({ in_features: 24, out_features: 24, ...settings }),
    '2_Pooling/config.json': json({ embedding_dimension: 24, pooling_mode: 'mean' }),
    '3_WordWeights/config.json': json({}),
  });

  test.each<[string, [string, string][], object, string, string]>([
    [
      'a value that no module gives',
      [
        ['', 'Transformer'],
        ['1_Dense', 'Dense'],
        ['2_Pooling', 'Pooling'],
      ],
      {},
      'INVALID_FILE',
      "expected a module before '1_Dense' that gives 'sentence_embedding', got 'token_embeddings'",
    ],
    [
      'an activation that is not of torch',
      [
        ['', 'Transformer'],
        ['2_Pooling', 'Pooling'],
        ['1_Dense', 'Dense'],
      ],
      { activation_function: 'own.module.GELU' },
      'INVALID_FILE',
      'of torch.nn, got "own.module.GELU"',
    ],
    [
      'a module of another class',
      [
        ['', 'Transformer'],
        ['3_WordWeights', 'WordWeights'],
      ],
      {},
      'UNSUPPORTED',
      'expected a module without weights of words',
    ],
  ])('%s is rejected', async (_, entries, settings, code, message) => {
    await expect(heed.fromPretrained({ ...tiny, ...modules(...entries), ...dense(settings) })).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
  });

  test.each<[string, object, string]>([
    ['an argument of the tokenizer', { processing_kwargs: { text: { stride: 2 } } }, 'stride: expected 0, got 2'],
    ['an argument of loading', { model_args: { add_pooling_layer: false } }, 'model_args.add_pooling_layer'],
    [
      'an output that heed lacks',
      {
        modality_config: { text: { method: 'forward', method_output_name: 'cross_attentions' } },
        module_output_name: 'token_embeddings',
      },
      'method_output_name: expected last_hidden_state, pooler_output',
    ],
  ])('a Transformer with %s is rejected', async (_, settings, message) => {
    const files = { ...tiny, ...modules(['', 'Transformer']), 'sentence_bert_config.json': json(settings) };
    await expect(heed.fromPretrained(files)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining(message),
    });
  });
});

describe('settings of the Transformer module', () => {
  const cased = { ...parsed(tiny['tokenizer.json']), normalizer: null };
  const model: Files = { ...tiny, ...runsAsItIs, 'tokenizer.json': json(cased) };
  const pooling = { '1_Pooling/config.json': json({ pooling_mode: 'mean' }) };
  const inFolder = (folder: string): Files =>
    Object.fromEntries(Object.entries(model).map(([path, file]) => [folder + path, file]));
  const settings = json({ max_seq_length: 4, do_lower_case: true });
  const names = ['bert', 'roberta', 'distilbert', 'camembert', 'albert', 'xlm-roberta', 'xlnet'];

  test.each(names.flatMap((name) => ['', '0_Transformer/'].map((folder) => [name, folder])))(
    'sentence_%s_config.json in "%s"',
    async (name, folder) => {
      const files = {
        ...inFolder(folder),
        ...modules([folder.slice(0, -1), 'Transformer'], ['1_Pooling', 'Pooling']),
        ...pooling,
        [`${folder}sentence_${name}_config.json`]: settings,
      };
      using loaded = await heed.fromPretrained(files);
      expect(loaded.config.maxLength).toBe(4);
      expect((await loaded.tokenize('The Quick Fox')).tokens[0]).toEqual(['[CLS]', 'the', 'quick', '[SEP]']);
      const tokenizer = await loadTokenizer(files);
      expect(tokenizer.modelMaxLength).toBe(4);
      expect(tokenizer.tokenize('Fox').tokens[0]).toEqual(['[CLS]', 'fox', '[SEP]']);
    },
  );

  test('the newest name counts, and a file at the root only if the module has none', async () => {
    const files = {
      ...inFolder('0_Transformer/'),
      ...modules(['0_Transformer', 'Transformer'], ['1_Pooling', 'Pooling']),
      ...pooling,
      '0_Transformer/sentence_bert_config.json': json({ max_seq_length: 5 }),
      '0_Transformer/sentence_roberta_config.json': settings,
      'sentence_bert_config.json': settings,
    };
    using loaded = await heed.fromPretrained(files);
    expect(loaded.config.maxLength).toBe(5);
    expect((await loaded.tokenize('Fox')).tokens[0]).toEqual(['[CLS]', '[UNK]', '[SEP]']);
  });
});

describe('similarity_fn_name', () => {
  const named = (name: unknown): Files => ({
    ...tiny,
    'config_sentence_transformers.json': json({ prompts: {}, similarity_fn_name: name }),
  });

  test.each([
    ['dot', 'dot'],
    ['euclidean', 'euclidean'],
    ['cosine', 'cosine'],
    [null, 'cosine'],
    ['MaxSim', 'cosine'],
  ])('%s: the model says %s', async (name, similarity) => {
    for (const options of [{}, { worker: true }]) {
      using model = await heed.fromPretrained(named(name), options);
      expect(model.config.similarity).toBe(similarity);
    }
    expect((await heed.inspect(named(name))).similarity).toBe(similarity);
  });

  test('an index compares as its model does', async () => {
    using model = await heed.fromPretrained(named('dot'));
    const vectors = await model.embed(texts);
    const first = vectors.at(0) as Tensor;
    const products = heed.TextIndex.of(texts, vectors, { similarity: 'dot', storage: 'float32' }).search(first);
    const index = await heed.TextIndex.of(model, texts, { storage: 'float32' });
    expect(await index.search(texts[0]!)).toEqual(products);
    const given = heed.TextIndex.of(texts, vectors, { embedder: model, storage: 'float32' });
    expect(given.search(first)).toEqual(products);
    const cosines = await heed.TextIndex.of(model, texts, { storage: 'float32', similarity: 'cosine' });
    expect((await cosines.search(texts[0]!))[0]!.score).toBeCloseTo(1, 5);
  });

  test.each(['euclidean', 'manhattan'])('an index of a model with %s is rejected', async (name) => {
    using model = await heed.fromPretrained(named(name));
    const error = {
      code: 'UNSUPPORTED',
      message: `TextIndex.of.similarity: expected one of cosine, dot, as the model's vectors are compared by '${name}', got undefined`,
    };
    await expect(heed.TextIndex.of(model, texts)).rejects.toMatchObject(error);
    expect(() => heed.TextIndex.of([], undefined, { embedder: model })).toThrow(error.message);
    expect((await heed.TextIndex.of(model, texts, { similarity: 'cosine' })).texts).toEqual(texts);
  });

  test('an evaluation compares as its model does', async () => {
    const pairs = [
      { a: 'the fox', b: 'a fox', score: 3 },
      { a: 'x y z', b: 'brown', score: 1 },
      { a: 'quick', b: '1, 2.', score: 2 },
    ];
    for (const similarity of ['dot', 'manhattan'] as const) {
      using model = await heed.fromPretrained(named(similarity));
      using plain = await heed.fromPretrained(tiny);
      const expected = await evaluateEmbeddingSimilarity(plain, pairs, { similarity });
      expect(await evaluateEmbeddingSimilarity(model, pairs)).toEqual(expected);
    }
  });
});

describe('truncate_dim', () => {
  const root = new URL('../../fixtures/sentence-transformers/truncate-dim/', import.meta.url);
  const folder = fileURLToPath(root);
  const { texts: given, embed } = JSON.parse(readFileSync(new URL('expected.json', root), 'utf8')) as {
    texts: string[];
    embed: number[][];
  };

  test('is the default of dimensions, and the entries before are those of all', async () => {
    using model = await heed.fromPretrained(folder);
    expect([model.dimensions, model.config.dimensions]).toEqual([5, 5]);
    const all = (await model.embed(given, { dimensions: 16 })).toArray<number[][]>();
    all.forEach((row, n) => {
      expect(Math.hypot(...row)).toBeCloseTo(1, 5);
      row.slice(0, 5).forEach((value, i) => {
        expect(value).toBeCloseTo(embed[n]![i]!, 5);
      });
    });
    const unit = (await model.embed(given, { normalize: true })).toArray<number[][]>();
    for (const row of unit) expect(Math.hypot(...row)).toBeCloseTo(1, 5);
    await expect(model.embed(given, { dimensions: 17 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    expect((await heed.inspect(folder)).unread).toEqual([]);
  });

  test('a wrong value is rejected', async () => {
    const files = { ...tiny, ...modules(['', 'Transformer']) };
    for (const value of [0, 1.5, '3'])
      await expect(
        heed.fromPretrained({ ...files, 'config_sentence_transformers.json': json({ truncate_dim: value }) }),
      ).rejects.toMatchObject({ code: 'INVALID_FILE', message: expect.stringContaining('truncate_dim') });
  });

  test('a trainable model and a classifier follow it', async () => {
    const training = await loadTraining();
    const model = await training.fromPretrained(folder, { trainable: true, dropout: 0 });
    const { data, shape } = model.sentenceVectors(given);
    expect(shape).toEqual([given.length, 5]);
    embed.flat().forEach((value, i) => {
      expect(data[i]).toBeCloseTo(value, 5);
    });
    using plain = await training.fromPretrained(folder);
    const examples = given.map((text, i) => ({ text, label: 'ab'[i % 2]! }));
    await training.trainClassifier(plain, examples, { seed: 1 });
    expect(await classify(plain, given)).toHaveLength(given.length);
  });
});

test('the settings of a Transformer in a folder of its own are those of that folder', async () => {
  const inside = Object.fromEntries(Object.entries(tiny).map(([path, file]) => [`0_Transformer/${path}`, file]));
  const nested = { ...inside, ...modules(['0_Transformer', 'Transformer']) };
  const expected = await vectorsOf(nested);
  const other = json({ max_seq_length: 3 });
  expect(await vectorsOf({ ...nested, 'sentence_bert_config.json': other })).toEqual(expected);
  expect(await vectorsOf({ ...nested, '0_Transformer/sentence_bert_config.json': other })).not.toEqual(expected);
});

describe('training', () => {
  const fixture = (name: string) =>
    fileURLToPath(new URL(`../../fixtures/sentence-transformers/${name}`, import.meta.url));

  test.each([
    ['layers', 'got those of several layers'],
    ['hidden-state', 'got hidden_states -2'],
  ])('%s is rejected, because its vectors depend on other hidden states than the last', async (name, message) => {
    const training = await loadTraining();
    await expect(training.fromPretrained(fixture(name), { trainable: true })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining(message),
    });
  });

  test('a WeightedLayerPooling without effect is not', async () => {
    const training = await loadTraining();
    const model = await training.fromPretrained(fixture('layers-unused'), { trainable: true, dropout: 0 });
    const { embed, texts } = JSON.parse(readFileSync(`${fixture('layers-unused')}/expected.json`, 'utf8'));
    const { data } = model.sentenceVectors(texts);
    (embed as number[][]).flat().forEach((value, i) => {
      expect(data[i]).toBeCloseTo(value, 4);
    });
  });
});
