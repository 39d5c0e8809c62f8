/**
 * Folders in the formats of recent and older versions of transformers: the same results in both formats, or one clear
 * error.
 */
import { loadTokenizer } from 'heed';
import { load as loadTraining } from 'heed/train';
import { describe, expect, test } from 'vitest';
import { bytesOf, fixture } from './fixtures.js';
import { type Files, heed, json, parsed, texts, tiny, vectorsOf } from './folder-support.js';
import { tinyModel } from './tiny.js';

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
    return (await model.embedImages(image)).toArray();
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
    '%s scales angles, and rejects other types by name',
    async (name) => {
      const plain = await vectorsOf(changed(name, { rope_scaling: null }));
      const scaled = { rope_scaling: { rope_type: 'linear', factor: 2 } };
      expect(await vectorsOf(changed(name, scaled))).not.toEqual(plain);
      for (const type of ['longrope', 'su', 'axial'])
        await expect(
          heed.fromPretrained(changed(name, { rope_scaling: { rope_type: type, factor: 2 } })),
        ).rejects.toMatchObject({
          code: 'UNSUPPORTED',
          message: expect.stringMatching(`rope_scaling: .*got .*${type}`),
        });
      const layered = ['gemma3_text', 'modernbert'].includes(name);
      const own = { rope_type: 'longrope', rope_theta: 100, factor: 2 };
      await expect(
        heed.fromPretrained(
          changed(name, { rope_parameters: layered ? { full_attention: own } : own, rope_scaling: null }),
        ),
      ).rejects.toThrow(/rope_parameters.*got .*longrope/);
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
    expect(await tokensOf(cased, { do_lower_case: true }, 'Fox')).toEqual(['[UNK]']);
  });

  test('a value that is no flag is an error', async () => {
    const settings = { tokenizer_class: 'BertTokenizer', do_lower_case: 'yes' };
    await expect(tokensOf({ ...bert, lowercase: false }, settings, 'Fox')).rejects.toThrow(
      'do_lower_case: expected true or false, got "yes"',
    );
  });
});
