/** Many examples, labels and classes: work grows linearly, the event loop has its turns, and signals are honoured. */
import { classificationMetrics, evaluateClassifier, informationRetrievalMetrics } from 'heed/evaluation';
import { describe, expect, it } from 'vitest';
import type { ExampleSet } from '../../../web/src/evaluation/labeled-examples.js';
import { rowBatches } from '../../../web/src/train/fine-tuning/embedding-batches.js';
import { split } from '../../../web/src/train/fine-tuning/examples.js';
import { heed } from './fit-support.js';
import { tiny } from './tiny-models.js';

/** The entries of arrays that `body` iterates over, such as those that it copies by `[...list]`. */
function entriesRead(body: () => unknown): number {
  const iterator = Object.getPrototypeOf([][Symbol.iterator]()) as { next: () => IteratorResult<unknown> };
  const { next } = iterator;
  let count = 0;
  iterator.next = function (this: never) {
    count++;
    return next.call(this);
  };
  try {
    body();
  } finally {
    iterator.next = next;
  }
  return count;
}

describe('grouping examples takes linear time', () => {
  const labels = (count: number) => Array.from({ length: count }, (_, i) => i % 2);

  it('when some are held out', () => {
    const splitting = (count: number) =>
      entriesRead(() => {
        const texts = labels(count).map((_, i) => `text ${i}`);
        const set: ExampleSet = {
          texts,
          textPairs: undefined,
          labels: labels(count).map((label) => [`label ${label}`]),
          isMultiLabel: false,
        };
        const { trained, held } = split(set, 0.1, 1, 'validation');
        expect(trained.length + held.length).toBe(count);
      });
    expect(splitting(8_000)).toBeLessThan(12 * splitting(1_000));
  });

  it('when labelled texts are batched', () => {
    const batching = (count: number) =>
      entriesRead(() => {
        const rows = { texts: labels(count).map((_, i) => [`text ${i}`]), labels: labels(count) };
        expect([...rowBatches(rows, 64, 1, 0)]).toHaveLength(Math.ceil(count / 64));
      });
    expect(batching(8_000)).toBeLessThan(12 * batching(1_000));
  });

  it('also for 300,000, which no call takes as arguments', () => {
    const count = 300_000;
    const texts = Array.from({ length: count }, () => 'x');
    const set = { texts, textPairs: undefined, labels: texts.map(() => ['a']), isMultiLabel: true };
    expect(split(set, 0.5, 1, 'validation').held).toHaveLength(count / 2);
  });
});

describe('reading many examples', () => {
  const count = 200_000;
  const texts = Array.from({ length: count }, (_, i) => ({ text: `text ${i}`, label: i % 2 ? 'a' : 'b' }));
  const pairs = Array.from({ length: count }, (_, i) => ({ a: `a ${i}`, b: `b ${i}` }));
  /** The last one is wrong, so that the call ends once all have been read. */
  const [wrongTexts, wrongPairs] = [
    [...texts.slice(1), { text: '', label: 'a' }],
    [...pairs.slice(1), { a: '', b: 'b' }],
  ];
  type Call = (signal?: AbortSignal) => Promise<unknown>;
  const calls: [string, Call][] = [
    ['trainClassifier', async (signal) => heed.trainClassifier(await model(), wrongTexts, options(signal))],
    ['trainEmbedding', async (signal) => heed.trainEmbedding(await model(), wrongPairs, options(signal))],
    ['trainEmbedding', async (signal) => heed.trainEmbedding(await model(), wrongTexts as never, options(signal))],
    ['evaluateClassifier', async (signal) => evaluateClassifier(await model(), wrongTexts, options(signal))],
  ];
  const options = (signal?: AbortSignal) => (signal ? { signal } : {});
  let made: ReturnType<typeof tiny> | undefined;
  const model = () => (made ??= tiny(heed));

  it.each(calls)('%s gives the event loop its turns (%#)', async (_, call) => {
    await heed.trainClassifier(await model(), [], {}).catch(() => {}); // its code has been loaded
    let [turns, isDone] = [0, false];
    const count = () => {
      turns++;
      if (!isDone) setImmediate(count);
    };
    const ended = call().catch((error: Error) => error);
    await model();
    setImmediate(count);
    expect((await ended) as Error).toMatchObject({ code: 'INVALID_ARGUMENT' });
    isDone = true;
    expect(turns).toBeGreaterThan(1);
  });

  it.each(calls)('%s ends when its signal fires (%#)', async (_, call) => {
    await heed.trainClassifier(await model(), [], {}).catch(() => {});
    const stop = new AbortController();
    const ended = call(stop.signal).catch((error: Error) => error);
    await model();
    setImmediate(() => stop.abort(new Error('enough')));
    expect(await ended).toMatchObject({ message: 'enough' });
  });

  it('a second training of the model is refused meanwhile', async () => {
    const stop = new AbortController();
    const one = await model();
    const first = heed.trainEmbedding(one, pairs, { signal: stop.signal });
    const ended = expect(first).rejects.toThrow('enough');
    await expect(heed.trainEmbedding(one, pairs.slice(0, 8))).rejects.toThrow('is being trained');
    stop.abort(new Error('enough'));
    await ended;
  });
});

describe('200,000 classes', () => {
  const count = 200_000;

  it('have an accuracy', async () => {
    const model = new heed.Sequential([new heed.Linear({ inFeatures: 1, outFeatures: count })], { seed: 1 });
    const { data } = model.eval().forward([[1]]);
    let best = 0;
    for (const [i, value] of data.entries()) if (value > data[best]!) best = i;
    const options = { metrics: ['accuracy'] } as const;
    expect(await model.evaluate({ inputs: [[1]], labels: [best] }, options)).toEqual({ metrics: { accuracy: 1 } });
    expect((await model.evaluate({ inputs: [[1]], labels: [best + 1] }, options)).metrics.accuracy).toBe(0);
  });

  it('have metrics, without a confusion matrix', () => {
    const labels = Array.from({ length: count }, (_, i) => i);
    const metrics = classificationMetrics(labels, labels);
    expect(metrics).toMatchObject({ count, accuracy: 1, macroF1: 1, confusionMatrix: null });
    const few = labels.slice(0, 4096);
    expect(classificationMetrics(few, few).confusionMatrix).toHaveLength(4096);
  });

  it('found and relevant documents have metrics', () => {
    const ids = Array.from({ length: count }, (_, i) => i);
    const cutoffs = [1, count];
    const found = informationRetrievalMetrics([ids], [ids], { mapAtK: cutoffs, precisionRecallAtK: cutoffs });
    expect([found.map[count], found.recall[count], found.precision[1]]).toEqual([1, 1, 1]);
  });
});

it('logits that are not numbers are no right predictions', async () => {
  const logarithms = new heed.Sequential([(x) => heed.log(x)]);
  const batches = [{ inputs: [[-1, 1]], labels: [0] }]; // NaN, 0
  expect((await logarithms.evaluate(batches, { metrics: ['accuracy'] })).metrics.accuracy).toBe(0);
});
