/** What “See”, “Meaning” and “Inside” open with holds for the bundled model. If it changes, choose other examples in demo/src/pages/meaning/examples.ts. */
import { fileURLToPath } from 'node:url';
import { type Heed, load, type PretrainedModel, type SiteEdit, semanticSearch, similarity } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cosine, type DescribedHead, describeHeads, type HeadKind, isWord } from '../../demo/src/engine/senses';
import { nearest, trace, type Weights } from '../../demo/src/engine/stage';
import { passagesOf } from '../../demo/src/pages/meaning/document/passages';
import { answers, sampleText } from '../../demo/src/pages/meaning/document/sample';
import { connected, descriptions, sentences, shownHead } from '../../demo/src/pages/meaning/examples';
import { type Measured, readTrace, readWords } from '../../demo/src/pages/see/measured';
import measured from '../../demo/src/pages/see/measured.json';
import others from '../../demo/src/pages/see/others.json';
import { words } from '../../demo/src/pages/see/words';
import { nearestWords } from '../../examples/support/answers.mjs';

const examples = [...measured.examples, ...others.examples];
const described = measured.described as DescribedHead[];

let heed: Heed;
let model: PretrainedModel;
beforeAll(async () => {
  heed = await load();
  model = await heed.fromPretrained(undefined, { dtype: 'fp32' });
});
afterAll(() => heed?.dispose());

describe('the first page', () => {
  // Shares are rounded to percent, other numbers to thousandths, and builds of the module differ in the last bits.
  const within = 0.0021;
  const percent = 0.0051;
  const everyLayer = Array.from({ length: measured.layers }, (_, i) => i + 1);
  const known = new Map<string, Float32Array>();

  it('has measured numbers of this model: if not, run node demo/measure.mjs', async () => {
    const { numLayers, numHeads, embedDim, parameterCount } = model.config;
    expect([measured.layers, measured.heads, measured.width, measured.parameters]).toEqual([
      numLayers,
      numHeads,
      embedDim,
      parameterCount,
    ]);
    expect(examples.map(({ sentences }) => sentences.map(({ sentence }) => sentence))).toEqual(
      words.map(({ sentences }) => sentences),
    );
  });

  it.each(words)('has the words and weights of “$word”', async ({ word, control }) => {
    const built = examples[words.findIndex((each) => each.word === word)]!;
    const dictionary = await heed.TextIndex.load(fileURLToPath(new URL('../../web/model/dictionary', import.meta.url)));
    const vectors: Float32Array[][] = [];
    for (const shown of built.sentences as Measured[]) {
      const on = await trace(model, shown.sentence, [], described);
      const off = await trace(model, shown.sentence, everyLayer, described);
      const drawn = readTrace(shown);
      expect(drawn.tokens).toEqual(on.tokens);
      const at = on.tokens.indexOf(word);
      vectors.push(on.states![at]!);
      const same = async (text: string, token: string, states: Float32Array[]) =>
        expect(readWords(text), token).toEqual(await nearest(model, dictionary, known, token, states));
      for (const [i, token] of on.tokens.entries()) {
        if (shown.words[i]) await same(shown.words[i], token, on.states![i]!);
        else expect(isWord(token) && shown.means !== undefined).toBe(false);
      }
      await same(shown.without, word, off.states![at]!);
      const near = (found: Weights, expected: Weights) =>
        found.forEach((row, from) => {
          expect(row.length).toBe(isWord(on.tokens[from]!) ? on.tokens.length : 0);
          row.forEach((share, to) => expect(Math.abs(share - expected[from]![to]!)).toBeLessThan(percent));
        });
      const isControl = shown === built.sentences[2];
      expect(drawn.means.length).toBe(isControl ? 0 : measured.layers);
      expect(Object.keys(drawn.heads).length).toBe(isControl ? 0 : described.length);
      for (const [i, means] of drawn.means.entries()) near(means, on.means[i]!);
      for (const [kind, weights] of Object.entries(drawn.heads)) near(weights, on.heads[kind as HeadKind]!);
    }
    const cosines = (a: number, b: number) => vectors[a]!.map((vector, layer) => cosine(vector, vectors[b]![layer]!));
    const near = (found: number[], expected: number[]) => {
      expect(found.length).toBe(expected.length);
      for (const [i, value] of found.entries()) expect(Math.abs(value - expected[i]!)).toBeLessThan(within);
    };
    near(built.different, cosines(0, 1));
    near(built.same, cosines(control, 2));
    const { data } = await model.embed([...built.sentences.slice(0, 2).map(({ sentence }) => sentence)]);
    near([built.similarity], [cosine(data.subarray(0, measured.width), data.subarray(measured.width))]);
  });

  it.each(words)(
    '“$word” ends among other words in each meaning, and as it should in the control',
    ({ word, control }) => {
      const { sentences, different, same } = examples[words.findIndex((each) => each.word === word)]!;
      const [a, b, c] = (sentences as Measured[]).map(
        ({ tokens, words: found }) => readWords(found[tokens.split(' ').indexOf(word)]!)!.at(-1)!,
      ) as [string[], string[], string[]];
      expect(a.filter((each) => b.includes(each))).toEqual([]);
      expect(c.filter((each) => (control === 0 ? a : b).includes(each)).length).toBeGreaterThan(0);
      expect(same.at(-1)!).toBeGreaterThan(different.at(-1)!);
    },
  );

  it.each(words)('without attention, “$word” ends near the same word in both meanings', ({ word }) => {
    const { sentences } = examples[words.findIndex((each) => each.word === word)]!;
    const [a, b] = (sentences as Measured[]).map(({ without }) => readWords(without)!.at(-1)!) as [string[], string[]];
    expect(a[0]).toBe(b[0]);
    // In at least one of them, it was another one.
    const [on, other] = (sentences as Measured[]).map(
      ({ tokens, words: found }) => readWords(found[tokens.split(' ').indexOf(word)]!)!.at(-1)![0],
    );
    expect(on === a[0] && other === b[0]).toBe(false);
  });

  it('describes the heads that do most of what is said', async () => {
    const all = words.flatMap(({ word, sentences }) => sentences.map((sentence) => ({ sentence, word })));
    const found = await describeHeads(model, all);
    for (const [i, { kind, layer, head, share }] of found.entries()) {
      expect(described[i]).toMatchObject({ kind, layer, head });
      expect(Math.abs(described[i]!.share - share)).toBeLessThan(within);
    }
  });

  it('says that no single head decides what the word becomes', async () => {
    const dictionary = await heed.TextIndex.load(fileURLToPath(new URL('../../web/model/dictionary', import.meta.url)));
    for (const { word, sentences } of words.slice(0, 2)) {
      const best = async (edit: SiteEdit[]) => {
        const { tokens, lastHiddenState } = await model.encode([sentences[1]], { edit });
        const at = tokens[0]!.indexOf(word);
        const vector = lastHiddenState.data.slice(at * measured.width, (at + 1) * measured.width);
        return (await nearest(model, dictionary, known, word, [vector]))[0]!;
      };
      const whole = await best([]);
      for (const layer of everyLayer)
        for (let head = 0; head < measured.heads; head++) {
          const found = await best([{ site: `layers.${layer - 1}.heads`, heads: [head], scale: 0 }]);
          expect(
            found.some((each) => whole.includes(each)),
            `${word}, layer ${layer}, head ${head + 1}`,
          ).toBe(true);
        }
    }
  });
});

describe('“Meaning” and “Inside” open with examples that hold', () => {
  it.each(descriptions)('the reverse dictionary finds “%s” first: %s', async (description, word) => {
    const index = await heed.TextIndex.load(fileURLToPath(new URL('../../web/model/dictionary', import.meta.url)));
    const { dimensions } = index;
    const query = await model.embed([description], { dimensions, normalize: true });
    expect(nearestWords(index, description, query, 3)[0]!.text).toBe(word);
  });

  it('the reverse dictionary does not offer the words of the description', async () => {
    const index = await heed.TextIndex.load(fileURLToPath(new URL('../../web/model/dictionary', import.meta.url)));
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
