import {
  type Aggregation,
  answerQuestion,
  attentionRollout,
  classify,
  classifyTokens,
  type Filling,
  fillMask,
  load,
  type MaskFilling,
  type PretrainedModel,
  pipeline,
  rerank,
  semanticSearch,
  similarity,
  Tensor,
  TextIndex,
  type TokenIds,
} from 'heed';
import { describe, expect, test, vi } from 'vitest';
import { expectClose, fixture } from './fixtures.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const random = (seed: number) => () => {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return seed / 2 ** 32 - 0.5;
};
const matrix = (rows: number, width: number, seed: number) =>
  new Tensor(Float32Array.from({ length: rows * width }, random(seed)), [rows, width]);

describe('vectors', () => {
  test('similarity is the cosine', () => {
    const [a, b] = [matrix(3, 5, 1), matrix(4, 5, 2)];
    const s = similarity(a, b);
    expect(s.shape).toEqual([3, 4]);
    const [x, y] = [a.data.subarray(5, 10), b.data.subarray(10, 15)];
    const dot = x.reduce((sum, v, i) => sum + v * y[i]!, 0);
    expect(s.data[6]).toBeCloseTo(dot / Math.hypot(...x) / Math.hypot(...y), 6);
    const self = similarity(a);
    for (let i = 0; i < 3; i++) expect(self.data[4 * i]).toBeCloseTo(1, 6);
    expect([...similarity(new Tensor(new Float32Array(5), [1, 5]), b).data]).toEqual([0, 0, 0, 0]);
    expect(() => similarity(a, matrix(2, 4, 1))).toThrow(/expected vectors of the same width, got widths 5 and 4/);
    expect(() => similarity(matrix(65_536, 1, 1))).toThrow(
      expect.objectContaining({
        code: 'OUT_OF_MEMORY',
        message: expect.stringContaining('at most 2^31 - 1 pairs, got 65536 times 65536'),
      }),
    );
  });

  test('search finds the best exactly', () => {
    const [queries, corpus] = [matrix(2, 6, 3), matrix(500, 6, 4)];
    const hits = semanticSearch(queries, corpus, { topK: 7 });
    const all = similarity(queries, corpus);
    hits.forEach((list, n) => {
      const scores = [...all.data.subarray(n * 500, (n + 1) * 500)].map((score, index) => ({ index, score }));
      expect(list).toEqual(scores.sort((a, b) => b.score - a.score || a.index - b.index).slice(0, 7));
    });
    expect(semanticSearch(queries, matrix(3, 6, 1), { topK: 10 })[0]).toHaveLength(3);
    expect(() => semanticSearch(queries, corpus, { topK: 0 })).toThrow(/topK/);
  });

  test('an index says what is wrong with a query', () => {
    const index = TextIndex.of(['a', 'b'], matrix(2, 4, 5));
    const throwing = new Proxy(new Float32Array(4), {
      get() {
        throw new Error('not for you');
      },
    });
    for (const [query, code, message] of [
      [throwing, 'INVALID_ARGUMENT', 'query: reading it threw Error: not for you'],
      [new Float32Array(3), 'SHAPE_MISMATCH', 'query: expected 4 entries, got 3. Embed it with the model of the index'],
      ['a', 'INVALID_ARGUMENT', 'query: expected vectors, as this index has no model, got a text'],
      [
        7,
        'INVALID_ARGUMENT',
        'query: expected a { data: Float32Array, shape } tensor or nested arrays of numbers, got 7',
      ],
    ] as const)
      expect(() => index.search(query as never)).toThrow(
        expect.objectContaining({ name: 'HeedError', code, message: expect.stringContaining(message) }),
      );
  });
});

const withMasks = ['bert', 'roberta', 'distilbert', 'mpnet', 'electra', 'albert', 'modernbert'];
describe.each([...withMasks, 'bert-f16', 'bert-bf16', 'bert-i8'])('%s', (family) => {
  test("fills masks with PyTorch's logits", async () => {
    const { expected, input } = fixture(family);
    using model = await heed.fromPretrained(tinyModel(family));
    const { logits, masks } = await model.predict('fill-mask', input);
    expect(masks).toEqual([
      [0, 2],
      [2, 5],
    ]);
    const all = expected.get('mask')!;
    const [, width, words] = all.shape as [number, number, number];
    const rows = masks.flatMap(([n, i]) => [
      ...all.data.subarray((n * width + i) * words, (n * width + i + 1) * words),
    ]);
    expectClose(logits, { data: Float32Array.from(rows), shape: [2, words] });
  });
});

describe('tasks', () => {
  test('classify gives probabilities, best first', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const [labels] = await classify(model, 'the fox');
    expect(labels!.map(({ label }) => label).sort()).toEqual(['high', 'low', 'middle']);
    expect(labels!.reduce((sum, { score }) => sum + score, 0)).toBeCloseTo(1, 5);
    expect(labels![0]!.score).toBeGreaterThanOrEqual(labels![1]!.score);
    expect(await classify(model, ['a', 'x'], { topK: 1 })).toHaveLength(2);
  });

  test('classifyTokens gives places in the text', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const text = 'the foxes, a quick x';
    const [entities] = await classifyTokens(model, text);
    for (const { word, start, end } of entities!) expect(text.slice(start, end)).toBe(word);
    const [words] = await classifyTokens(model, text, { aggregation: 'first', ignoreLabels: [] });
    expect(words!.some(({ word }) => word.includes('foxes'))).toBe(true);
    const [, , , groups] = await Promise.all(
      (['none', 'average', 'max', 'simple'] as const).map((aggregation) =>
        classifyTokens(model, text, { aggregation }),
      ),
    );
    expect(groups![0]!.map(({ label }) => label)).not.toContain(undefined);
  });

  // Expected results of each strategy, computed by hand according to transformers' token classification.
  test.each<[Aggregation, [label: string, word: string, score: number][]]>([
    [
      'none',
      [
        ['B-PER', 'Ann', 0.9],
        ['I-PER', 'Smi', 0.6],
        ['B-LOC', 'th', 0.8],
        ['B-LOC', 'Ro', 0.7],
        ['I-LOC', 'me', 0.5],
      ],
    ],
    [
      'simple',
      [
        ['PER', 'Ann Smi', 0.75],
        ['LOC', 'th', 0.8],
        ['LOC', 'Rome', 0.6],
      ],
    ],
    [
      'first',
      [
        ['PER', 'Ann Smith', 0.75],
        ['LOC', 'Rome', 0.7],
      ],
    ],
    [
      'max',
      [
        ['PER', 'Ann', 0.9],
        ['LOC', 'Smith', 0.8],
        ['LOC', 'Rome', 0.7],
      ],
    ],
    [
      'average',
      [
        ['PER', 'Ann', 0.9],
        ['LOC', 'Smith', 0.55],
        ['LOC', 'Rome', 0.4],
      ],
    ],
  ])('classifyTokens aggregates: %s', async (aggregation, wanted) => {
    const text = 'Ann Smith in Rome';
    // Probabilities of O, B-PER, I-PER, B-LOC, I-LOC.
    const rows: [token: string, start: number, end: number, probabilities: number[]][] = [
      ['Ann', 0, 3, [0.025, 0.9, 0.025, 0.025, 0.025]],
      ['Smi', 4, 7, [0.05, 0.025, 0.6, 0.3, 0.025]],
      ['##th', 7, 9, [0.05, 0.025, 0.1, 0.8, 0.025]],
      ['in', 10, 12, [0.96, 0.01, 0.01, 0.01, 0.01]],
      ['Ro', 13, 15, [0.1, 0.05, 0.05, 0.7, 0.1]],
      ['##me', 15, 17, [0.3, 0.05, 0.05, 0.1, 0.5]],
    ];
    const model = {
      config: { labels: ['O', 'B-PER', 'I-PER', 'B-LOC', 'I-LOC'] },
      predict: async () => ({
        logits: new Tensor(
          Float32Array.from(
            rows.flatMap(([, , , p]) => p),
            Math.log,
          ),
          [1, rows.length, 5],
        ),
        tokens: [rows.map(([token]) => token)],
        offsets: [rows.map(([, start, end]) => [start, end])],
        parts: [rows.map(() => 0)],
      }),
    } as unknown as PretrainedModel;
    const [entities] = await classifyTokens(model, text, { aggregation });
    expect(entities!.map(({ label, word }) => [label, word])).toEqual(wanted.map(([label, word]) => [label, word]));
    for (const [i, { score, start, end, word }] of entities!.entries()) {
      expect(score).toBeCloseTo(wanted[i]![2], 5);
      expect(text.slice(start, end)).toBe(word);
    }
  });

  test('E- and S- are prefixes only of labels that also have B- or I-', async () => {
    const labels = ['O', 'E-MAIL', 'PHONE', 'B-PER', 'E-PER', 'S-PER', 'S-CORP'];
    const text = 'a b c d e f g';
    const model = {
      config: { labels },
      predict: async () => ({
        logits: new Tensor(
          Float32Array.from({ length: 49 }, (_, i) => (i % 7 === [1, 1, 2, 3, 4, 5, 6][Math.floor(i / 7)] ? 5 : 0)),
          [1, 7, 7],
        ),
        tokens: [text.split(' ')],
        offsets: [Array.from({ length: 7 }, (_, i) => [2 * i, 2 * i + 1])],
        parts: [new Array(7).fill(0)],
      }),
    } as unknown as PretrainedModel;
    const [entities] = await classifyTokens(model, text, { aggregation: 'simple' });
    expect(entities!.map(({ label, word }) => [label, word])).toEqual([
      ['E-MAIL', 'a b'],
      ['PHONE', 'c'],
      ['PER', 'd e'],
      ['PER', 'f'],
      ['S-CORP', 'g'],
    ]);
  });

  test('fillMask puts the word in its place', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const [fillings] = await fillMask(model, 'the [MASK] fox', { topK: 3 });
    expect(fillings).toHaveLength(3);
    expect(fillings![0]!.score).toBeGreaterThan(fillings![2]!.score);
    const [several, one] = await fillMask<Filling[] | Filling[][]>(model, ['the [MASK] [MASK]', 'the [MASK] fox'], {
      topK: 2,
    });
    expect(several).toHaveLength(2);
    const [first, second] = several as [Filling[], Filling[]];
    expect(first[0]!.sequence).toBe(`[CLS] the ${first[0]!.word} [MASK] [SEP]`);
    expect(second[1]!.sequence).toBe(`[CLS] the [MASK] ${second[1]!.word} [SEP]`);
    expect(one).toEqual(fillings!.slice(0, 2));
    await expect(fillMask(model, 'no mask')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  test('answerQuestion gives a span of the context', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const context = 'the quick brown fox';
    const answers = await answerQuestion(model, 'the x', context, { topK: 3 });
    expect(answers).toHaveLength(3);
    for (const { answer, start, end } of answers) expect(context.slice(start, end)).toBe(answer);
  });

  test('answerQuestion reads a context that is too long in windows', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const words = ['the', 'quick', 'brown', 'fox', 'x', 'y', 'z'];
    const context = Array.from({ length: 150 }, (_, i) => words[(i * i) % 7]).join(' ');
    const answers = await answerQuestion(model, 'the x', context, { topK: Infinity, maxAnswerLength: 2 });
    for (const { answer, start, end } of answers) expect(context.slice(start, end)).toBe(answer);
    // Every word and every pair of neighbouring words, each once, best first.
    expect(answers).toHaveLength(150 + 149);
    expect(new Set(answers.map(({ start, end }) => `${start} ${end}`)).size).toBe(answers.length);
    expect(answers.map(({ score }) => score)).toEqual(answers.map(({ score }) => score).sort((a, b) => b - a));
    // A window's probabilities are those of its text alone.
    const [alone] = await answerQuestion(model, 'the x', context.slice(0, 40));
    expect(alone!.score).toBeGreaterThan(0);
    // A question that leaves no space for the context is truncated.
    expect(await answerQuestion(model, context, context, { topK: Infinity, maxAnswerLength: 1 })).toHaveLength(150);
    await expect(answerQuestion(model, 'the x', 'a fox', { maxLength: 3 } as object)).rejects.toMatchObject({
      message: 'maxLength: expected at least 4, the special tokens and one more, got 3',
    });
  });

  const separators = { sep: ['[SEP]', 3], cls: ['[CLS]', 2], trim_offsets: true, add_prefix_space: false };
  test.each([
    ['bert', {}, [3]],
    ['roberta', { post_processor: { type: 'RobertaProcessing', ...separators } }, [3, 3]],
    ['roberta', { truncation: { direction: 'Left', max_length: 40, strategy: 'LongestFirst', stride: 0 } }, [3]],
  ])("answerQuestion's windows are slices of the context's tokens: %s %j", async (family, changes, between) => {
    const files = tinyModel(family);
    const tokenizer = { ...JSON.parse(files['tokenizer.json'] as string), ...changes };
    const folder = { ...files, 'tokenizer.json': JSON.stringify(tokenizer) };
    using model = await heed.fromPretrained(folder);
    // 'es' alone is an unknown word.
    const context = 'foxes foxes foxes foxes foxes, '.repeat(11);
    const all = await model.tokenize(context, { maxLength: Infinity });
    const ids = all.inputIds[0]!.slice(1, -1);
    expect(ids).toHaveLength(121);
    const asked = [2, 9, 6, ...between];
    const room = model.config.maxLength - asked.length - 1;
    const overlap = room >> 1;
    const expected: number[][] = [];
    for (let from = 0; from + overlap < ids.length; from += room - overlap)
      expected.push([...asked, ...ids.slice(from, from + room), 3]);
    expect(expected.some((row) => row[asked.length] === 13)).toBe(true);
    const predict = vi.spyOn(model, 'predict');
    const options = { topK: Infinity, maxAnswerLength: 2 };
    const answers = await answerQuestion(model, 'the x', context, options);
    expect(predict.mock.calls.map(([, input]) => (input as TokenIds).inputIds[0])).toEqual(expected);
    // Every token and every pair of neighbours, also at the borders of windows.
    const offsets = all.offsets[0]!.slice(1, -1);
    const spans = offsets.flatMap(([start, end], i) => [
      `${start} ${end}`,
      ...offsets.slice(i + 1, i + 2).map(([, next]) => `${start} ${next}`),
    ]);
    expect(answers.map(({ start, end }) => `${start} ${end}`).sort()).toEqual(spans.sort());
    for (const { answer, start, end } of answers) expect(context.slice(start, end)).toBe(answer);
    using there = await heed.fromPretrained(folder, { worker: true });
    expect(await answerQuestion(there, 'the x', context, options)).toEqual(answers);
  });

  test("answerQuestion's input of a short context is what predict makes of the texts", async () => {
    using model = await heed.fromPretrained(tinyModel());
    const { logits, inputIds } = await model.predict('question-answering', ['the x'], { textPairs: ['quick foxes'] });
    const predict = vi.spyOn(model, 'predict');
    await answerQuestion(model, 'the x', 'quick foxes');
    const [made] = await Promise.all(predict.mock.results.map(({ value }) => value));
    expect(made.inputIds).toEqual(inputIds);
    expect(made.logits).toEqual(logits);
    expect(await answerQuestion(model, 'the x', '')).toEqual([]);
  });

  test('answerQuestion stops between windows', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const stop = new AbortController();
    const options = { signal: stop.signal, onProgress: () => stop.abort('enough') };
    const predict = vi.spyOn(model, 'predict');
    await expect(answerQuestion(model, 'the x', 'foxes '.repeat(100), options)).rejects.toBe('enough');
    expect(predict).toHaveBeenCalledTimes(2);
  });

  test('tokenize gives all tokens of texts that are too long, and which text each is from', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const long = { textPairs: 'fox '.repeat(99), maxLength: Infinity };
    const { parts, truncated, tokens } = await model.tokenize('the x', long);
    expect(parts).toEqual([[null, 0, 0, null, ...new Array(99).fill(1), null]]);
    expect(truncated).toEqual([0]);
    expect(tokens[0]).toHaveLength(104);
    await expect(model.predict('question-answering', 'the x', long)).rejects.toThrow(/maxLength/);
  });

  test("rerank keeps a one-label head's raw scores", async () => {
    using many = await heed.fromPretrained(tinyModel());
    await expect(rerank(many, 'a', ['x'])).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    const { expected, input } = fixture('bert-one-label');
    using one = await heed.fromPretrained(tinyModel('bert-one-label'));
    expectClose((await one.predict('sequence-classification', input)).logits, expected.get('sequence'));
    const documents = ['the fox', 'a quick x', 'y z'];
    const hits = await rerank(one, 'the', documents);
    const { logits } = await one.predict('sequence-classification', ['the', 'the', 'the'], { textPairs: documents });
    expect(hits.map(({ score }) => score)).toEqual([...logits.data].sort((x, y) => y - x));
    expect(hits.map(({ index }) => logits.data[index])).toEqual(hits.map(({ score }) => score));
    expect((await rerank(one, 'the', documents, { topK: 1, activation: 'sigmoid' }))[0]!.score).toBeCloseTo(
      1 / (1 + Math.exp(-hits[0]!.score)),
      6,
    );
    // With one label, the score is a sigmoid; a softmax would always be 1.
    expect((await classify(one, 'the fox'))[0]![0]!.score).toBeLessThan(1);
    expect(await rerank(one, 'the', [])).toEqual([]);
  });

  test('attention rollout multiplies what the layers pass on', () => {
    // Two layers, two heads; the mean of the heads and half of the residual: [[.75, .25], [.5, .5]] and [[.5, .5], [0, 1]].
    const layer = (...heads: number[]) => new Tensor(Float32Array.from(heads), [1, 2, 2, 2]);
    const first = layer(0, 1, 1, 0, 1, 0, 1, 0);
    const second = layer(0, 1, 0, 1, 0, 1, 0, 1);
    const { data, shape } = attentionRollout([first, second]);
    expect(shape).toEqual([1, 2, 2]);
    expect([...data]).toEqual([0.625, 0.375, 0.5, 0.5]); // second layer times first layer
  });

  test('attention rollout has rows that sum to one', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const { attentions, attentionMask } = await model.encode(['the quick fox', 'a'], { outputAttentions: true });
    const { data, shape } = attentionRollout(attentions!);
    const [n, l] = shape as [number, number, number];
    for (let row = 0; row < n * l; row++)
      expect(data.subarray(row * l, (row + 1) * l).reduce((a, b) => a + b, 0)).toBeCloseTo(attentionMask.data[row]!, 5);
  });
});

describe("pipeline keeps transformers.js's conventions", () => {
  test('feature extraction', async () => {
    const extract = await pipeline('feature-extraction', tinyModel());
    using model = await heed.fromPretrained(tinyModel());
    const out = await extract(['the fox', 'a'], { pooling: 'mean', normalize: true });
    expect(out).toMatchObject({ type: 'float32', dims: [2, 24], size: 48 });
    expect(out.data).toEqual((await model.embed(['the fox', 'a'], { pooling: 'mean', normalize: true })).data);
    expect((out.tolist() as number[][])[1]).toHaveLength(24);
    const rows = out.tolist() as number[][];
    expect(out[1]!.tolist()).toEqual(rows[1]);
    expect(out[2]).toBeUndefined();
    expect([...out].map((row) => (row as typeof out).tolist())).toEqual(rows);
    expect([...out[0]!]).toEqual(rows[0]);
    expect(out[0]![3]!.item()).toBe(rows[0]![3]);
    const part = out.slice(null, [1, -20]);
    expect([part.dims, part.tolist()]).toEqual([[2, 3], rows.map((row) => row.slice(1, 4))]);
    expect(out.slice(-1, [22, null]).tolist()).toEqual(rows[1]!.slice(22));
    expect(() => out.slice(2)).toThrow('slice[0]: expected null, an index or [start, end] within 2 entries, got 2');
    expect(() => out.slice(0, 0, 0)).toThrow('slice: expected at most 2 slices, one per axis, got 3');
    expect(() => out.item()).toThrow('item: expected a tensor with one value, got 48');
    const bytes = await extract(['the fox', 'a'], { pooling: 'mean', quantize: true, precision: 'ubinary' });
    expect(bytes).toMatchObject({ type: 'uint8', dims: [2, 3] });
    expect(bytes.data).toEqual((await model.embed(['the fox', 'a'], { pooling: 'mean', output: 'binary' })).data);
    const signed = await extract(['the fox', 'a'], { pooling: 'mean', quantize: true });
    expect(signed.data).toEqual(Int8Array.from(bytes.data, (byte) => byte - 128));
    expect((await extract('the fox', { quantize: true })).dims).toEqual([1, 4, 3]);
    await expect(extract('a', { quantize: true, precision: 'int8' as 'binary' })).rejects.toThrow("'ubinary'");
    expect((await extract('the fox')).dims).toEqual([1, 4, 24]);
    await expect(extract('a', { pooling: 'sum' as 'mean' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await extract.dispose();
    await expect(extract('a')).rejects.toMatchObject({ code: 'DISPOSED' });
  });

  test('classification', async () => {
    using model = await pipeline('text-classification', tinyModel());
    expect(await model('the fox')).toEqual([{ label: expect.any(String), score: expect.any(Number) }]);
    expect(await model(['a', 'x'])).toHaveLength(2);
    const [best] = await model('the fox');
    const [first] = await model(['a', 'x'], { top_k: null });
    expect([best!.score, first![0]!.score]).toEqual([expect.any(Number), expect.any(Number)]); // these types compile
    await expect(model('the fox', { topK: 2 } as object)).rejects.toThrow(
      "text-classification: expected 'top_k' (all: top_k), got the unknown option 'topK'",
    );
    expect(await model('the fox', { top_k: null })).toHaveLength(3);
    expect(await model(['a'], { top_k: 2 })).toEqual([[expect.anything(), expect.anything()]]);
  });

  test('tokens, masks and questions', async () => {
    using tag = await pipeline('token-classification', tinyModel());
    expect(((await tag('the fox')) as { entity: string }[])[0]).toHaveProperty('entity');
    expect(((await tag('the fox', { aggregation_strategy: 'simple' })) as object[])[0]).toHaveProperty('entity_group');
    using fill = await pipeline('fill-mask', tinyModel());
    const masks = await fill<string, MaskFilling[][]>('[MASK] the [MASK]', { top_k: 3 });
    expect(masks.map((list) => list.map(Object.keys))).toEqual(
      Array(2).fill(Array(3).fill(['score', 'token', 'token_str', 'sequence'])),
    );
    expect((await fill('the [MASK]'))[0]).toMatchObject({
      token_str: expect.any(String),
      sequence: expect.any(String),
    });
    using ask = await pipeline('question-answering', tinyModel());
    const one = await ask('the', 'a fox');
    expect(one).toMatchObject({ answer: expect.any(String), score: expect.any(Number) });
    const both = await ask(['the', 'a'], 'a fox');
    expect(both).toEqual([one, await ask('a', 'a fox')]);
    expect(await ask(['the', 'a'], ['a fox', 'a fox'], { top_k: 2 })).toEqual([
      await ask('the', 'a fox', { top_k: 2 }),
      await ask('a', 'a fox', { top_k: 2 }),
    ]);
    await expect(ask(['the', 'a'], ['a fox'])).rejects.toThrow(
      'context: expected one context, or 2, one per question, got 1',
    );
  });

  test('progress', async () => {
    const seen: string[] = [];
    const totals: number[] = [];
    const files = new Set<string>();
    using _ = await pipeline('feature-extraction', tinyModel(), {
      progress_callback: (progress) => {
        seen.push(progress.status);
        if (progress.status === 'progress_total') {
          totals.push(progress.loaded);
          const sum = Object.values(progress.files).reduce((bytes, { loaded }) => bytes + loaded, 0);
          expect(sum).toBe(progress.loaded);
          expect(progress.progress).toBeCloseTo((100 * progress.loaded) / progress.total, 6);
        } else if (progress.status === 'done') files.add(progress.file);
      },
    });
    expect(totals).toEqual([...totals].sort((a, b) => a - b));
    expect([...files]).toEqual(expect.arrayContaining(['config.json', 'tokenizer.json', 'model.safetensors']));
    expect(seen[0]).toBe('initiate');
    expect(seen[1]).toBe('download');
    expect(seen.at(-1)).toBe('ready');
    expect(seen.filter((s) => s === 'initiate').length).toBe(seen.filter((s) => s === 'done').length);
  });

  test('what it does not do', async () => {
    await expect(pipeline('feature_extraction' as 'feature-extraction')).rejects.toThrow(/'feature-extraction'/);
    await expect(pipeline('feature-extraction', tinyModel(), { device: 'npu' as 'wasm' })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
    });
  });

  test.each(['wasm', 'cpu', 'auto', 'webgpu'] as const)('device %s where there is no GPU', async (device) => {
    const gpu = { requestAdapter: async () => null };
    const made = pipeline('feature-extraction', tinyModel(), { device, gpu });
    if (device === 'webgpu') await expect(made).rejects.toMatchObject({ code: 'GPU_FAILED' });
    else {
      const extract = await made;
      expect(extract.model.device.type).toBe('wasm');
      expect(extract.model.device.reason).toMatch(device === 'auto' ? /got no adapter/ : /^the default$/);
      await extract.dispose();
    }
  });
});
