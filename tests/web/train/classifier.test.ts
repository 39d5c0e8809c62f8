/** Training a classifier on frozen vectors of the bundled model. */
import { evaluateClassifier } from 'heed/evaluation';
import { type ClassifierExample, classify, load, type PretrainedModel, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { measure } from '../../../web/src/evaluation/classification.js';
import { predictedLabels } from '../../../web/src/evaluation/classifier.js';
import { tinyModel } from '../models/tiny.js';

const words = {
  animal: 'cat dog horse lion tiger wolf bear fox rabbit mouse elephant giraffe zebra deer goat sheep',
  fruit:
    'apple pear plum cherry grape banana orange lemon peach apricot mango melon fig date kiwi raspberry strawberry',
  instrument:
    'violin trumpet drum flute piano guitar harp cello oboe clarinet tuba banjo organ lute horn viola bassoon',
};
const examples = Object.entries(words).flatMap(([label, list]) => list.split(' ').map((text) => ({ text, label })));

let heed: TrainingHeed;
let model: PretrainedModel;
beforeAll(async () => {
  heed = await load();
  model = await heed.fromPretrained();
});

const train = (given: unknown, options?: object) =>
  heed.trainClassifier(model, given as ClassifierExample[], options as never);

describe('trainClassifier', () => {
  it('learns labels, which predict and classify then use', async () => {
    const seen: { step: number; steps: number; epoch: number; loss: number; accuracy: number }[] = [];
    const before = await model.embed(['a ripe melon']);
    const result = await train(examples, {
      validation: 0.25,
      seed: 1,
      onStep: (progress: never) => seen.push(progress),
    });
    expect(result.labels).toEqual(['animal', 'fruit', 'instrument']);
    expect(model.config).toMatchObject({ labels: result.labels, problemType: 'single_label_classification' });
    expect(result).toMatchObject({ head: 'sentence', truncated: 0 });
    // A quarter of each label, rounded: 4 of 16, 4 of 17, 4 of 17. Then 38 examples, 16 at a time.
    expect(result.validation).toMatchObject({
      count: 12,
      labels: result.labels.map((label) => ({ label, support: 4 })),
    });
    expect(result.validation!.accuracy).toBeGreaterThan(0.5);
    expect(seen).toHaveLength(100 * 3);
    expect(seen.at(-1)).toMatchObject({ step: 300, steps: 300, epoch: 99, accuracy: 1 });
    expect(result.history.loss).toHaveLength(100);
    expect(result.history.validation).toHaveLength(100);
    expect(result.history.loss.at(-1)).toBeLessThan(0.4);
    const labels = await classify(model, ['a ripe melon', 'a saxophone'], { topK: 1 });
    expect(labels.flat().map(({ label }) => label)).toEqual(['fruit', 'instrument']);
    expect((await model.embed(['a ripe melon'])).data).toEqual(before.data);
  });

  it('has a bias without weight decay, which learns how frequent the labels are', async () => {
    const tiny = await heed.fromPretrained(tinyModel());
    const words = ['x', 'y', 'z', 'fox', 'quick', 'brown', 'the', 'a'];
    const given = Array.from({ length: 40 }, (_, i) => ({
      text: `${words[i % 8]} ${words[Math.floor(i / 8)]}`,
      label: i % 10 === 3 ? 'rare' : 'frequent',
    }));
    // The weights decay to nearly nothing, so that the scores are those of the bias: the logarithms of the frequencies.
    await heed.trainClassifier(tiny, given, { weightDecay: 95, epochs: 150, seed: 1, head: 'sentence' });
    const [scores] = await classify(tiny, ['x fox']);
    expect(scores!.find(({ label }) => label === 'rare')!.score).toBeCloseTo(0.1, 1);
  });

  it('computes logits that are a linear layer of the vectors', async () => {
    await train(examples, { seed: 1, epochs: 5 });
    const texts = ['a cat', 'a pear', 'a violin and a long text about something else'];
    const { logits } = await model.predict('sequence-classification', texts);
    const one = await model.predict('sequence-classification', texts[2]!);
    expect(logits.shape).toEqual([3, 3]);
    expect(one.logits.data).toEqual(logits.data.slice(6));
    const metrics = await evaluateClassifier(model, examples);
    expect(metrics.count).toBe(50);
    expect(metrics.confusionMatrix!.flat().reduce((a, b) => a + b)).toBe(50);
  });

  it('is measured by a function of heed/evaluation, which the former method names', async () => {
    const { evaluateClassifier } = heed as unknown as { evaluateClassifier(): Promise<never> };
    const error = { code: 'UNSUPPORTED', message: expect.stringContaining("'heed/evaluation'") };
    await expect(evaluateClassifier()).rejects.toMatchObject(error);
  });

  it('has the same result for the same seed', async () => {
    const logits = async (seed: number) => {
      const { history } = await train(examples, { seed, epochs: 3, validation: 0.2 });
      return [history, (await model.predict('sequence-classification', 'a goat')).logits.data] as const;
    };
    const [first, again, other] = [await logits(1), await logits(1), await logits(2)];
    expect(again).toEqual(first);
    expect(other).not.toEqual(first);
  });

  it('learns several labels per text', async () => {
    const given = examples.map(({ text, label }) => ({
      text,
      labels: label === 'animal' ? ['alive', label] : label === 'fruit' ? ['alive', 'edible'] : [],
    }));
    const { labels, validation } = await train(given, { seed: 1, validation: given.slice(0, 3) });
    expect(labels).toEqual(['alive', 'animal', 'edible']);
    expect(validation).toMatchObject({ count: 3, accuracy: 1, confusionMatrix: null });
    expect(model.config.problemType).toBe('multi_label_classification');
    const [scores] = await classify(model, 'a ripe melon');
    const alive = scores!.find(({ label }) => label === 'alive')!.score;
    const edible = scores!.find(({ label }) => label === 'edible')!.score;
    expect(alive + edible).toBeGreaterThan(1); // scores are sigmoids
    expect((await evaluateClassifier(model, given)).accuracy).toBeGreaterThan(0.8);
  });

  it('learns pairs of texts', async () => {
    const tiny = await heed.fromPretrained(tinyModel());
    const pairs = ['x', 'y', 'z'].flatMap((text) =>
      ['x', 'y', 'z'].map((pair) => ({ text, pair, label: pair === 'x' ? 'yes' : 'no' })),
    );
    const { labels } = await heed.trainClassifier(tiny, pairs, { seed: 1, head: 'sentence', epochs: 200 });
    const { logits } = await tiny.predict('sequence-classification', ['x', 'x'], { textPairs: ['x', 'y'] });
    expect(labels).toEqual(['no', 'yes']);
    expect(predictedLabels(logits, false)).toEqual([[1], [0]]);
    expect((await evaluateClassifier(tiny, pairs)).accuracy).toBe(1);
  });

  it('trains the head of the family if the checkpoint has one', async () => {
    const tiny = await heed.fromPretrained(tinyModel());
    const own = ['x', 'y', 'z'].map((text, i) => ({ text, label: tiny.config.labels[i] ?? `LABEL_${i}` }));
    const { head } = await heed.trainClassifier(tiny, own, { seed: 1, head: 'family', epochs: 100 });
    expect(head).toBe('family');
    expect((await evaluateClassifier(tiny, own)).accuracy).toBe(1);
    await expect(train(examples, { head: 'family' })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining("its family's classifier"),
    });
  });

  it('trains a classifier on a q8 model', async () => {
    const quantized = await heed.fromPretrained(undefined, { dtype: 'q8' });
    await heed.trainClassifier(quantized, examples, { seed: 1 });
    expect((await evaluateClassifier(quantized, examples)).accuracy).toBeGreaterThan(0.9);
  });

  it('stops early with the best epoch', async () => {
    const { history } = await train(examples, { seed: 3, lr: 1, validation: 0.3, earlyStopping: { patience: 2 } });
    const best = history.validation!.indexOf(Math.min(...history.validation!));
    expect(history.best).toBe(best);
    expect(history.loss).toHaveLength(best + 3);
  });

  it('weighs labels', async () => {
    const few = [...examples.filter(({ label }) => label === 'fruit'), ...examples.slice(0, 2)];
    const scoreOf = async (classWeight?: object | string) => {
      await train(few, { seed: 1, epochs: 10, ...(classWeight && { classWeight }) });
      const scores = await classify(model, 'a giraffe');
      return scores[0]!.find(({ label }) => label === 'animal')!.score;
    };
    const plain = await scoreOf();
    expect(await scoreOf('balanced')).toBeGreaterThan(plain);
    expect(await scoreOf({ animal: 0.01 })).toBeLessThan(plain);
  });

  it('keeps the classifier of the last whole step when it is stopped', async () => {
    await train(examples, { seed: 1, epochs: 4 });
    const expected = (await model.predict('sequence-classification', 'a goat')).logits.data;
    const stop = new AbortController();
    const onStep = ({ step }: { step: number }) => step === 16 && stop.abort(new Error('enough'));
    await expect(train(examples, { seed: 1, signal: stop.signal, onStep })).rejects.toThrow('enough');
    expect((await model.predict('sequence-classification', 'a goat')).logits.data).toEqual(expected);
  });

  it.each([
    ['one label only', [{ text: 'a', label: 'x' }], {}, "at least 2 labels, got 'x'"],
    ['no examples', [], {}, 'at least one example'],
    ['an empty text', [{ text: ' ', label: 'x' }], {}, 'examples[0].text: expected a text that is not empty'],
    [
      'a text with two labels',
      [...examples, { text: 'pear', label: 'animal' }],
      {},
      "examples[50]: expected 'fruit', as for the same text at [17], got 'animal' for 'pear'",
    ],
    [
      'a label with one example, with validation',
      [...examples, { text: 'car', label: 'vehicle' }],
      { validation: 0.2 },
      "got one example of 'vehicle'",
    ],
    ['both forms of labels', [...examples, { text: 'a', labels: [] }], {}, 'examples[50]: expected `label`'],
    ['no label', [{ text: 'a' }], {}, 'either `label` or `labels`, got none'],
    ['one pair', [...examples, { text: 'a', pair: 'b', label: 'fruit' }], {}, 'examples[50].pair: expected undefined'],
    ['an unknown label in the validation', examples, { validation: [{ text: 'a', label: 'q' }] }, "got 'q'"],
    ['a weight for no label', examples, { classWeight: { frut: 2 } }, "got 'frut'"],
    ['an unknown option', examples, { epoch: 2 }, "'epochs'"],
  ])('refuses %s', async (_, given, options, message) => {
    await expect(train(given, options)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    });
  });

  it('refuses models of others, disposed ones, and a second training at once', async () => {
    const other = await load();
    using stranger = await other.fromPretrained();
    await expect(heed.trainClassifier(stranger, examples)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    const gone = await heed.fromPretrained();
    gone.dispose();
    await expect(heed.trainClassifier(gone, examples)).rejects.toMatchObject({ code: 'DISPOSED' });
    const busy = await heed.fromPretrained();
    const first = heed.trainClassifier(busy, examples, { seed: 1, epochs: 2 });
    await expect(heed.trainClassifier(busy, examples)).rejects.toThrow('the model is being trained');
    await first;
    const ends = heed.trainClassifier(busy, examples, { onStep: () => busy.dispose() });
    await expect(ends).rejects.toMatchObject({ code: 'DISPOSED' });
    other.dispose();
  });
});

describe('metrics', () => {
  it("are scikit-learn's", () => {
    // sklearn.metrics: accuracy_score 0.6, f1_score(average='macro') 0.4889, confusion_matrix
    const metrics = measure(['a', 'b', 'c', 'd'], [[0], [0], [1], [2], [2]], [[0], [1], [1], [2], [1]], false);
    expect(metrics.accuracy).toBeCloseTo(0.6, 12);
    expect(metrics.labels[1]).toEqual({ label: 'b', precision: 1 / 3, recall: 1, f1: 0.5, support: 1 });
    expect(metrics.macroF1).toBeCloseTo((2 / 3 + 1 / 2 + 2 / 3) / 3, 12); // d neither occurs nor is predicted
    expect(metrics.confusionMatrix).toEqual([
      [1, 1, 0, 0],
      [0, 1, 0, 0],
      [0, 1, 1, 0],
      [0, 0, 0, 0],
    ]);
  });

  it('count a text with several labels as right if all of them are', () => {
    const metrics = measure(['a', 'b'], [[0, 1], [0], []], [[0, 1], [0, 1], []], true);
    expect(metrics.accuracy).toBeCloseTo(2 / 3, 12);
    expect(metrics.labels.map(({ f1 }) => f1)).toEqual([1, 2 / 3]);
    expect(metrics.confusionMatrix).toBeNull();
  });
});
