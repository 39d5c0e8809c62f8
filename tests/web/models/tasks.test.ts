import {
  type Aggregation,
  answerQuestion,
  attentionRollout,
  classify,
  classifyTokens,
  type Filling,
  fillMask,
  load,
  maxSim,
  type PretrainedModel,
  rerank,
  Tensor,
  type TokenIds,
} from 'heed';
import { describe, expect, test, vi } from 'vitest';
import { expectClose, fixture } from './fixtures.js';
import { tinyModel } from './tiny.js';

const heed = await load();
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
      config: { labels: ['O', 'B-PER', 'I-PER', 'B-LOC', 'I-LOC'], subwordPrefix: '##' },
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

  test('rerank compares token vectors where a model has no classifier', async () => {
    using model = await heed.fromPretrained(tinyModel('bert-bare'));
    const documents = Array.from(
      { length: 70 },
      (_, i) => `${['the fox', 'a quick x', 'y z'][i % 3]} ${'x '.repeat(i % 7)}`,
    );
    const [query] = await model.embedTokens('the quick fox', { promptName: 'query' });
    const vectors = await model.embedTokens(documents, { promptName: 'document' });
    const scores = maxSim(query!, vectors, { lengthNormalize: true });
    const hits = await rerank(model, 'the quick fox', documents);
    expect(hits).toHaveLength(70);
    for (const { index, score } of hits) expect(score).toBeCloseTo(scores[index]!, 6);
    expect(hits.map(({ score }) => score)).toEqual(hits.map(({ score }) => score).sort((a, b) => b - a));
    const [first] = await rerank(model, 'the quick fox', documents, { topK: 1, activation: 'sigmoid' });
    expect(first!.score).toBeCloseTo(1 / (1 + Math.exp(-hits[0]!.score)), 6);
    await expect(rerank(model, 'a', ['b'], { prompt: 'x' })).rejects.toThrow('rerank.prompt: expected a cross-encoder');
    await expect(rerank(model, 'a', ['b'], { edit: {} } as never)).rejects.toThrow('edit');
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
