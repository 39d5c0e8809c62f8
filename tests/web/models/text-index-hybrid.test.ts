/** Hybrid search: texts are found by their words as well as by their vectors. */
import { load, type TextHit, type TextIndex } from 'heed';
import MiniSearch from 'minisearch';
import { describe, expect, test } from 'vitest';
import { wordsOf } from '../../../web/src/search/word-index.js';
import { fixtures } from './fixtures.js';

const heed = await load();

describe('words', () => {
  test.each<[string, string[]]>([
    ['The quick fox.', ['the', 'quick', 'fox']],
    ['ISO-9001', ['iso-9001', 'iso', '9001']],
    ['user_id', ['user_id', 'user', 'id']],
    ['getUserById2', ['getuserbyid2', 'get', 'user', 'by', 'id', '2']],
    ['HTTPServer', ['httpserver', 'http', 'server']],
    ['Müller ＡＢＣ', ['muller', 'abc']],
    ["l'eau", ["l'eau", 'l', 'eau']],
    ['東京の首都', ['東京', '京の', 'の首', '首都']],
    ['水', ['水']],
    ['भाषा', ['भाषा']],
    ['\u0301 …', []],
    ['', []],
  ])('%s', (text, words) => {
    expect(wordsOf(text)).toEqual(words);
  });
});

const texts = [
  'Connection refused, the server is off',
  'Error E-4711: the pump is blocked',
  'How to bake bread',
  'The function getUserById returns a user',
  'The pump runs',
  'Müller wrote a letter',
];
/** Vectors in which the order of texts is that of the list. */
const embed = (given: readonly string[]) =>
  given.map((text) => {
    const place = texts.indexOf(text);
    return place < 0 ? [1, 0.001] : [Math.cos(0.1 * place), Math.sin(0.1 * place)];
  });
const built = () => heed.TextIndex.of(embed, texts);
const idsOf = (hits: readonly TextHit[]) => hits.map(({ id }) => id);
const search = async (index: TextIndex, query: string, options = {}) =>
  idsOf(await index.search(query, { hybrid: true, ...options }));

describe('hybrid search', () => {
  test('scores the sum of 1 / (10 + rank) over both rankings', async () => {
    using index = await built();
    const hits = await index.search('the pump', { hybrid: true, topK: 6 });
    const mini = new MiniSearch({ fields: ['text'], tokenize: wordsOf, processTerm: (word) => word });
    mini.addAll(texts.map((text, id) => ({ id, text })));
    const byWords = mini.search('the pump').map(({ id }) => id as number);
    expect(byWords.length).toBeGreaterThan(2);
    const expected = texts.map((_, id) => {
      const place = byWords.indexOf(id);
      return 1 / (11 + id) + (place < 0 ? 0 : 1 / (11 + place));
    });
    expect(hits).toHaveLength(6);
    for (const { id, score } of hits) expect(score).toBeCloseTo(expected[id as number]!, 12);
    expect(hits.map(({ score }) => score)).toEqual([...expected].sort((a, b) => b - a));
  });

  test.each([
    ['E-4711', 1],
    ['4711', 1],
    ['getUserById', 3],
    ['muller', 5],
  ])('finds %s, which the vectors do not', async (query, id) => {
    using index = await built();
    expect(idsOf(await index.search(query, { topK: 1 }))).toEqual([0]);
    expect(await search(index, query, { topK: 1 })).toEqual([id]);
    expect(idsOf((await index.searchAll(['', query], { hybrid: true, topK: 1 }))[1]!)).toEqual([id]);
  });

  test('follows changes', async () => {
    using index = await built();
    expect((await search(index, 'pump', { topK: 2 })).sort()).toEqual([1, 4]);
    await index.remove([1]);
    expect(await search(index, 'E-4711', { topK: 1 })).toEqual([0]);
    await index.add([{ id: 'new', text: 'E-4711 again' }]);
    expect(await search(index, 'E-4711', { topK: 1 })).toEqual(['new']);
    await index.add([{ id: 'new', text: 'now F-4712' }], { replace: true });
    expect(await search(index, 'E-4711', { topK: 1 })).toEqual([0]);
    expect(await search(index, 'F-4712', { topK: 1 })).toEqual(['new']);
    await index.remove(() => true);
    expect(await search(index, 'F-4712')).toEqual([]);
  });

  test('a text that is added while words are read is found', async () => {
    using index = heed.TextIndex.of(
      Array.from({ length: 3000 }, (_, i) => `number ${i}`),
      Array.from({ length: 3000 }, (_, i) => [1, i / 3000]),
      { embedder: embed },
    );
    const [found] = await Promise.all([search(index, '2999', { topK: 1 }), index.add(['late'])]);
    expect(found).toEqual([2999]);
    expect(await search(index, 'late', { topK: 1 })).toEqual([3000]);
  });

  test('keeps to ids and filters', async () => {
    using index = await built();
    expect(await search(index, 'pump', { ids: [2, 4] })).toEqual([4, 2]);
    expect((await search(index, 'pump', { filter: ({ id }: { id: unknown }) => id === 1 || id === 5 })).sort()).toEqual(
      [1, 5],
    );
    expect(await search(index, 'pump', { ids: [] })).toEqual([]);
  });

  test('is saved with the index', async () => {
    using index = await built();
    const without = await index.save();
    await search(index, 'pump');
    await index.remove([0]);
    const file = await index.save();
    expect(Buffer.from(without).includes('"words"')).toBe(false);
    expect(Buffer.from(file).includes('"words"')).toBe(true);
    using again = await heed.TextIndex.load(file, { embedder: embed });
    for (const query of ['pump', 'the server', 'muller'])
      expect(await again.search(query, { hybrid: true })).toEqual(await index.search(query, { hybrid: true }));
    await again.remove([1]);
    await again.add(['E-4711']);
    expect(await search(again, 'E-4711', { topK: 1 })).toEqual([6]);
  });

  test.each<[string, string]>([
    ['["pump",1,1,', 'invalid JSON'],
    ['["pump",9,1]', 'another list'],
    ['["pump",1,0]', 'another list'],
    ['["pump",1,1,1,1]', 'another list'],
    ['["",1,1]', 'another list'],
    ['[1,1,1]', 'another list'],
    ['{"pump":1}', 'another list'],
    ['null', 'another list'],
  ])('a file with the words %s is refused', async (line, got) => {
    using index = await built();
    await search(index, 'pump');
    const file = Buffer.from(await index.save());
    const start = file.indexOf('["the"');
    const end = file.indexOf('\n', start);
    file.fill(' ', start, end);
    file.write(line, start);
    await expect(heed.TextIndex.load(file)).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining(got),
    });
  });

  test('is for texts, and without a threshold', async () => {
    using index = await built();
    expect(() => index.search([[1, 0]], { hybrid: true })).toThrow(
      'search.hybrid: expected a query that is a text, got a query that is a vector',
    );
    await expect(index.search('x', { hybrid: true, threshold: 0.5 })).rejects.toThrow('search.threshold');
    await expect(index.search('x', { hybrid: 1 as never })).rejects.toThrow('search.hybrid: expected true or false');
    const stop = AbortSignal.abort(new Error('stopped'));
    await expect(index.search('x', { hybrid: true, signal: stop })).rejects.toThrow('stopped');
  });

  test('searchLatest takes it', async () => {
    using index = await built();
    let found: unknown[] = [];
    await index.searchLatest((hits) => (found = idsOf(hits)), { hybrid: true, topK: 1 })('E-4711');
    expect(found).toEqual([1]);
  });

  test('with a model', async () => {
    using model = await heed.fromPretrained(`${fixtures}../../../web/model`);
    using index = await heed.TextIndex.of(model, texts);
    expect(await search(index, 'E-4711', { topK: 1 })).toEqual([1]);
    expect(await index.search('')).toEqual([]);
    expect(await index.searchAll(['', ' \n'])).toEqual([[], []]);
  });
});
