/** What the page “Your text” opens with holds for the bundled model. If it changes, choose other examples in demo/src/pages/text/examples.ts. */
import { fileURLToPath } from 'node:url';
import { type Heed, load, type PretrainedModel, semanticSearch, similarity, TextIndex } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as opening from '../../demo/src/pages/start/opening';
import { passagesOf } from '../../demo/src/pages/text/document/passages';
import { answers, sampleText } from '../../demo/src/pages/text/document/sample';
import { connected, descriptions, sentences, shownHead } from '../../demo/src/pages/text/examples';
import { nearestWords } from '../../examples/support/answers.mjs';

let heed: Heed;
let model: PretrainedModel;
beforeAll(async () => {
  heed = await load();
  model = await heed.fromPretrained();
});
afterAll(() => heed?.dispose());

describe('the first page', () => {
  const bank = 'bank';

  it('opens with the weights of the model', async () => {
    const { attentions, tokens } = await model.encode([opening.sentence], { outputAttentions: true });
    expect(tokens[0]).toEqual(opening.tokens);
    expect(tokens[0]![opening.shown.token]).toBe(bank);
    const rows = attentions![opening.shown.layer]!.toArray<number[][][][]>()[0]![opening.shown.head]!;
    rows.forEach((row, i) =>
      row.forEach((weight, j) => expect(Math.abs(weight - opening.thousandths[i]![j]! / 1000)).toBeLessThan(0.0011)),
    );
    const row = rows[opening.shown.token]!;
    expect(opening.tokens[row.indexOf(Math.max(...row))]).toBe('lent');
  });

  it.each(opening.others)('in “$sentence”, “bank” attends most to “$most”', async ({ sentence, most }) => {
    const { attentions, tokens } = await model.encode([sentence], { outputAttentions: true });
    const rows = attentions![opening.shown.layer]!.toArray<number[][][][]>()[0]![opening.shown.head]!;
    const row = rows[tokens[0]!.indexOf(bank)]!;
    expect(tokens[0]![row.indexOf(Math.max(...row))]).toBe(most);
  });
});

describe('the page “Your text” opens with examples that hold', () => {
  it.each(descriptions)('the reverse dictionary finds “%s” first: %s', async (description, word) => {
    const index = await TextIndex.load(fileURLToPath(new URL('../../web/model/dictionary', import.meta.url)));
    const { dimensions } = index;
    const query = await model.embed([description], { dimensions, normalize: true });
    expect(nearestWords(index, description, query, 3)[0]!.text).toBe(word);
  });

  it('the reverse dictionary does not offer the words of the description', async () => {
    const index = await TextIndex.load(fileURLToPath(new URL('../../web/model/dictionary', import.meta.url)));
    const query = await model.embed('Happy', { dimensions: index.dimensions, normalize: true });
    const offered = (description: string) => nearestWords(index, description, query, 5).map(({ text }) => text);
    const [first, ...others] = offered('');
    expect(first).toBe('happy');
    expect(offered('Happy, or so').slice(0, 4)).toEqual(others);
  });

  it('each question finds its passage in the document first', async () => {
    const all = [...passagesOf(sampleText)];
    const of = all.flatMap((passage, i) => passage.map(() => i));
    const vectors = await model.embed(all.flat(), { normalize: true });
    for (const [question, answer] of answers) {
      const [hits] = semanticSearch(await model.embed([question], { normalize: true }), vectors, { topK: 1 });
      expect(all[of[hits![0]!.index]!]!.join(' '), question).toContain(answer);
    }
  });

  it('sentences about the same are more similar than two with the same word', async () => {
    const vectors = await model.embed(sentences, { normalize: true });
    const cosine = similarity(vectors).toArray<number[][]>();
    const [bank, walk, , boat] = cosine as [number[], number[], number[], number[]];
    expect(bank[2]).toBeGreaterThan(bank[1]!);
    expect(walk[3]).toBeGreaterThan(walk[0]!);
    expect(Math.max(...boat.slice(0, 3))).toBe(boat[1]);
  });

  it('in the head that is shown, a word of the first sentence attends most to another', async () => {
    const { attentions, tokens } = await model.encode([sentences[0]!], { outputAttentions: true });
    const [heads] = attentions![shownHead.layer]!.toArray<number[][][][]>();
    const rows = heads![shownHead.head]!;
    const [one, other] = connected.map((word) => tokens[0]!.indexOf(word)) as [number, number];
    expect(shownHead.token).toBe(one);
    expect(rows[one]!.indexOf(Math.max(...rows[one]!))).toBe(other);
    expect(rows[one]![other]).toBeGreaterThan(0.35);
  });
});
