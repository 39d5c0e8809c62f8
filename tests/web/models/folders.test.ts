/**
 * Folders in the formats of recent and older versions of sentence-transformers and transformers: the same results in
 * both formats, or one clear error.
 */
import { load, loadTokenizer, type Tensor, TextIndex } from 'heed';
import { evaluateEmbeddingSimilarity } from 'heed/evaluation';
import { load as loadTraining } from 'heed/train';
import { describe, expect, test } from 'vitest';
import { bytesOf, fixture } from './fixtures.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const json = (value: unknown) => JSON.stringify(value);
const parsed = (file: Uint8Array | string | undefined) =>
  JSON.parse(typeof file === 'string' ? file : new TextDecoder().decode(file)) as Record<string, unknown>;
type Files = Record<string, Uint8Array | string>;
const texts = ['the quick fox', 'a, x. y z', 'brown foxes'];

async function vectorsOf(files: Files): Promise<number[][]> {
  using model = await heed.fromPretrained(files);
  return (await model.embed(texts)).toArray() as number[][];
}

const tiny = tinyModel();
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

describe('added tokens without a row of the table', () => {
  const { vocab_size: size } = parsed(tiny['config.json']) as { vocab_size: number };
  const form = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const full = () => {
    const tokenizer = parsed(tiny['tokenizer.json']) as { added_tokens: object[]; model: { vocab: object } };
    const words = Array.from({ length: size }, (_, id) => [`w${id}`, id] as const);
    const known = Object.keys(tokenizer.model.vocab).length;
    tokenizer.model.vocab = { ...tokenizer.model.vocab, ...Object.fromEntries(words.slice(known)) };
    return tokenizer;
  };
  const withTokens = (): Files => {
    const tokenizer = full();
    const added = ['<sound>', '<picture>'].map((content, i) => ({ ...form, content, id: size + i }));
    tokenizer.added_tokens = [...tokenizer.added_tokens, ...added];
    return { ...tiny, 'tokenizer.json': json(tokenizer) };
  };

  test('a text with one is rejected', async () => {
    const id = size + 1;
    const files = withTokens();
    expect(await vectorsOf(files)).toEqual(await vectorsOf(tiny));
    using model = await heed.fromPretrained(files);
    const error = {
      code: 'INVALID_ARGUMENT',
      message: `texts[1]: expected tokens with ids below ${size}, the rows of the model's table, got the token '<picture>', whose id is ${id}`,
    };
    const given = ['a fox', 'a <picture>'];
    await expect(model.embed(given)).rejects.toMatchObject(error);
    await expect(model.encode(given)).rejects.toMatchObject(error);
    await expect(model.embedTokens(given)).rejects.toMatchObject(error);
    await expect(model.embed({ inputIds: [[2], [id]] })).rejects.toMatchObject(error);
    await expect(model.embed({ inputIds: [[id + 1]] })).rejects.toThrow(`got ${id + 1}`);
    expect((await model.tokenize(given)).tokens[1]).toContain('<picture>');
    expect((await model.embed(['a fox'])).shape).toEqual([1, 24]);
  });

  test('one that does not follow the vocabulary keeps its id', async () => {
    const tokenizer = JSON.parse(tiny['tokenizer.json'] as string);
    tokenizer.added_tokens = [...tokenizer.added_tokens, { ...form, content: '<picture>', id: size }];
    using model = await heed.fromPretrained({ ...tiny, 'tokenizer.json': json(tokenizer) });
    await expect(model.embed('a <picture>')).rejects.toThrow(`got the token '<picture>', whose id is ${size}`);
  });

  test('in a worker, and in training', async () => {
    const files = withTokens();
    using remote = await heed.fromPretrained(files, { worker: true });
    await expect(remote.embed('a <picture>')).rejects.toThrow("got the token '<picture>'");
    const training = await loadTraining();
    using model = await training.fromPretrained(files, { trainable: true });
    expect(() => model.sentenceVectors('a <picture>')).toThrow("got the token '<picture>'");
  });

  test('pruned folders have none', async () => {
    const { files } = await heed.prune(withTokens(), { keep: texts });
    expect(await vectorsOf(files)).toEqual(await vectorsOf(tiny));
  });

  test('other tokens past vocab_size are of another model', async () => {
    const tokenizer = full();
    tokenizer.model.vocab = { ...tokenizer.model.vocab, ...{ other: size } };
    await expect(heed.fromPretrained({ ...tiny, 'tokenizer.json': json(tokenizer) })).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining(`got ${size + 1}`),
    });
  });
});

describe('processor_config.json of transformers 5', () => {
  const image = {
    data: Uint8ClampedArray.from({ length: 3 * 30 * 25 }, (_, i) => (i * i) % 251),
    width: 30,
    height: 25,
  };
  const imagesOf = async (files: Files) => {
    using model = await heed.fromPretrained(files);
    return (await model.embedImage(image)).toArray();
  };

  test.each(['clip', 'siglip', 'dinov3'])('%s', async (name) => {
    const { 'preprocessor_config.json': old, ...rest } = bytesOf(fixture(name).folder);
    const nested = json({ image_processor: parsed(old), processor_class: 'AnyProcessor' });
    const expected = await imagesOf({ ...rest, 'preprocessor_config.json': old! });
    const files = { ...rest, 'processor_config.json': nested };
    expect(await imagesOf(files)).toEqual(expected);
    expect((await heed.inspect(files)).files.map(({ path }) => path)).toContain('processor_config.json');
    // If both exist, the nested settings count; a file of the old format has no settings for images.
    const other = json({ ...parsed(old), image_mean: [0, 0, 0] });
    expect(await imagesOf({ ...files, 'preprocessor_config.json': other })).toEqual(expected);
    const flat = json({ processor_class: 'AnyProcessor' });
    expect(await imagesOf({ ...rest, 'processor_config.json': flat, 'preprocessor_config.json': old! })).toEqual(
      expected,
    );
  });
});

describe('the order of modules', () => {
  const dense = (settings: object = {}) => ({
    '1_Dense/config.json': json({
      in_features: 24,
      out_features: 24,
      bias: true,
      activation_function: 'torch.nn.modules.activation.GELU',
      ...settings,
    }),
    '2_Pooling/config.json': json({ embedding_dimension: 24, pooling_mode: 'mean' }),
  });

  test.each<[string, [string, string][], object, string]>([
    [
      'Dense before the pooling',
      [
        ['', 'Transformer'],
        ['1_Dense', 'Dense'],
        ['2_Pooling', 'Pooling'],
      ],
      { module_input_name: 'token_embeddings', module_output_name: 'token_embeddings' },
      "expected the pooling before all layers, got '1_Dense' before '2_Pooling'",
    ],
    [
      'Normalize before the pooling',
      [
        ['', 'Transformer'],
        ['1_Normalize', 'Normalize'],
        ['2_Pooling', 'Pooling'],
      ],
      {},
      "got Normalize before '2_Pooling'",
    ],
    [
      'Dense after the pooling, on tokens',
      [
        ['', 'Transformer'],
        ['2_Pooling', 'Pooling'],
        ['1_Dense', 'Dense'],
      ],
      { module_input_name: 'token_embeddings' },
      "module_input_name: expected 'sentence_embedding' for '1_Dense', which follows the pooling, got 'token_embeddings'",
    ],
    [
      'Dense with an output of its own',
      [
        ['', 'Transformer'],
        ['2_Pooling', 'Pooling'],
        ['1_Dense', 'Dense'],
      ],
      { module_output_name: 'scores' },
      "module_output_name: expected 'sentence_embedding' for '1_Dense', which follows the pooling, got 'scores'",
    ],
  ])('%s is rejected', async (_, entries, settings, message) => {
    await expect(heed.fromPretrained({ ...tiny, ...modules(...entries), ...dense(settings) })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining(message),
    });
  });
});

describe('rotary positions', () => {
  const changed = (name: string, change: object): Files => {
    const files = tinyModel(name);
    return { ...files, 'config.json': json({ ...parsed(files['config.json']), ...change }) };
  };

  test.each<[string, object, object]>([
    ['qwen3', { rope_theta: 1e6 }, { rope_scaling: { rope_type: 'default' } }],
    ['qwen3', { rope_theta: 1e6 }, { rope_scaling: { type: 'default' } }],
    [
      'qwen3',
      { rope_theta: 1e6 },
      { rope_theta: undefined, rope_parameters: { rope_type: 'default', rope_theta: 1e6 } },
    ],
    ['qwen3', { rope_theta: 500 }, { rope_theta: undefined, rope_parameters: { rope_theta: 500 } }],
    ['nomic_bert', { rotary_emb_base: 70 }, { rotary_emb_base: undefined, rope_parameters: { rope_theta: 70 } }],
    ['nomic_bert', { rotary_emb_base: 50 }, { rope_parameters: { rope_theta: 50, rope_type: 'default' } }],
    ['nomic_bert', { rotary_emb_base: 50 }, { rope_scaling: { type: 'default' } }],
    ['new', { rope_scaling: null, rope_theta: 50 }, { rope_scaling: { rope_type: 'default' } }],
    ['new', { rope_scaling: null, rope_theta: 50 }, { rope_theta: undefined, rope_parameters: { rope_theta: 50 } }],
    [
      'new',
      { rope_scaling: { type: 'ntk', factor: 3 }, rope_theta: 50 },
      { rope_scaling: { rope_type: 'ntk', factor: 3 } },
    ],
    [
      'gemma3_text',
      { rope_theta: 300, rope_local_base_freq: 20 },
      {
        rope_theta: undefined,
        rope_local_base_freq: undefined,
        rope_parameters: { full_attention: { rope_theta: 300 }, sliding_attention: { rope_theta: 20 } },
      },
    ],
    ['gemma3_text', { rope_theta: 300 }, { rope_scaling: { rope_type: 'default' } }],
    ['modernbert', { rope_parameters: null, global_rope_theta: 99 }, { rope_scaling: { type: 'default' } }],
  ])('%s: %j is the same with %j', async (name, change, other) => {
    const expected = await vectorsOf(changed(name, change));
    expect(await vectorsOf(changed(name, { ...change, ...other }))).toEqual(expected);
    expect(await vectorsOf(tinyModel(name))).not.toEqual(expected);
  });

  test.each(['qwen3', 'nomic_bert', 'new', 'gemma3_text', 'modernbert'])(
    '%s rejects other types by name',
    async (name) => {
      for (const key of ['type', 'rope_type'])
        for (const type of ['yarn', 'linear', 'dynamic', 'llama3', 'longrope'])
          await expect(
            heed.fromPretrained(changed(name, { rope_scaling: { [key]: type, factor: 2 } })),
          ).rejects.toMatchObject({
            code: 'UNSUPPORTED',
            message: expect.stringMatching(`rope_scaling: .*got .*${type}`),
          });
      const layered = ['gemma3_text', 'modernbert'].includes(name);
      const own = { rope_type: 'yarn', rope_theta: 100, factor: 2 };
      await expect(
        heed.fromPretrained(
          changed(name, { rope_parameters: layered ? { full_attention: own } : own, rope_scaling: null }),
        ),
      ).rejects.toThrow(/rope_parameters.*got .*yarn/);
      await expect(heed.fromPretrained(changed(name, { rope_scaling: { factor: 2 } }))).rejects.toMatchObject({
        code: 'UNSUPPORTED',
      });
    },
  );
});

describe('the case of letters, as the class of the tokenizer takes it', () => {
  const tokenizer = parsed(tiny['tokenizer.json']);
  const tokensOf = async (normalizer: object, settings: object, text: string) => {
    const files = {
      'tokenizer.json': json({ ...tokenizer, normalizer }),
      'tokenizer_config.json': json(settings),
    };
    return (await loadTokenizer(files)).tokenize(text, { addSpecialTokens: false }).tokens[0];
  };
  const bert = { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null };
  const classes = ['BertTokenizer', 'BertTokenizerFast', 'DistilBertTokenizer', 'MPNetTokenizerFast'];

  test.each(classes)('%s follows tokenizer_config.json', async (tokenizer_class) => {
    const cased = { ...bert, lowercase: false };
    const lowered = { ...bert, lowercase: true };
    expect(await tokensOf(cased, { tokenizer_class, do_lower_case: true }, 'Fox')).toEqual(['fox']);
    expect(await tokensOf(lowered, { tokenizer_class, do_lower_case: false }, 'Fox')).toEqual(['[UNK]']);
    // By default, this class lower-cases and strips accents.
    expect(await tokensOf(cased, { tokenizer_class }, 'Fóx')).toEqual(['fox']);
    expect(await tokensOf(lowered, { tokenizer_class, strip_accents: false }, 'Fóx')).toEqual(['[UNK]']);
    expect(await tokensOf({ ...lowered, strip_accents: false }, { tokenizer_class }, 'Fóx')).toEqual(['fox']);
    expect(await tokensOf(cased, { tokenizer_class, do_lower_case: false, strip_accents: true }, 'fóx')).toEqual([
      'fox',
    ]);
    const apart = await tokensOf(lowered, { tokenizer_class, tokenize_chinese_chars: true }, 'a中x');
    expect(apart).toEqual(['a', '[UNK]', 'x']);
    expect(await tokensOf(lowered, { tokenizer_class, tokenize_chinese_chars: false }, 'a中x')).toEqual(['[UNK]']);
  });

  test('a class that reads tokenizer.json as it is, or none', async () => {
    const cased = { ...bert, lowercase: false };
    for (const tokenizer_class of ['PreTrainedTokenizerFast', 'TokenizersBackend', 'RobertaTokenizer'])
      expect(await tokensOf(cased, { tokenizer_class, do_lower_case: true }, 'Fox')).toEqual(['[UNK]']);
    expect(await tokensOf(cased, {}, 'Fox')).toEqual(['[UNK]']);
    expect(await tokensOf(cased, { do_lower_case: true }, 'Fox')).toEqual(['fox']);
  });

  test.each(['AlbertTokenizer', 'DebertaV2TokenizerFast', 'XLNetTokenizer'])('%s, with a sequence', async (name) => {
    const sequence = (...types: string[]) => ({ type: 'Sequence', normalizers: types.map((type) => ({ type })) });
    const settings = { tokenizer_class: name };
    expect(await tokensOf(sequence('NFC'), { ...settings, do_lower_case: true }, 'Fox')).toEqual(['fox']);
    expect(await tokensOf(sequence('NFC', 'Lowercase'), { ...settings, do_lower_case: false }, 'Fox')).toEqual([
      '[UNK]',
    ]);
    expect(await tokensOf(sequence('NFC', 'Lowercase'), settings, 'Fox')).toEqual(['fox']);
  });

  test('a value that is no flag is an error', async () => {
    const settings = { tokenizer_class: 'BertTokenizer', do_lower_case: 'yes' };
    await expect(tokensOf({ ...bert, lowercase: false }, settings, 'Fox')).rejects.toThrow(
      'do_lower_case: expected true or false, got "yes"',
    );
  });
});

describe('settings of the Transformer module', () => {
  const cased = { ...parsed(tiny['tokenizer.json']), normalizer: null };
  const model: Files = { ...tiny, 'tokenizer.json': json(cased) };
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
    const products = TextIndex.of(texts, vectors, { similarity: 'dot', output: 'float32' }).search(first);
    const index = await TextIndex.of(model, texts, { output: 'float32' });
    expect(await index.search(texts[0]!)).toEqual(products);
    const given = TextIndex.of(texts, vectors, { embedder: model, output: 'float32' });
    expect(given.search(first)).toEqual(products);
    const cosines = await TextIndex.of(model, texts, { output: 'float32', similarity: 'cosine' });
    expect((await cosines.search(texts[0]!))[0]!.score).toBeCloseTo(1, 5);
  });

  test.each(['euclidean', 'manhattan'])('an index of a model with %s is rejected', async (name) => {
    using model = await heed.fromPretrained(named(name));
    const error = {
      code: 'UNSUPPORTED',
      message: `TextIndex.of.similarity: expected one of cosine, dot, as the model's vectors are compared by '${name}', got undefined`,
    };
    await expect(TextIndex.of(model, texts)).rejects.toMatchObject(error);
    expect(() => TextIndex.of([], undefined, { embedder: model })).toThrow(error.message);
    expect((await TextIndex.of(model, texts, { similarity: 'cosine' })).texts).toEqual(texts);
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
