import { load, type Tensor } from 'heed';
import { describe, expect, test } from 'vitest';
import { bytesOf, expectClose, fixture, fixtures } from './fixtures.js';
import { tinyModel } from './tiny.js';

const heed = await load();

describe('encode', () => {
  test('gives a text the same bits alone and in any batch', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const texts = ['a', 'the quick brown fox', '', 'x y z', 'the fox '.repeat(9), '你好'];
    const together = await model.embed(texts);
    const width = model.config.embedDim;
    for (const [n, text] of texts.entries()) {
      const alone = await model.embed([text]);
      expect([...alone.data]).toEqual([...together.data.subarray(n * width, (n + 1) * width)]);
    }
  });

  test('fills padding with zeros and returns the mask', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const out = await model.encode(['the quick brown fox', 'a'], { outputAttentions: true, outputHiddenStates: true });
    const [, width, dim] = out.lastHiddenState.shape as [number, number, number];
    const length = out.tokens[1]!.length;
    expect(out.tokens[1]).toEqual(['[CLS]', 'a', '[SEP]']);
    expect(out.attentionMask.data.slice(width)).toEqual(
      Uint8Array.from({ length: width }, (_, i) => (i < length ? 1 : 0)),
    );
    expect(out.lastHiddenState.data.subarray((width + length) * dim).every((v) => v === 0)).toBe(true);
    expect(out.hiddenStates!.every(({ data }) => data.subarray((width + length) * dim).every((v) => v === 0))).toBe(
      true,
    );
    expect(out.hiddenStates!.at(-1)!.data).toEqual(out.lastHiddenState.data);
  });

  test('treats a string as a list of one', async () => {
    using model = await heed.fromPretrained(tinyModel());
    expect((await model.encode('the fox')).lastHiddenState.shape[0]).toBe(1);
    expect((await model.embed('the fox')).shape).toEqual([1, model.config.embedDim]);
  });

  test('accepts no texts, empty texts and lone surrogates', async () => {
    using model = await heed.fromPretrained(tinyModel());
    expect((await model.embed([])).shape).toEqual([0, model.config.embedDim]);
    expect((await model.encode([])).lastHiddenState.shape).toEqual([0, 0, model.config.embedDim]);
    const out = await model.encode(['', '\ud83d', 'a\udc00b']);
    expect(out.tokens[0]).toEqual(['[CLS]', '[SEP]']);
    expect(out.lastHiddenState.data.every(Number.isFinite)).toBe(true);
  });

  test('truncates long texts and reports how much', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const limit = model.config.maxLength;
    const out = await model.encode(['a '.repeat(limit + 10), 'a']);
    expect(out.truncated).toEqual([12, 0]);
    expect(out.tokens[0]).toHaveLength(limit);
    expect(out.tokens[0]!.at(-1)).toBe('[SEP]');
    const short = await model.encode(['a a a a'], { maxLength: 4 });
    expect(short.tokens).toEqual([['[CLS]', 'a', 'a', '[SEP]']]);
    expect(short.truncated).toEqual([2]);
    await expect(model.encode(['a a a a'], { maxLength: 4, truncation: false })).rejects.toMatchObject({
      code: 'TOO_LONG',
    });
    await expect(model.embed(['a '.repeat(limit)], { truncation: false })).rejects.toMatchObject({ code: 'TOO_LONG' });
    const texts = ['a '.repeat(limit + 10), 'a'];
    for (const output of ['float32', 'int8', 'binary'] as const)
      expect((await model.embed(texts, { output })).truncated).toEqual([12, 0]);
    expect((await model.encode(['a'], { maxLength: 2 })).tokens).toEqual([['[CLS]', '[SEP]']]);
    await expect(model.encode(['a'], { maxLength: 1 })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: 'maxLength: expected at least 2, the number of special tokens, got 1',
    });
    await expect(model.encode(['a'], { maxLength: limit + 1 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  describe('runs token ids as they are, up to the positions of the model', () => {
    const short = { ...tinyModel(), 'sentence_bert_config.json': '{ "max_seq_length": 16 }' };
    const ids = (length: number) => ({ inputIds: [Array.from({ length }, (_, i) => 5 + (i % 9))] });

    test.each([
      ['in this thread', {}],
      ['in a worker', { worker: true }],
    ])('%s', async (_, options) => {
      using limited = await heed.fromPretrained(short, options);
      using model = await heed.fromPretrained(tinyModel(), options);
      expect(limited.config.maxLength).toBe(16);
      const outputs = { outputAttentions: true, outputHiddenStates: true };
      const out = await limited.encode(ids(40), outputs);
      expect(out).toEqual(await model.encode(ids(40), outputs));
      expect(out.truncated).toEqual([0]);
      expect(out.attentionMask.data).toEqual(new Uint8Array(40).fill(1));
      for (const { data } of out.attentions!)
        for (let row = 0; row < data.length; row += 40)
          expect(data.subarray(row, row + 40).reduce((sum, weight) => sum + weight, 0)).toBeCloseTo(1, 5);
      expect(await limited.embed(ids(40))).toEqual(await model.embed(ids(40)));
      const head = 'sequence-classification';
      expect(await limited.predict(head, ids(40))).toEqual(await model.predict(head, ids(40)));

      const tooLong = {
        code: 'TOO_LONG',
        message: expect.stringMatching(/^inputIds\[0\]: expected at most 40 tokens, got 41\. /),
      };
      await expect(limited.encode(ids(41))).rejects.toMatchObject(tooLong);
      await expect(limited.embed(ids(41))).rejects.toMatchObject(tooLong);
      await expect(limited.encode(ids(41), { truncation: false })).rejects.toMatchObject(tooLong);
      const cut = await limited.encode(ids(41), { truncation: true });
      expect(cut.truncated).toEqual([1]);
      expect(cut.lastHiddenState.data.slice(0, 40 * 24)).toEqual(out.lastHiddenState.data);
      const [whole, least] = [await limited.embed(ids(41), { truncation: true }), await limited.embed(ids(40))];
      expect(whole.data).toEqual(least.data);
      expect([whole.truncated, least.truncated]).toEqual([[1], [0]]);

      await expect(limited.encode(ids(9), { maxLength: 8 })).rejects.toMatchObject({ code: 'TOO_LONG' });
      expect((await limited.encode(ids(9), { maxLength: 8, truncation: true })).truncated).toEqual([1]);
      // Texts are still truncated to the tokenizer's limit.
      expect((await limited.encode('a '.repeat(30))).truncated).toEqual([16]);
    });

    test.each(['bert', 'roberta', 'mpnet'])('%s counts the padding before them', async (family) => {
      using model = await heed.fromPretrained(`${fixtures}${family}`);
      const { maxLength } = model.config;
      const input = {
        inputIds: [new Array<number>(maxLength + 5).fill(7)],
        attentionMask: [Array.from({ length: maxLength + 5 }, (_, i) => (i < 10 ? 0 : 1))],
      };
      await expect(model.encode(input)).rejects.toMatchObject({ code: 'TOO_LONG' });
      const cut = await model.encode(input, { truncation: true });
      expect(cut.truncated).toEqual([5]);
      expect(cut.attentionMask.data.reduce((sum, one) => sum + one, 0)).toBe(maxLength - 10);
      // Padding at the end takes no positions.
      const behind = { ...input, attentionMask: [[...input.attentionMask[0]!].reverse()] };
      expect((await model.encode(behind)).truncated).toEqual([0]);
    });
  });

  test('encodes pairs with their token types', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const { tokens, tokenTypeIds, offsets } = await model.tokenize(['the fox'], { textPairs: ['a x'] });
    expect(tokens).toEqual([['[CLS]', 'the', 'fox', '[SEP]', 'a', 'x', '[SEP]']]);
    expect(tokenTypeIds).toEqual([[0, 0, 0, 0, 1, 1, 1]]);
    expect(offsets[0]!.slice(4, 6)).toEqual([
      [0, 1],
      [2, 3],
    ]);
    const pair = await model.embed(['the fox'], { textPairs: ['a x'] });
    expect(pair.data).not.toEqual((await model.embed(['the fox a x'])).data);
    await expect(model.encode(['a', 'b'], { textPairs: ['c'] })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  test('disables heads', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const { numLayers, numHeads } = model.config;
    const ones = Array.from({ length: numLayers }, () => new Array<number>(numHeads).fill(1));
    const plain = await model.encode('the fox');
    expect((await model.encode('the fox', { headMask: ones })).lastHiddenState.data).toEqual(
      plain.lastHiddenState.data,
    );
    const first = ones.map((row, i) => row.map((v, h) => (i === 0 && h === 0 ? 0 : v)));
    expect((await model.embed('the fox', { headMask: first })).data).not.toEqual((await model.embed('the fox')).data);
    await expect(model.encode('a', { headMask: [[1]] })).rejects.toMatchObject({ code: 'SHAPE_MISMATCH' });
    for (const factor of [NaN, Infinity, -Infinity, 1e39]) {
      const wrong = ones.map((row, i) => row.map((v, h) => (i === 1 && h === 0 ? factor : v)));
      const refused = {
        code: 'INVALID_ARGUMENT',
        message: expect.stringMatching(/headMask: expected finite factors, got ./),
      };
      await expect(model.encode('a', { headMask: wrong })).rejects.toMatchObject(refused);
      await expect(model.embed('a', { headMask: wrong })).rejects.toMatchObject(refused);
      await expect(model.predict('fill-mask', 'a', { headMask: wrong })).rejects.toMatchObject(refused);
    }
  });

  test('masks tokens as the published models do, on the left and in between', async () => {
    const { folder, input } = fixture('bert-bare');
    using model = await heed.fromPretrained(folder);
    const [ids] = input.inputIds as number[][];
    // Absolute positions follow the columns.
    const left = await model.encode({ inputIds: [[0, 0, ...ids!]], attentionMask: [[0, 0, ...ids!.map(() => 1)]] });
    expect(left.lastHiddenState.data.subarray(0, 48).every((v) => v === 0)).toBe(true);
    const hole = await model.encode({ inputIds: [[5, 6, 7]], attentionMask: [[1, 0, 1]] });
    expect(hole.attentionMask.toArray()).toEqual([[1, 0, 1]]);
    expect(hole.lastHiddenState.data.subarray(24, 48).every((v) => v === 0)).toBe(true);
  });
});

describe('embed', () => {
  test('pools and normalizes as the folder says', async () => {
    const files = { ...bytesOf(`${fixtures}bert-bare`) };
    const { expected, input } = fixture('bert-bare');
    const modules = [
      { type: 'sentence_transformers.models.Transformer', path: '' },
      { type: 'sentence_transformers.models.Pooling', path: '1_Pooling' },
      { type: 'sentence_transformers.models.Normalize', path: '2_Normalize' },
    ];
    using plain = await heed.fromPretrained(files);
    expect(plain.config).toMatchObject({ pooling: 'mean', normalize: false });
    using mean = await heed.fromPretrained({
      ...files,
      'modules.json': JSON.stringify(modules),
      '1_Pooling/config.json': '{"pooling_mode_mean_tokens":true}',
    });
    expectClose(await mean.embed(input), expected.get('mean'));
    using cls = await heed.fromPretrained({
      ...files,
      'modules.json': JSON.stringify(modules.slice(0, 2)),
      '1_Pooling/config.json': '{"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false}',
    });
    expectClose(await cls.embed(input), expected.get('cls'));
  });

  test('shortens vectors before it normalizes them', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const full = await model.embed('the fox', { normalize: false });
    const short = await model.embed('the fox', { dimensions: 8, normalize: true });
    const norm = Math.hypot(...full.data.subarray(0, 8));
    expect(short.shape).toEqual([1, 8]);
    for (const [i, v] of short.data.entries()) expect(v).toBeCloseTo(full.data[i]! / norm, 6);
    await expect(model.embed('a', { dimensions: 999 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  test('puts prompts before texts', async () => {
    const prompts = JSON.stringify({ prompts: { query: 'the ', passage: '' }, default_prompt_name: 'passage' });
    using model = await heed.fromPretrained({ ...tinyModel(), 'config_sentence_transformers.json': prompts });
    const plain = await model.embed('the fox');
    expect((await model.embed('fox', { promptName: 'query' })).data).toEqual(plain.data);
    expect((await model.embed('fox', { prompt: 'the ' })).data).toEqual(plain.data);
    expect((await model.embed('fox')).data).not.toEqual(plain.data);
    await expect(model.embed('fox', { promptName: 'nope' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  test('stops when its signal fires, and answers correctly afterwards', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const before = await model.embed('the fox');
    const texts = Array.from({ length: 20_000 }, (_, i) => `the quick brown fox ${i}`);
    const stop = new AbortController();
    setTimeout(() => stop.abort(new Error('enough'))); // when the call first yields to the event loop
    await expect(model.embed(texts, { signal: stop.signal })).rejects.toThrow('enough');
    await expect(model.embed('a', { signal: AbortSignal.abort(new Error('at once')) })).rejects.toThrow('at once');
    expect((await model.embed('the fox')).data).toEqual(before.data);
  });

  test('reports progress up to the total', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const seen: number[] = [];
    await model.embed(
      Array.from({ length: 1500 }, () => 'the quick brown fox'),
      { onProgress: ({ done, total }) => seen.push(done, total) },
    );
    expect(seen.length).toBeGreaterThan(2);
    expect(seen.at(-2)).toBe(1500);
    expect(seen.filter((_, i) => i % 2 === 0)).toEqual(seen.filter((_, i) => i % 2 === 0).sort((a, b) => a - b));
  });

  test('keeps calls apart that run at the same time', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const texts = Array.from({ length: 8 }, (_, i) => `fox ${i} `.repeat(40));
    const alone: Tensor[] = [];
    for (const text of texts) alone.push(await model.embed(text));
    const together = await Promise.all(texts.map((text) => model.embed(text)));
    for (const [i, { data }] of together.entries()) expect(data).toEqual(alone[i]!.data);
  });
});

test('a disposed model rejects calls, also those in progress', async () => {
  const model = await heed.fromPretrained(tinyModel());
  const running = model.embed(Array.from({ length: 20_000 }, () => 'the quick brown fox'));
  setTimeout(() => model.dispose()); // when the call first yields to the event loop
  await expect(running).rejects.toMatchObject({ code: 'DISPOSED' });
  model.dispose();
  await expect(model.encode('a')).rejects.toMatchObject({ code: 'DISPOSED' });
  expect(model.disposed).toBe(true);
});

test('memory stays flat over loads and disposals', async () => {
  const cycle = async () => {
    using model = await heed.fromPretrained(tinyModel());
    await model.encode(['the fox', 'a'], { outputAttentions: true });
  };
  for (let i = 0; i < 5; i++) await cycle();
  const before = heed.info.memoryBytes;
  for (let i = 0; i < 50; i++) await cycle();
  expect(heed.info.memoryBytes).toBe(before);
});

test('more texts than a function call takes arguments', async () => {
  using model = await heed.fromPretrained(fixture('bert').folder);
  const input = { inputIds: Array.from({ length: 200_000 }, () => [5]) };
  expect((await model.predict('sequence-classification', input)).logits.shape).toEqual([200_000, 3]);
  expect((await model.encode(input)).lastHiddenState.shape).toEqual([200_000, 1, 24]);
});
