/** heed/evaluation. Expected values: SciPy's, scikit-learn's and NumPy's, by tests/fixtures/evaluation/generate.py. */
import { readFileSync } from 'node:fs';
import { HeedError, load, Tensor } from 'heed';
import * as evaluation from 'heed/evaluation';
import {
  classificationMetrics,
  embeddingSimilarityMetrics,
  evaluateEmbeddingSimilarity,
  evaluateInformationRetrieval,
  informationRetrievalMetrics,
  type RetrievalMetrics,
} from 'heed/evaluation';
import { expect, test } from 'vitest';

const golden = JSON.parse(readFileSync(new URL('../../fixtures/evaluation/metrics.json', import.meta.url), 'utf8'));
const heed = await load();

/** Compares numbers at any depth, up to rounding. */
function expectSame(got: unknown, expected: unknown): void {
  if (typeof expected === 'number') expect(got).toBeCloseTo(expected, 10);
  else if (typeof expected !== 'object' || expected === null) expect(got).toBe(expected);
  else {
    expect(Object.keys(got as object)).toEqual(Object.keys(expected));
    for (const [key, value] of Object.entries(expected)) expectSame((got as Record<string, unknown>)[key], value);
  }
}

const atAll = (ks: number[]) => ({ accuracyAtK: ks, precisionRecallAtK: ks, mrrAtK: ks, ndcgAtK: ks, mapAtK: ks });

interface RetrievalCase {
  rankings: number[][];
  relevant: number[][];
  ks: number[];
  metrics: object;
}

test.each(golden.retrieval as RetrievalCase[])('retrieval %#', ({ rankings, relevant, ks, metrics }) => {
  const sets = relevant.map((ids) => new Set(ids));
  for (const given of [relevant, sets])
    expectSame(informationRetrievalMetrics(rankings, given, atAll(ks)), { count: 25, ...metrics });
});

test('the defaults are those of InformationRetrievalEvaluator', () => {
  const found = informationRetrievalMetrics([['a']], [['a', 'b']]);
  const keys = ({ count: _, ...metrics }: RetrievalMetrics) =>
    Object.fromEntries(Object.entries(metrics).map(([name, values]) => [name, Object.keys(values).join()]));
  const several = '1,3,5,10';
  expect(keys(found)).toEqual({
    accuracy: several,
    precision: several,
    recall: several,
    mrr: '10',
    ndcg: '10',
    map: '100',
  });
});

test.each(golden.similarity as { similarities: number[]; scores: number[]; pearson: number; spearman: number }[])(
  'similarity %#',
  ({ similarities, scores, ...expected }) => {
    expectSame(embeddingSimilarityMetrics(similarities, scores), expected);
  },
);

test('a list of equal numbers correlates with nothing', () => {
  expect(embeddingSimilarityMetrics([1, 2], [3, 3])).toEqual({ pearson: Number.NaN, spearman: Number.NaN });
});

test.each(golden.classification as { expected: string[]; predicted: string[] }[])(
  'classification %#',
  ({ expected, predicted, ...metrics }) => {
    const { count, ...found } = classificationMetrics(expected, predicted);
    expect(count).toBe(expected.length);
    expectSame(found, metrics);
  },
);

test('labels may be numbers and booleans', () => {
  expect(classificationMetrics([1, 2, 1], [1, 1, 1]).labels.map(({ label }) => label)).toEqual(['1', '2']);
  expect(classificationMetrics([true, false], [true, false]).accuracy).toBe(1);
});

/** A fake model with given vectors of texts. */
function fake(vectors: Record<string, number[]>) {
  const calls: string[] = [];
  const embed = (kind: string) => async (texts: string[]) => {
    calls.push(kind);
    const rows = texts.map((text) => vectors[text]!);
    return new Tensor(Float32Array.from(rows.flat()), [rows.length, rows[0]!.length]);
  };
  const model = { embed: embed('embed'), embedQuery: embed('query'), embedDocument: embed('document') };
  return { model: model as never, calls };
}

test.each([
  ['in JavaScript', {}],
  ['in the core', { heed }],
])('retrieval by a model ranks all documents, %s', async (_, where) => {
  const { model, calls } = fake({ q1: [1, 0], q2: [0, 1], a: [1, 0.1], b: [1, 1], c: [-1, 2], d: [-1, -1] });
  const texts = (names: string) => Object.fromEntries([...names].map((name) => [`id ${name}`, name]));
  const data = {
    queries: { one: 'q1', two: 'q2', none: 'q1' },
    corpus: texts('abcd'),
    relevantDocs: { one: ['id b'], two: new Set(['id c', 'id d']), none: [] },
  };
  const progress: object[] = [];
  const options = { ...atAll([1, 2, 3]), ...where, onProgress: (each: object) => progress.push(each) };
  const found = await evaluateInformationRetrieval(model, data, options);
  expect(calls.sort()).toEqual(['document', 'query']);
  expect(progress.at(-1)).toEqual({ done: 2, total: 2 });
  // The rankings are a b c d and c b a d.
  const rankings = [[...'abcd'], [...'cbad']].map((names) => names.map((name) => `id ${name}`));
  const relevant = [['id b'], ['id c', 'id d']];
  expect(found).toEqual(informationRetrievalMetrics(rankings, relevant, atAll([1, 2, 3])));
  expect(found.mrr[3]).toBe(0.75);
});

test('similarity by a model', async () => {
  const { model } = fake({ a: [1, 0], b: [2, 0.5], c: [0, 1], d: [-3, 1] });
  const pair = (a: string, b: string, score: number) => ({ a, b, score });
  const pairs = [pair('a', 'b', 5), pair('a', 'c', 3), pair('a', 'd', 0), pair('a', 'a', 5)];
  const cosine = await evaluateEmbeddingSimilarity(model, pairs);
  const cosines = [2 / Math.hypot(2, 0.5), 0, -3 / Math.hypot(3, 1), 1];
  expectSame(cosine, { count: 4, ...embeddingSimilarityMetrics(cosines, [5, 3, 0, 5]) });
  const others = {
    dot: [2, 0, -3, 1],
    euclidean: [-Math.hypot(1, 0.5), -Math.SQRT2, -Math.hypot(4, 1), -0],
    manhattan: [-1.5, -2, -5, -0],
  };
  for (const [similarity, values] of Object.entries(others))
    expectSame(await evaluateEmbeddingSimilarity(model, pairs, { similarity: similarity as 'dot' }), {
      count: 4,
      ...embeddingSimilarityMetrics(values, [5, 3, 0, 5]),
    });
});

test('the model that comes with heed', async () => {
  using model = await heed.fromPretrained();
  const data = {
    queries: { 1: 'a kitten', 2: 'the ocean' },
    corpus: { cat: 'a small cat', car: 'a fast car', sea: 'the deep sea' },
    relevantDocs: { 1: ['cat'], 2: ['sea'] },
  };
  expect((await evaluateInformationRetrieval(model, data, { heed })).accuracy[1]).toBe(1);
  const stop = new AbortController();
  stop.abort('enough');
  await expect(evaluateInformationRetrieval(model, data, { signal: stop.signal })).rejects.toBe('enough');
  const pairs = [
    { a: 'a cat', b: 'a kitten', score: 5 },
    { a: 'a cat', b: 'a car', score: 0 },
  ];
  expect(await evaluateEmbeddingSimilarity(model, pairs)).toMatchObject({ count: 2, spearman: 1 });
});

const { model } = fake({ q: [1, 0], a: [1, 0] });
const data = { queries: { q: 'q' }, corpus: { a: 'a' }, relevantDocs: { q: ['a'] } };
test.each<[string, () => unknown]>([
  ['rankings', () => informationRetrievalMetrics([], [])],
  ['rankings[0]', () => informationRetrievalMetrics(['a'] as never, [['a']])],
  ['relevant', () => informationRetrievalMetrics([['a']], [['a'], ['b']])],
  ['relevant[0]', () => informationRetrievalMetrics([['a']], [[]])],
  ['informationRetrievalMetrics.mrrAtK[0]', () => informationRetrievalMetrics([['a']], [['a']], { mrrAtK: [0] })],
  ['informationRetrievalMetrics', () => informationRetrievalMetrics([['a']], [['a']], { k: 3 } as never)],
  ['scores', () => embeddingSimilarityMetrics([1, 2], [1])],
  ['similarities', () => embeddingSimilarityMetrics([1], [1])],
  ['similarities[1]', () => embeddingSimilarityMetrics([1, Number.NaN], [1, 2])],
  ['expected', () => classificationMetrics([], [])],
  ['expected[0]', () => classificationMetrics([{}] as never, ['a'])],
  ['predicted', () => classificationMetrics(['a'], ['a', 'b'])],
  ['evaluateInformationRetrieval: model', () => evaluateInformationRetrieval({} as never, data)],
  ['data.queries', () => evaluateInformationRetrieval(model, { ...data, queries: {} })],
  ["data.corpus['a']", () => evaluateInformationRetrieval(model, { ...data, corpus: { a: 3 } } as never)],
  ["data.relevantDocs['q']", () => evaluateInformationRetrieval(model, { ...data, relevantDocs: { q: ['z'] } })],
  ["data.relevantDocs['x']", () => evaluateInformationRetrieval(model, { ...data, relevantDocs: { x: ['a'] } })],
  ['data.relevantDocs', () => evaluateInformationRetrieval(model, { ...data, relevantDocs: { q: [] } })],
  ['data.queries', () => evaluateInformationRetrieval(model, null as never)],
  ['evaluateEmbeddingSimilarity: model', () => evaluateEmbeddingSimilarity(null as never, [])],
  ['examples', () => evaluateEmbeddingSimilarity(model, [])],
  ['examples[0].score', () => evaluateEmbeddingSimilarity(model, [{ a: 'a', b: 'q', score: '3' }] as never)],
  ['examples[0].a', () => evaluateEmbeddingSimilarity(model, [null] as never)],
])('refuses a wrong %s', async (argument, call) => {
  const error = await (async () => call())().then(
    () => null,
    (reason) => reason,
  );
  expect(error).toBeInstanceOf(HeedError);
  expect(error.message.startsWith(`${argument}: expected `)).toBe(true);
});

interface NumbersCase {
  metric: 'r2Score';
  expected: number[];
  predicted: number[];
  weights?: number[];
  value: number;
}

const metrics = { ...evaluation };

test.each(golden.numbers as NumbersCase[])('$metric %#', ({ metric, expected, predicted, weights, value }) => {
  const column = (values: number[]) => values.map((number) => [number]);
  const options = weights && { weights };
  const got = metrics[metric](expected, predicted, options);
  expect(Math.abs(got - value)).toBeLessThanOrEqual(1e-10 * Math.max(1, Math.abs(value)));
  expect(metrics[metric](column(expected), new Float64Array(predicted), options)).toBe(got);
  const single = new Tensor(Float32Array.from(predicted), [predicted.length, 1]);
  expect(Math.abs(metrics[metric](expected, single, options) - value)).toBeLessThanOrEqual(
    1e-5 * (1 + Math.abs(value)),
  );
});

test('the Gini coefficient of labels, with ties, is 2 AUC - 1', () => {
  for (const { metric, expected, predicted, weights } of golden.numbers as NumbersCase[]) {
    if ((metric as string) !== 'rocAucScore') continue;
    const options = weights && { weights };
    const auc = evaluation.rocAucScore(expected, predicted, options);
    expect(evaluation.giniCoefficient(expected, predicted, options)).toBeCloseTo(2 * auc - 1, 10);
  }
});

test('edge cases of metrics of numbers are those of scikit-learn', () => {
  expect(evaluation.r2Score([1], [2])).toBeNaN();
  expect(evaluation.r2Score([1, 1], [1, 1])).toBe(1);
  expect(evaluation.r2Score([1, 1], [1, 2])).toBe(0);
  expect(evaluation.rocAucScore([1, 1], [0.1, 0.2])).toBeNaN();
  expect(evaluation.rocAucScore([false, true], [0.1, 0.2])).toBe(1);
  expect(evaluation.d2PoissonScore([1], [2])).toBeNaN();
  expect(evaluation.d2GammaScore([1, 1], [1, 2])).toBeNaN();
  expect(evaluation.giniCoefficient([1, 1], [1, 2])).toBeNaN();
});

test.each<[() => unknown, string, RegExp]>([
  [() => evaluation.r2Score([], []), 'INVALID_ARGUMENT', /r2Score: expected: expected at least one number/],
  [() => evaluation.r2Score([1], [1, 2]), 'SHAPE_MISMATCH', /predicted: expected 1 numbers, one for each/],
  [() => evaluation.r2Score([1, NaN], [1, 2]), 'INVALID_ARGUMENT', /expected finite numbers, got NaN for example 1/],
  [() => evaluation.r2Score([1], 3 as never), 'INVALID_ARGUMENT', /predicted: expected an array or a tensor/],
  [() => evaluation.r2Score([1, 2], heed.softmax([[1, 2]])), 'SHAPE_MISMATCH', /shape \[N\] or \[N, 1\]/],
  [() => evaluation.r2Score([1], [1], { weights: [0] }), 'INVALID_ARGUMENT', /weights with a positive sum/],
  [() => evaluation.r2Score([1], [1], { weights: [-1] }), 'INVALID_ARGUMENT', /finite numbers >= 0, got -1/],
  [() => evaluation.r2Score([1], [1], { weight: [1] } as never), 'INVALID_ARGUMENT', /unknown option 'weight'/],
  [() => evaluation.meanPoissonDeviance([-1], [1]), 'INVALID_ARGUMENT', /expected: expected finite numbers >= 0/],
  [() => evaluation.meanGammaDeviance([1], [0]), 'INVALID_ARGUMENT', /predicted: expected finite numbers > 0/],
  [() => evaluation.rocAucScore([2], [1]), 'INVALID_ARGUMENT', /labels of 0 or 1, got 2 for example 0/],
])('metrics of numbers refuse %s', (call, code, message) => {
  expect(call).toThrow(expect.objectContaining({ name: 'HeedError', code, message: expect.stringMatching(message) }));
});
