/** What the examples of the page “Lens” say holds for the bundled model. If it changes, choose others in demo/src/pages/inside/lens/presets.ts. Other models: what the page follows is what the library says. */
import { classify, fillMask, type Heed, load, type PretrainedModel, type Tensor } from 'heed';
import { patchGrid } from 'heed/lens';
import { load as loadTraining, type TrainingHeed } from 'heed/train';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Trainer } from '../../demo/src/engine/learning/trainer';
import { lensCode } from '../../demo/src/pages/code/lens';
import {
  candidatesWithout,
  type Grid,
  headEffects,
  patched,
  steer,
  switchedOff,
  wordsByLayer,
} from '../../demo/src/pages/inside/lens/compute';
import { type Measure, measuresOf, missing, type Pair } from '../../demo/src/pages/inside/lens/measures';
import { examples } from '../../demo/src/pages/inside/lens/presets';
import { tinyModel } from '../web/models/tiny';
import { initial } from './learning-settings';

let heed: Heed;
let model: PretrainedModel;
let tiny: PretrainedModel;
beforeAll(async () => {
  heed = await load();
  model = await heed.fromPretrained(undefined, { dtype: 'fp32' });
  tiny = await heed.fromPretrained(tinyModel());
});
afterAll(() => heed?.dispose());

const textsOf = (wanted: string): Pair => {
  const { first, second } = examples.find(({ id }) => id === wanted)!;
  return [first, second];
};
const similarityOf = async (texts: Pair, off: string[] = []) =>
  (await candidatesWithout(model, 'similarity', texts, off))[0]!.score;

/** The effects of all heads: [layers][heads]. */
async function effectsOf(of: PretrainedModel, measure: Measure, texts: Pair): Promise<number[][]> {
  const [best] = await candidatesWithout(of, measure, texts, []);
  const layers = Array.from({ length: of.config.numLayers }, (_, layer) => layer);
  return Promise.all(layers.map((layer) => headEffects(of, measure, texts, best!, layer)));
}
const largest = (rows: number[][]) => Math.max(...rows.flat().map(Math.abs));

describe('the bundled model', () => {
  it('one head keeps opposites apart', async () => {
    const texts = textsOf('full');
    const plain = await similarityOf(texts);
    expect(plain).toBeGreaterThan(0.8);
    const effects = await effectsOf(model, 'similarity', texts);
    expect(effects[5]![9]).toBeGreaterThan(0.08);
    expect(effects[5]![9]).toBe(largest(effects));
    expect(await similarityOf(texts, ['5.9'])).toBeCloseTo(plain + effects[5]![9]!, 5);
  });

  it('one other word is carried by its position alone', async () => {
    const { columns, values, unpatched } = (await patched(
      model,
      'similarity',
      textsOf('one-word'),
      'positions',
    )) as Grid;
    const at = columns.indexOf('cat');
    for (const row of values) {
      expect(row[at]).toBeGreaterThan(0.99);
      for (const [i, value] of row.entries()) if (i !== at) expect(Math.abs(value - unpatched)).toBeLessThan(0.01);
    }
  });

  it('the order of words hardly matters', async () => {
    const texts = textsOf('order');
    expect(await similarityOf(texts)).toBeGreaterThan(0.97);
    expect(largest(await effectsOf(model, 'similarity', texts))).toBeLessThan(0.005);
  });

  it('steering moves a text from one end to the other', async () => {
    const [from, to] = ['cold winter snow', 'hot summer sun'];
    const at = (strength: number) => steer(model, { text: 'We talked about the weather.', from, to, strength });
    const [back, forth] = [await at(-1), await at(1)];
    expect(back.from).toBeGreaterThan(back.to);
    expect(forth.to).toBeGreaterThan(forth.from);
  });

  it('has neither words nor labels; texts of other lengths have no grid', async () => {
    expect(await measuresOf(model)).toEqual(['similarity']);
    expect(await patched(model, 'similarity', ['a fox', 'the quick fox'], 'blocks')).toContain('different numbers');
  });
});

describe('a model with words and labels', () => {
  const texts: Pair = ['the quick [MASK] fox', 'a quick [MASK] fox'];

  it('has three measures', async () => {
    expect(await measuresOf(tiny)).toEqual(['similarity', 'word', 'label']);
    expect(missing(tiny, 'word', ['the fox', ''])).toContain('[MASK]');
    expect(missing(tiny, 'word', texts)).toBeNull();
    expect(missing(tiny, 'label', ['the fox', ''])).toBeNull();
  });

  it('the masked word’s candidates and the labels are those of the library, with and without heads', async () => {
    for (const off of [[], ['0.1', '2.2', '9.9', 'x']]) {
      const edit = switchedOff(tiny, off);
      expect(edit).toHaveLength(off.length ? 2 : 0);
      const [fillings] = await fillMask(tiny, texts[0], { edit });
      expect(await candidatesWithout(tiny, 'word', texts, off)).toEqual(
        fillings!.map(({ token, word, score }) => ({ id: token, name: word || `[${token}]`, score })),
      );
      const [labels] = await classify(tiny, texts[0], { edit, topK: 5 });
      expect(await candidatesWithout(tiny, 'label', texts, off)).toEqual(
        labels!.map(({ label, score }) => ({ id: tiny.config.labels.indexOf(label), name: label, score })),
      );
    }
  });

  it.each(['word', 'label'] as const)('each head’s effect on the %s is that of switching it off', async (measure) => {
    const [best] = await candidatesWithout(tiny, measure, texts, []);
    const effects = await effectsOf(tiny, measure, texts);
    expect(effects.map((row) => row.length)).toEqual([3, 3, 3]);
    for (const name of ['0.0', '1.2', '2.1']) {
      const [layer, head] = name.split('.').map(Number) as [number, number];
      const edit = switchedOff(tiny, [name]);
      const [fillings] = await fillMask(tiny, texts[0], { edit, topK: Infinity });
      const [labels] = await classify(tiny, texts[0], { edit });
      const score =
        measure === 'word'
          ? fillings!.find(({ token }) => token === best!.id)!.score
          : labels!.find(({ label }) => label === best!.name)!.score;
      expect(effects[layer]![head]).toBeCloseTo(score - best!.score, 5);
    }
  });

  it.each(['word', 'label'] as const)('patching everything of the %s gives the first text’s score', async (measure) => {
    const [best] = await candidatesWithout(tiny, measure, texts, []);
    const grid = (await patched(tiny, measure, texts, 'positions')) as Grid;
    expect(grid.name).toBe(best!.name);
    expect(grid.columns).toHaveLength(6);
    // The sentences differ in one position.
    expect(grid.values[0]![1]).toBeCloseTo(best!.score, 5);
    expect(grid.values[0]![2]).toBeCloseTo(grid.unpatched, 5);
    expect(await patched(tiny, 'word', [texts[0], 'a quick x fox'], 'heads')).toContain('[MASK]');
  });

  it.each(['word', 'label'] as const)('the code for the %s prints what the page shows', async (measure) => {
    const off = ['1.1'];
    const code = lensCode({
      source: './tiny/',
      dtype: 'fp32',
      measure,
      first: texts[0],
      second: texts[1],
      off,
      over: 'blocks',
    });
    expect(code).toContain("fromPretrained('./tiny/')");
    const printed: unknown[] = [];
    const run = Object.getPrototypeOf(async () => {}).constructor as new (
      ...args: string[]
    ) => (...given: unknown[]) => Promise<void>;
    const program = new run(
      'heed',
      'classify',
      'fillMask',
      'patchGrid',
      'console',
      code.replace(/^import.*$|^const heed.*$/gm, ''),
    );
    const fromPretrained = async () => tiny;
    await program({ softmax: (x: Tensor) => heed.softmax(x), fromPretrained }, classify, fillMask, patchGrid, {
      log: (value: unknown) => printed.push(value),
    });
    const wanted = await candidatesWithout(tiny, measure, texts, off);
    const scores = (printed[0] as unknown[][])
      .flat()
      .map((each) => (Array.isArray(each) ? each[1] : ((each as { score?: number }).score ?? each)));
    expect(scores).toEqual(expect.arrayContaining(wanted.map(({ score }) => score)));
    const { values } = (await patched(tiny, measure, texts, 'blocks')) as Grid;
    const grid = String(printed[1])
      .match(/-?\d+\.\d+/g)!
      .map(Number);
    values.flat().forEach((value, i) => expect(grid[i]).toBeCloseTo(value, 3));
  });

  it('the last layer’s words are the model’s', async () => {
    const { tokens, layers } = await wordsByLayer(tiny, texts[0]);
    expect(tokens).toContain('[MASK]');
    expect(layers).toHaveLength(4);
    const [best] = await candidatesWithout(tiny, 'word', texts, []);
    const last = layers.at(-1)![tokens.indexOf('[MASK]')]!;
    expect(last.id).toBe(best!.id);
    expect(last.score).toBeCloseTo(best!.score, 5);
  });
});

describe('the model of “Learning”', () => {
  let training: TrainingHeed;
  beforeAll(async () => {
    training = await loadTraining();
  });
  afterAll(() => training?.dispose());

  it('what the page says of its heads is true', () => {
    const trainer = new Trainer(training, { ...initial, task: 'reverse' });
    while (trainer.step < 200) trainer.train();
    const all = trainer.without([]);
    expect(all.answers).toEqual(trainer.snapshot().answers);
    expect(all.accuracy).toBe(all.whole);
    expect(all.whole).toBeGreaterThan(0.99);
    // What `trainedNotice` says.
    const [[first, second], [third, fourth]] = all.alone as [[number, number], [number, number]];
    expect(third).toBeLessThan(0.9);
    for (const other of [first, second, fourth]) expect(other).toBeGreaterThan(0.95);
    const off = trainer.without(['1.0', '1.1']);
    expect(off.accuracy).toBeLessThan(0.35);
    expect(off.alone).toEqual(all.alone);
    expect(trainer.without([]).answers).toEqual(all.answers);
    trainer.dispose();
  });
});
