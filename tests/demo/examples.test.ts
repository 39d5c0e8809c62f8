/** What “See”, “Meaning” and “Inside” open with holds for the bundled model. If it changes, choose other examples in demo/src/pages/meaning/examples.ts. */
import { fileURLToPath } from 'node:url';
import { type Heed, load, type PretrainedModel, semanticSearch, similarity, TextIndex } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type DescribedHead, describeHeads, type SenseView, viewSense } from '../../demo/src/engine/senses';
import { passagesOf } from '../../demo/src/pages/meaning/document/passages';
import { answers, sampleText } from '../../demo/src/pages/meaning/document/sample';
import { connected, descriptions, sentences, shownHead } from '../../demo/src/pages/meaning/examples';
import measured from '../../demo/src/pages/see/measured.json';
import { words } from '../../demo/src/pages/see/words';
import { nearestWords } from '../../examples/support/answers.mjs';

const described = measured.described as DescribedHead[];

let heed: Heed;
let model: PretrainedModel;
beforeAll(async () => {
  heed = await load();
  model = await heed.fromPretrained();
});
afterAll(() => heed?.dispose());

describe('the first page', () => {
  // The numbers are rounded to thousandths, and builds of the module differ in the last bits.
  const within = 0.0021;

  it('has measured numbers of this model: if not, run node demo/measure.mjs', async () => {
    const { numLayers, numHeads, embedDim } = model.config;
    expect([measured.layers, measured.heads, measured.width]).toEqual([numLayers, numHeads, embedDim]);
    expect(measured.views.map(({ word }) => word)).toEqual(words.map(({ word }) => word));
    for (const [i, { word, sentences }] of words.entries()) {
      const shown = measured.views[i]!;
      const view = (await viewSense(model, sentences, word, described)) as SenseView;
      const near = (found: number[], expected: number[]) => {
        expect(found.length).toBe(expected.length);
        for (const [j, value] of found.entries()) expect(Math.abs(value - expected[j]!), word).toBeLessThan(within);
      };
      expect(view.word).toBe(word);
      near([...shown.cosines, shown.similarity], [...view.cosines, view.similarity]);
      for (const [side, occurrence] of view.pair.entries()) {
        const built = shown.pair[side]!;
        expect([built.tokens, built.at]).toEqual([occurrence.tokens, occurrence.at]);
        near(built.input, occurrence.input);
        near(built.output, occurrence.output);
        for (const { kind } of described) near(built.rows[kind], occurrence.rows[kind]!);
      }
    }
  });

  it('describes the heads that do most of what is said', async () => {
    const examples = words.flatMap(({ word, sentences }) => sentences.map((sentence) => ({ sentence, word })));
    const found = await describeHeads(model, examples);
    for (const [i, { kind, share }] of found.entries()) {
      expect(described[i]!.kind).toBe(kind);
      expect(Math.abs(described[i]!.share - share)).toBeLessThan(within);
    }
  });
});

describe('“Meaning” and “Inside” open with examples that hold', () => {
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
    const all = offered('');
    expect(all).toContain('happy');
    expect(offered('Happy, or so').slice(0, 4)).toEqual(all.filter((word) => word !== 'happy'));
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
