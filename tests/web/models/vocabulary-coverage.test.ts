/** `vocabularyCoverage`: words that a model knows whole, in pieces, or not at all. */
import { load, loadTokenizer, type PretrainedModel, vocabularyCoverage } from 'heed';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tinyModel } from './tiny.js';

let heed: Awaited<ReturnType<typeof load>>;
let bundled: PretrainedModel;
beforeAll(async () => {
  heed = await load();
  bundled = await heed.fromPretrained();
});
afterAll(() => heed.dispose());

/** The same sentence in ten languages: article 1 of the Universal Declaration of Human Rights, its first sentence. */
const sentences = {
  English: 'All human beings are born free and equal in dignity and rights.',
  German: 'Alle Menschen sind frei und gleich an Würde und Rechten geboren.',
  French: 'Tous les êtres humains naissent libres et égaux en dignité et en droits.',
  Spanish: 'Todos los seres humanos nacen libres e iguales en dignidad y derechos.',
  Italian: 'Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti.',
  Polish: 'Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.',
};
const otherScripts = [
  'Все люди рождаются свободными и равными в своем достоинстве и правах.',
  'يولد جميع الناس أحرارا متساوين في الكرامة والحقوق',
  '人人生而自由，在尊严和权利上一律平等。',
  '모든 인간은 태어날 때부터 자유로우며',
];

test.each(Object.entries(sentences))('%s', async (language, text) => {
  const [{ words, unknown, continued, fertility }] = (await vocabularyCoverage(bundled, text)) as [never];
  expect(words).toBe(text.split(' ').length);
  if (language === 'English') expect([unknown, continued, fertility]).toEqual([0, 0, 1]);
  else expect(unknown + continued).toBeGreaterThan(0.3);
});

test.each(otherScripts)('no word of another script is known: %s', async (text) => {
  const [found] = await vocabularyCoverage(bundled, text);
  expect(found!.unknown).toBeGreaterThan(0.8); // the vocabulary has 人
  expect(found!.continued).toBeLessThan(0.1);
});

describe('words', () => {
  test('are runs of letters; numbers and punctuation are none', async () => {
    const found = await vocabularyCoverage(bundled, ["the fox's 12 dogs, 2026", '', '12 + 3 = 15', 'xqzzv']);
    expect(found.map(({ words }) => words)).toEqual([4, 0, 0, 1]);
    expect(found[1]).toEqual({ words: 0, unknown: 0, continued: 0, fertility: 0 });
    expect(found[3]!.continued).toBe(1);
    expect(found[3]!.fertility).toBeGreaterThan(1);
  });

  test('are counted as the tokens of a model and of its tokenizer say', async () => {
    const texts = ['a fox', 'the fox я', 'я'];
    const byModel = await vocabularyCoverage(bundled, texts);
    expect(byModel.map(({ unknown }) => unknown)).toEqual([0, 1 / 3, 1]);
    const tokenizer = await loadTokenizer(new URL('../../../web/model/', import.meta.url));
    expect(await vocabularyCoverage(tokenizer, texts)).toEqual(byModel);
    using remote = await heed.fromPretrained(undefined, { worker: true });
    expect(await vocabularyCoverage(remote, texts)).toEqual(byModel);
  });

  test('that are longer than the model reads count, too', async () => {
    using model = await heed.fromPretrained(tinyModel());
    const [found] = await vocabularyCoverage(model, 'the quick fox '.repeat(1000));
    expect(found!.words).toBe(3000);
  });
});

describe('in a search for a text', () => {
  const texts = ['The cat sleeps on the sofa.', 'Fry the onions, then add the rice.'];
  const english = 'how to prepare a meal with rice';
  const german = 'Wie koche ich ein Gericht mit Reis?';

  test('is that of the query: German is in pieces, English is not', async () => {
    using index = await heed.TextIndex.of(bundled, texts);
    const of = await vocabularyCoverage(bundled, [english, german]);
    for (const hybrid of [false, true]) {
      const found = [await index.search(english, { hybrid }), await index.search(german, { hybrid })];
      expect(found.map(({ coverage }) => coverage)).toEqual(of);
      expect(found.map(({ coverage }) => coverage!.unknown + coverage!.continued > 0.4)).toEqual([false, true]);
    }
    const all = await index.searchAll([german, ' ', english]);
    expect(all.map(({ coverage }) => coverage)).toEqual([of[1], undefined, of[0]]);
    let latest: unknown;
    await index.searchLatest(({ coverage }) => {
      latest = coverage;
    })(german);
    expect(latest).toEqual(of[1]);
  });

  test('is the same for a model in a worker, and not among the hits', async () => {
    using remote = await heed.fromPretrained(undefined, { worker: true });
    using index = await heed.TextIndex.of(remote, texts);
    const hits = await index.search(german);
    expect(hits.coverage).toEqual((await vocabularyCoverage(bundled, german))[0]);
    expect(Object.keys(hits)).toEqual(['0', '1']);
  });

  test('is absent for vectors and for functions that embed', async () => {
    using index = await heed.TextIndex.of((given) => bundled.embed(given), texts);
    expect(await index.search(german)).not.toHaveProperty('coverage');
    expect(index.search(await bundled.embedQuery(german))).not.toHaveProperty('coverage');
  });
});

test('refuses what it cannot read', async () => {
  await expect(vocabularyCoverage({} as never, 'a')).rejects.toThrow('vocabularyCoverage: model');
  await expect(vocabularyCoverage(bundled, 3 as never)).rejects.toThrow('texts');
  await expect(vocabularyCoverage(bundled, 'a', { topK: 1 } as object)).rejects.toThrow('topK');
  const stop = new AbortController();
  stop.abort(new Error('enough'));
  await expect(vocabularyCoverage(bundled, 'a', { signal: stop.signal })).rejects.toThrow('enough');
});
