/** Zero-shot classification. Expected values: PyTorch's, by tests/fixtures/models/zero_shot.py. */
import { readFileSync } from 'node:fs';
import { load, type PretrainedModel, pipeline, Tensor, zeroShotClassify } from 'heed';
import { expect, test } from 'vitest';
import { tinyModel } from './tiny.js';

const heed = await load();
const golden = JSON.parse(readFileSync(new URL('../../fixtures/models/zero-shot.json', import.meta.url), 'utf8'));
const labels = ['travel', 'cooking', 'dancing', 'a {} b'];

/** A fake model with these labels and logits, which records its calls. */
function fake(names: string[], calls: unknown[] = []) {
  return {
    config: { labels: names },
    predict: async (...call: unknown[]) => {
      calls.push(call);
      return { logits: new Tensor(Float32Array.from(golden.logits.flat(2)), [8, 3]) };
    },
  } as unknown as PretrainedModel;
}

const cases = golden.cases as { names: string[]; multiLabel: boolean; order: number[][]; scores: number[][] }[];
test.each(cases)('labels $names, multiLabel $multiLabel', async ({ names, multiLabel, order, scores }) => {
  const calls: unknown[] = [];
  const found = await zeroShotClassify(fake(names, calls), ['one', 'two'], labels, { multiLabel });
  expect(found.map((list) => list.map(({ label }) => label))).toEqual(order.map((row) => row.map((i) => labels[i])));
  found.forEach((list, n) => {
    list.forEach(({ score }, i) => {
      expect(score).toBeCloseTo(scores[n]![i]!, 5);
    });
  });
  const textPairs = labels.map((label) => `This example is ${label}.`);
  expect(calls).toEqual([
    [
      'sequence-classification',
      [...labels.map(() => 'one'), ...labels.map(() => 'two')],
      { textPairs: [...textPairs, ...textPairs] },
    ],
  ]);
});

/** The tiny model with the labels of natural language inference. */
const folder = () => {
  const files = tinyModel();
  const config = JSON.parse(new TextDecoder().decode(files['config.json'] as Uint8Array));
  const id2label = { 0: 'contradiction', 1: 'neutral', 2: 'entailment' };
  return { ...files, 'config.json': JSON.stringify({ ...config, id2label }) };
};

test("pipeline has transformers.js's arguments and results", async () => {
  using classify = await pipeline('zero-shot-classification', folder());
  const one = await classify('the fox', ['x', 'y'], { hypothesis_template: 'a {}', multi_label: true });
  expect(one).toEqual({ sequence: 'the fox', labels: expect.any(Array), scores: expect.any(Array) });
  expect([...one.labels].sort()).toEqual(['x', 'y']);
  expect(one.scores[0]).toBeGreaterThanOrEqual(one.scores[1]!);
  // The softmax over contradiction and entailment, computed from the logits.
  const { logits } = await classify.model.predict('sequence-classification', 'the fox', {
    textPairs: `a ${one.labels[0]}`,
  });
  const [contradiction, , entailment] = logits.data;
  expect(one.scores[0]).toBeCloseTo(1 / (1 + Math.exp(contradiction! - entailment!)), 5);
  const several = await classify(['the fox', 'a'], 'x');
  expect(several.map(({ sequence, labels }) => [sequence, labels])).toEqual([
    ['the fox', ['x']],
    ['a', ['x']],
  ]);
  expect(several[0]!.scores[0]).toBeLessThan(1); // one label: against contradiction
  const sum = (await classify('the fox', ['x', 'y', 'z'])).scores.reduce((a, b) => a + b);
  expect(sum).toBeCloseTo(1, 5);
  await expect(classify('a', ['x'], { hypothesisTemplate: '{}' } as object)).rejects.toThrow(
    "got the unknown option 'hypothesisTemplate'",
  );
});

test('says what is wrong', async () => {
  using model = await heed.fromPretrained(tinyModel());
  for (const [call, code, message] of [
    [
      () => zeroShotClassify(model, 'a', ['x']),
      'UNSUPPORTED',
      "model: expected a head with a label 'entailment', got labels low, middle, high. Load a model that was trained on natural language inference (NLI)",
    ],
    [
      () => zeroShotClassify(fake(['entailment']), 'a', []),
      'INVALID_ARGUMENT',
      'labels: expected at least one label, got none',
    ],
    [
      () => zeroShotClassify(fake(['entailment']), 'a', 'x', { hypothesisTemplate: 'a' }),
      'INVALID_ARGUMENT',
      "zeroShotClassify.hypothesisTemplate: expected a text with '{}' in place of the label, got 'a'",
    ],
  ] as const)
    await expect(call()).rejects.toMatchObject({ name: 'HeedError', code, message });
});
