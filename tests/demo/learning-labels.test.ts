/** The page “Learning”, part “Teach it your labels”: reading examples, and the classifier beside `trainClassifier`. In Node. */

import { unzipSync } from 'fflate';
import { load as loadInference } from 'heed';
import { classify, load, type Savable, type TrainableModel, type TrainingHeed } from 'heed/train';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Teacher } from '../../demo/src/engine/learning/classifier';
import { checkExamples, moments, mostExamples, readExamples, recipe } from '../../demo/src/engine/learning/examples';
import { principalPlane, projectorOf } from '../../demo/src/engine/views';
import { samples } from '../../demo/src/pages/learning/labels/samples';

describe('examples', () => {
  const labels = (...rows: [text: string, label: string][]) => rows.map(([text, label]) => ({ text, label }));

  it('says what is missing', () => {
    expect(checkExamples([]).missing).toMatch(/Write some texts/);
    expect(checkExamples(labels(['a', 'x'], ['b', 'x'])).missing).toMatch(/“x”.*at least one other label/);
    expect(checkExamples(labels(['a', 'x'], ['b', 'y'])).missing).toBeNull();
  });

  it('leaves out what cannot be learned from, with a remark beside the field', () => {
    const { usable, positions, remarks } = checkExamples(
      labels(['a', 'x'], ['', 'x'], ['b', ' '], ['a', 'y'], ['a ', 'x'], ['', ''], ['c', 'y'], ['d', 'x']),
    );
    expect(usable.map(({ text }) => text)).toEqual(['a', 'c', 'd']);
    expect(positions).toEqual([0, 6, 7]);
    const remark = (about: string, message: RegExp, leftOut = true) => ({
      about,
      message: expect.stringMatching(message),
      leftOut,
    });
    expect(Object.fromEntries(remarks)).toEqual({
      1: remark('text', /Write a text/),
      2: remark('label', /Give the text a label/),
      3: remark('label', /Example 1 is the same text with the label “x”/),
      4: remark('text', /same as example 1/),
      6: remark('label', /only example of “y”/, false),
    });
  });

  it('takes labels that differ only in case for the same', () => {
    const { usable, remarks } = checkExamples(
      labels(['a', 'Food'], ['b', 'food'], ['c', 'FOOD'], ['d', 'x'], ['e', 'x']),
    );
    expect(usable.map(({ label }) => label)).toEqual(['Food', 'Food', 'Food', 'x', 'x']);
    expect([...remarks].map(([at, { message, leftOut }]) => [at, message, leftOut])).toEqual([
      [1, 'Counts as “Food”: only the case differs.', false],
      [2, 'Counts as “Food”: only the case differs.', false],
    ]);
  });

  it('learns from a limited number', () => {
    const many = Array.from({ length: mostExamples + 1 }, (_, i) => ({ text: `text ${i}`, label: `label ${i % 2}` }));
    const { usable, remarks } = checkExamples(many);
    expect(usable).toHaveLength(mostExamples);
    expect(remarks.get(mostExamples)?.leftOut).toBe(true);
  });

  it.each([
    ['a.csv', 'label,text\nx,"one, two"\ny,three\n'],
    ['a.csv', '"one, two",x\nthree,y\n'],
    ['a.csv', 'text;label\none, two;x\nthree;y\n'],
    ['a.csv', 'one, two;x\nthree;y\n'],
    ['a.tsv', 'text\tlabel\none, two\tx\nthree\ty\n'],
    ['a.txt', 'one, two\tx\nthree\ty\n'],
    ['a.jsonl', '{"text":"one, two","label":"x"}\n\n{"text":" three\\n","label":"y"}\n'],
    ['a.txt', '{"text":"one, two","label":"x"}\n{"text":"three","label":"y"}'],
  ])('reads %s: %j', async (name, contents) => {
    expect(await readExamples(name, contents)).toEqual(labels(['one, two', 'x'], ['three', 'y']));
  });

  it.each([
    ['a.jsonl', '{"text":"a"}', /Line 1 should have a “text” and a “label”/],
    ['a.jsonl', '{"text":"a","label":"x"}\nb', /Line 2 is not JSON/],
    ['a.csv', 'text,label\none', /Row 2 should have a text and a label/],
    ['a.csv', '"one,x', /not CSV/],
    ['a.csv', '', /no examples/],
  ])('refuses %s: %j', async (name, contents, message) => {
    await expect(readExamples(name, contents)).rejects.toThrow(message);
  });
});

describe('the classifier', () => {
  let heed: TrainingHeed;
  let model: TrainableModel & Savable;
  beforeAll(async () => {
    heed = await load();
    model = await heed.fromPretrained(undefined, { trainable: true, dropout: 0 });
  });
  afterAll(() => heed?.dispose());

  const [{ examples, test }] = samples as [(typeof samples)[number]];

  it('predicts what trainClassifier predicts, and for an example that is left out, what it does without it', async () => {
    const teacher = new Teacher(heed, model);
    const { labels, leftOut, logits, parts } = await teacher.teach(examples);
    expect(labels).toEqual(['cooking', 'money', 'travel']);
    expect(parts).toBe(examples.length);
    const tested = await teacher.test(test);
    const scores = async (texts: string[]) =>
      (await classify(model, texts, { topK: labels.length })).map((found) =>
        labels.map((label) => found.find((one) => one.label === label)!.score),
      );
    const options = { ...recipe, seed: 1 };
    await heed.trainClassifier(model, examples, { ...options, batchSize: examples.length });
    const [expected] = await scores([test]);
    for (const [i, probability] of tested.probabilities.entries()) expect(probability).toBeCloseTo(expected![i]!, 3);
    expect(logits).toHaveLength(examples.length);
    for (const left of [0, 13]) {
      const others = examples.filter((_, i) => i !== left);
      await heed.trainClassifier(model, others, { ...options, batchSize: others.length });
      const [without] = await scores([examples[left]!.text]);
      for (const [i, probability] of leftOut[left]!.probabilities.entries())
        expect(probability).toBeCloseTo(without![i]!, 3);
    }
  });

  it('keeps what a shorter training would have learned, from which the map shows the way', async () => {
    const teacher = new Teacher(heed, model);
    const { labels, logits, path } = await teacher.teach(examples);
    const tested = await teacher.test(test);
    expect(path).toHaveLength(moments.length);
    expect(path[0]!.flat().every((logit) => logit === 0)).toBe(true);
    expect(path.at(-1)).toEqual(logits);
    expect(tested.path.at(-1)).toEqual(tested.logits);
    for (const moment of [1, 10]) {
      const options = { ...recipe, epochs: moments[moment]!, batchSize: examples.length, seed: 1 };
      await heed.trainClassifier(model, examples, options);
      const texts = [examples[0]!.text, examples[17]!.text, test];
      const shown = [path[moment]![0]!, path[moment]![17]!, tested.path[moment]!];
      for (const [i, found] of (await classify(model, texts, { topK: labels.length })).entries()) {
        const powers = shown[i]!.map(Math.exp);
        const total = powers.reduce((sum, power) => sum + power);
        for (const { label, score } of found) expect(powers[labels.indexOf(label)]! / total).toBeCloseTo(score, 3);
      }
    }
  });

  it('does not test the only example of a label, and learns 50 examples in parts', async () => {
    const teacher = new Teacher(heed, model);
    const single = examples.slice(2, 7);
    const { leftOut } = await teacher.teach(single);
    expect(leftOut.map((one) => one === null)).toEqual([false, false, false, false, true]);
    const many = Array.from({ length: 60 }, (_, i) => ({
      ...examples[i % 18]!,
      text: `${examples[i % 18]!.text} ${i}`,
    }));
    const taught = await teacher.teach(many);
    expect(taught.parts).toBe(50);
    expect(taught.leftOut).toHaveLength(60);
  });

  it('reports texts that are cut', async () => {
    const teacher = new Teacher(heed, model);
    const { truncated } = await teacher.teach([
      ...examples.slice(4, 7),
      { text: 'word '.repeat(1000).trim(), label: 'cooking' },
    ]);
    expect(truncated).toEqual([3]);
  });

  it('reports texts of which the model knows nothing', async () => {
    const teacher = new Teacher(heed, model);
    const { unknown } = await teacher.teach([...examples.slice(4, 8), { text: '🜁 🜂', label: 'cooking' }]);
    expect(unknown).toEqual([4]);
    expect((await teacher.test('𓀀')).isUnknown).toBe(true);
    expect((await teacher.test(test)).isUnknown).toBe(false);
  });

  it('explains with gradients that agree with differences of the score', async () => {
    const teacher = new Teacher(heed, model);
    const { labels } = await teacher.teach(examples);
    const { label, tokens, scores } = await teacher.explain(test);
    expect(labels[label]).toBe('cooking');
    expect(tokens.slice(0, 2)).toEqual(['[CLS]', 'add']);
    expect(await teacher.explain(test)).toEqual({ label, tokens, scores }); // gradients do not add up
    // Along the word vector of a token: (score(+h) - score(-h)) / 2h.
    const state = model.stateDict();
    const { inputIds } = await model.tokenize([test]);
    const positions = state['embeddings.position_embeddings.weight']!;
    const words = state['embeddings.word_embeddings.weight']!.data;
    const width = positions.shape[1]!;
    const score = async (position: number, h: number) => {
      const data = positions.data.slice();
      for (let j = 0; j < width; j++) data[position * width + j]! += h * words[inputIds[0]![position]! * width + j]!;
      model.loadStateDict({ ...state, 'embeddings.position_embeddings.weight': { data, shape: positions.shape } });
      const [vector] = (await model.embed([test])).toArray() as number[][];
      const logits = teacher.logitsOf(vector!);
      return logits[label]! - logits.reduce((sum, logit) => sum + logit, 0) / logits.length;
    };
    const h = 0.02;
    for (const position of [1, 4, 8]) {
      const slope = ((await score(position, h)) - (await score(position, -h))) / (2 * h);
      expect(Math.abs(slope - scores[position]!)).toBeLessThan(0.02 * Math.max(...scores.map(Math.abs)));
    }
    model.loadStateDict(state);
  });

  it('saves a folder that heed opens, with the same classifier', async () => {
    const teacher = new Teacher(heed, model);
    await teacher.teach(examples);
    const { probabilities } = await teacher.test(test);
    const files = unzipSync(await teacher.save(examples));
    expect(Object.keys(files)).toEqual(expect.arrayContaining(['config.json', 'model.safetensors', 'tokenizer.json']));
    const opened = await heed.fromPretrained(files);
    const [found] = await classify(opened, [test], { topK: 3 });
    for (const { label, score } of found!)
      expect(score).toBeCloseTo(probabilities[['cooking', 'money', 'travel'].indexOf(label)]!, 2);
    opened.dispose();
    // The vectors that the page goes on using are the same as before.
    expect((await teacher.test(test)).probabilities).toEqual(probabilities);
  });

  it('the examples of the page are learned', async () => {
    for (const sample of samples) {
      const { labels, leftOut } = await new Teacher(heed, model).teach(sample.examples);
      const right = leftOut.filter((one, i) => labels[one!.label] === sample.examples[i]!.label).length;
      expect(right / sample.examples.length).toBeGreaterThan(0.7);
    }
  });
});

describe('the plane of the map', () => {
  it('keeps the distances of rows that lie in it, also of those that it was not found from', async () => {
    const heed = await loadInference();
    const [one, other] = [
      [0.6, 0, 0.8, 0],
      [0, -0.8, 0, 0.6],
    ] as const;
    const inPlane = ([x, y]: readonly number[]) => one.map((entry, i) => 3 + x! * entry + y! * other[i]!);
    const known = [
      [4, 1],
      [-3, 2],
      [1, -1.5],
      [-2, -1.5],
    ];
    const others = [
      [0.5, 0.25],
      [-7, 3],
      [2, 2],
    ];
    const rows = known.map(inPlane);
    const { points, kept } = principalPlane(heed, rows);
    expect(kept).toBeCloseTo(1, 5);
    const project = projectorOf(rows, points);
    for (const [i, row] of rows.entries())
      for (const axis of [0, 1]) expect(project(row)[axis]).toBeCloseTo(points[i]![axis]!, 4);
    const all = [...known, ...others];
    const projected = all.map((point) => project(inPlane(point)));
    for (const [i, [x, y]] of all.entries())
      for (const [j, [u, v]] of all.entries())
        expect(Math.hypot(projected[i]![0] - projected[j]![0], projected[i]![1] - projected[j]![1])).toBeCloseTo(
          Math.hypot(x! - u!, y! - v!),
          3,
        );
    heed.dispose();
  });
});
