/** What the examples of the page “Lens” say holds for the bundled model. If it changes, choose others in demo/src/pages/lens/presets.ts. */
import { type Heed, load, type PretrainedModel } from 'heed';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { headEffects, patched, similarityWithout, steer } from '../../demo/src/pages/lens/compute';
import { examples } from '../../demo/src/pages/lens/presets';

let heed: Heed;
let model: PretrainedModel;
beforeAll(async () => {
  heed = await load();
  model = await heed.fromPretrained();
});
afterAll(() => heed?.dispose());

const textsOf = (wanted: string): [string, string] => {
  const { first, second } = examples.find(({ id }) => id === wanted)!;
  return [first, second];
};

it('one head brings opposite judgements closest', async () => {
  const texts = textsOf('not');
  const plain = await similarityWithout(model, texts, []);
  expect(plain).toBeGreaterThan(0.8);
  const effects = await headEffects(model, texts);
  expect(effects[1]![6]).toBeLessThan(-0.05);
  const most = Math.max(...effects.flat().map(Math.abs));
  expect(Math.abs(effects[1]![6]!)).toBe(most);
  expect(await similarityWithout(model, texts, ['1.6'])).toBeCloseTo(plain + effects[1]![6]!, 5);
});

it('one other word is carried by its position alone', async () => {
  const { columns, values, unpatched } = (await patched(model, textsOf('one-word'), 'positions'))!;
  const at = columns.indexOf('cat');
  for (const row of values) {
    expect(row[at]).toBeGreaterThan(0.99);
    for (const [i, value] of row.entries()) if (i !== at) expect(Math.abs(value - unpatched)).toBeLessThan(0.01);
  }
});

it('the order of words hardly matters', async () => {
  const texts = textsOf('order');
  expect(await similarityWithout(model, texts, [])).toBeGreaterThan(0.99);
  const effects = await headEffects(model, texts);
  expect(Math.max(...effects.flat().map(Math.abs))).toBeLessThan(0.002);
});

it('steering moves a text from one end to the other', async () => {
  const [from, to] = ['cold winter snow', 'hot summer sun'];
  const at = (strength: number) => steer(model, { text: 'We talked about the weather.', from, to, strength });
  const [back, forth] = [await at(-1), await at(1)];
  expect(back.from).toBeGreaterThan(back.to);
  expect(forth.to).toBeGreaterThan(forth.from);
});

it('texts of other lengths have no grid', async () => {
  expect(await patched(model, ['a fox', 'the quick fox'], 'blocks')).toBeNull();
});
