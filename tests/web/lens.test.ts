/** heed/lens: patch grids, the logit lens and rollout, compared with hooks on the reference models; rejected calls. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { attentionRollout, load, type PretrainedModel, type Tensor } from 'heed';
import { logitLens, patchGrid, rollout } from 'heed/lens';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { expectClose, fixtures } from './models/fixtures.js';
import { tinyModel } from './models/tiny.js';

interface Case {
  folder: string;
  grids: Record<'heads' | 'positions' | 'blocks', number[][]>;
  /** [layers + 1][tokens] of [id, probability] */
  logitLens?: [number, number][][][];
  rollout: number[][];
}
const expected = JSON.parse(readFileSync(join(fixtures, 'lens.json'), 'utf8')) as {
  clean: number[];
  corrupted: number[];
  cases: Case[];
};
const [clean, corrupted] = [{ inputIds: [expected.clean] }, { inputIds: [expected.corrupted] }];
const over = ['heads', 'positions', 'blocks'] as const;
const metric = ({ lastHiddenState }: { lastHiddenState: Tensor }) =>
  lastHiddenState.data.reduce((sum, value, i) => sum + value * Math.sin(i), 0);
const matrixOf = (rows: number[][]) => ({
  data: Float32Array.from(rows.flat()),
  shape: [rows.length, rows[0]!.length],
});

let heed: Awaited<ReturnType<typeof load>>;
const models = new Map<string, PretrainedModel>();
const modelOf = async (name: string) => {
  const model = models.get(name) ?? (await heed.fromPretrained(tinyModel(name)));
  models.set(name, model);
  return model;
};
beforeAll(async () => {
  heed = await load();
});
afterAll(() => {
  for (const model of models.values()) model.dispose();
});

describe.each(expected.cases.map((each) => [each.folder, each] as const))('%s', (folder, wanted) => {
  test.each(over)('a patch grid over %s', async (over) => {
    const grid = await patchGrid(await modelOf(folder), { clean, corrupted, metric, over });
    expectClose(grid, matrixOf(wanted.grids[over]));
  });

  test('rollout', async () => {
    expectClose(await rollout(await modelOf(folder), clean), matrixOf(wanted.rollout));
  });

  test.skipIf(!wanted.logitLens)('the logit lens', async () => {
    const layers = await logitLens(await modelOf(folder), clean, { topK: 3 });
    const ids = layers.map((tokens) => tokens.map((words) => words.map(({ token }) => token)));
    expect(ids).toEqual(wanted.logitLens!.map((tokens) => tokens.map((words) => words.map(([id]) => id))));
    const scores = layers.flat(2).map(({ score }) => score);
    const wantedScores = wanted.logitLens!.flat(2).map(([, score]) => score);
    expectClose({ data: Float32Array.from(scores), shape: [] }, { data: Float32Array.from(wantedScores), shape: [] });
  });
});

test('the last layer of the logit lens is what the model predicts; special tokens have their names', async () => {
  const model = await modelOf('bert');
  const layers = await logitLens(model, 'the quick [MASK] fox', { topK: Infinity });
  expect(layers).toHaveLength(4);
  expect(layers[0]).toHaveLength(6);
  const { logits } = await model.predict('fill-mask', 'the quick [MASK] fox');
  const order = [...logits.data.keys()].sort((a, b) => logits.data[b]! - logits.data[a]! || a - b);
  const words = layers.at(-1)![3]!;
  expect(words.map(({ token }) => token)).toEqual(order);
  expect(words.reduce((sum, { score }) => sum + score, 0)).toBeCloseTo(1, 5);
  const wordOf = (id: number) => words.find(({ token }) => token === id)!.word;
  expect([wordOf(2), wordOf(10), wordOf(13)]).toEqual(['[CLS]', 'quick', '##es']);
});

test('rollout is that of the attentions', async () => {
  const model = await modelOf('bert');
  const { attentions } = await model.encode('the fox', { outputAttentions: true });
  expect((await rollout(model, 'the fox')).data).toEqual(attentionRollout(attentions).data);
});

test('a grid of a head gets what predict returns for one run', async () => {
  const model = await modelOf('bert');
  const texts = { clean: 'a [MASK] fox', corrupted: 'the [MASK] fox' };
  const read = ['layers.*.heads'];
  const { activations } = await model.encode(texts.clean, { read });
  for (const head of ['fill-mask', 'token-classification', 'sequence-classification'] as const) {
    const seen: object[] = [];
    const sum = ({ data }: Tensor) => data.reduce((all, value, i) => all + value * Math.sin(i), 0);
    const grid = await patchGrid(model, {
      ...texts,
      head,
      over: 'heads',
      metric: (result) => {
        seen.push(result);
        return sum(result.logits);
      },
    });
    expect(grid.shape).toEqual([3, 3]);
    expect(seen).toHaveLength(9);
    const whole = await model.predict(head, texts.corrupted);
    expect(Object.keys(seen[0]!).sort()).toEqual(Object.keys(whole).sort());
    for (const [layer, at] of [
      [0, 2],
      [2, 1],
    ] as const) {
      const set = activations![`layers.${layer}.heads`]!.at<Tensor>(0, at);
      const edit = [{ site: `layers.${layer}.heads`, heads: [at], set }];
      const one = await model.predict(head, texts.corrupted, { edit });
      expect((seen[3 * layer + at] as typeof one).logits.shape).toEqual(one.logits.shape);
      expect((seen[3 * layer + at] as typeof one).masks).toEqual(one.masks);
      expect(grid.at(layer, at)).toBeCloseTo(sum(one.logits), 4);
    }
  }
});

test('encode gives a metric one run', async () => {
  const model = await modelOf('bert');
  const seen: object[] = [];
  const note = (result: object) => seen.push(result);
  await patchGrid(model, { clean: 'a fox', corrupted: 'the fox', over: 'blocks', metric: note });
  expect(seen).toHaveLength(6);
  const whole = await model.encode('the fox');
  for (const result of seen) {
    expect(Object.keys(result).sort()).toEqual(Object.keys(whole).sort());
    expect(result).toMatchObject({ tokens: whole.tokens, offsets: whole.offsets, truncated: [0] });
    expect((result as typeof whole).lastHiddenState.shape).toEqual(whole.lastHiddenState.shape);
  }
});

test('a long text runs in several calls, with progress', async () => {
  using model = await heed.fromPretrained();
  const words = Array.from({ length: 40 }, (_, i) => ['tea', 'sun', 'fox'][i % 3]).join(' ');
  const reports: number[] = [];
  let runs = 0;
  const grid = await patchGrid(model, {
    clean: words,
    corrupted: words.replace('tea', 'sea'),
    over: 'positions',
    metric: () => runs++,
    onProgress: ({ done, total }) => reports.push(done / total),
  });
  const [layers, length] = grid.shape as [number, number];
  expect(layers).toBe(6);
  expect(runs).toBe(6 * length);
  expect(reports.length).toBeGreaterThan(3);
  expect(reports.at(-1)).toBe(1);
  expect(reports).toEqual([...reports].sort((a, b) => a - b));
});

test.each([{ worker: true }, { workers: 2 }])('in workers: %o', async (how) => {
  using model = await heed.fromPretrained(tinyModel('bert'), how);
  const wanted = expected.cases.find(({ folder }) => folder === 'bert')!;
  const grid = await patchGrid(model, { clean, corrupted, metric, over: 'heads' });
  expectClose(grid, matrixOf(wanted.grids.heads));
  const layers = await logitLens(model, clean, { topK: 1 });
  expect(layers.map((tokens) => tokens.map(([word]) => word!.token))).toEqual(
    wanted.logitLens!.map((tokens) => tokens.map(([word]) => word![0])),
  );
});

test('signals stop the calls between runs', async () => {
  const model = await modelOf('bert');
  const stop = new AbortController();
  const options = { signal: stop.signal, onProgress: () => stop.abort() };
  const grid = patchGrid(model, { clean, corrupted, metric, over: 'heads', ...options });
  await expect(grid).rejects.toMatchObject({ name: 'AbortError' });
  await expect(logitLens(model, 'a fox', { signal: AbortSignal.abort() })).rejects.toMatchObject({
    name: 'AbortError',
  });
  await expect(rollout(model, 'a fox', { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'AbortError' });
  expect((await rollout(model, 'a fox')).shape).toEqual([4, 4]);
});

describe('bad input', () => {
  const options = { clean: 'a fox', corrupted: 'the fox', over: 'heads', metric };
  const bad: [string, object, string, string][] = [
    ['texts of other lengths', { corrupted: 'the quick fox' }, 'SHAPE_MISMATCH', 'corrupted: expected 4 tokens'],
    ['two texts', { clean: ['a', 'the'] }, 'INVALID_ARGUMENT', 'patchGrid.clean: expected one text'],
    ['no text', { clean: undefined }, 'INVALID_ARGUMENT', 'expected a string'],
    ['an unknown kind', { over: 'head' }, 'INVALID_ARGUMENT', "nearest: 'heads'"],
    ['no metric', { metric: undefined }, 'INVALID_ARGUMENT', 'patchGrid.metric: expected a function'],
    ['an unknown option', { layers: 3 }, 'INVALID_ARGUMENT', "unknown option 'layers'"],
    ['an unknown head', { head: 'masks' }, 'INVALID_ARGUMENT', 'patchGrid.head'],
    [
      'a metric that returns a tensor',
      { metric: (r: { lastHiddenState: Tensor }) => r.lastHiddenState },
      'INVALID_ARGUMENT',
      'a function that returns a number, got a tensor',
    ],
    ['a metric that returns a promise', { metric: async () => 1 }, 'INVALID_ARGUMENT', 'got a Promise'],
  ];
  test.each(bad)('%s', async (_, more, code, message) => {
    const model = await modelOf('bert');
    await expect(patchGrid(model, { ...options, ...more } as never)).rejects.toMatchObject({
      name: 'HeedError',
      code,
      message: expect.stringContaining(message),
    });
    expect((await model.embed('a fox')).shape).toEqual([1, 24]);
  });

  test('what a metric throws is the cause', async () => {
    const cause = new Error('mine');
    const thrown = () => {
      throw cause;
    };
    const grid = patchGrid(await modelOf('bert'), { ...options, over: 'heads', metric: thrown });
    await expect(grid).rejects.toMatchObject({ name: 'HeedError', cause });
  });

  test('no model, no head, no words', async () => {
    for (const call of [rollout, logitLens])
      await expect(call(null as never, 'x')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(logitLens(await modelOf('nomic_bert'), 'x')).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    using bare = await heed.fromPretrained(join(fixtures, 'bert'));
    await expect(logitLens(bare, clean)).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    await expect(logitLens(await modelOf('bert'), 'x', { topK: 0 })).rejects.toMatchObject({
      message: expect.stringContaining('topK'),
    });
  });
});
