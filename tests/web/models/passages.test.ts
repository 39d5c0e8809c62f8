/** Splitting texts into passages, and vectors of long texts. */
import { embedLong, load, loadTokenizer, type Passage, splitPassages } from 'heed';
import { describe, expect, test, vi } from 'vitest';
import { segmentsOf } from '../../../web/src/tasks/text-segments.js';
import { fixtures } from './fixtures.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const model = await heed.fromPretrained(tinyModel());
const tokenizer = await loadTokenizer(tinyModel());
const source = '  The quick fox. A brown fox.\n\nThe fox, the fox. X y z. A quick fox. ';
const textsOf = (passages: readonly Passage[]) => passages.map(({ text }) => text);

/** Checks the properties that hold for all passages, texts and options. */
function expectValid(
  passages: readonly Passage[],
  text: string,
  maxTokens: number,
  count = tokenizer.count.bind(tokenizer),
) {
  let covered = 0;
  for (const passage of passages) {
    expect(passage.text).toBe(text.slice(passage.start, passage.end));
    expect(passage.text).toBe(passage.text.trim());
    expect(count(passage.text)).toBeLessThanOrEqual(maxTokens);
    expect(text.slice(covered, Math.max(covered, passage.start)).trim()).toBe('');
    expect(passage.end).toBeGreaterThan(covered);
    covered = passage.end;
  }
  expect(text.slice(covered).trim()).toBe('');
}

test('whole sentences, as many as fit, with their places and tokens', async () => {
  const passages = await splitPassages(model, source, { maxTokens: 10 });
  expect(passages).toEqual([
    { text: 'The quick fox. A brown fox.', start: 2, end: 29, tokens: 8 },
    { text: 'The fox, the fox.', start: 31, end: 48, tokens: 6 },
    { text: 'X y z. A quick fox.', start: 49, end: 68, tokens: 8 },
  ]);
  expectValid(passages, source, 10);
  expect(await splitPassages(tokenizer, source, { maxTokens: 10 })).toEqual(passages);
});

test('a text that fits is one passage; a text of white space has none', async () => {
  expect(textsOf(await splitPassages(model, source))).toEqual([source.trim()]);
  expect(await splitPassages(model, '')).toEqual([]);
  expect(await splitPassages(model, ' \n\t ', { maxTokens: 3 })).toEqual([]);
});

test('with overlap, passages begin with the last sentences of the one before', async () => {
  const passages = await splitPassages(model, source, { maxTokens: 14, overlap: 6 });
  expect(textsOf(passages)).toEqual(
    [
      'The quick fox. A brown fox.',
      'A brown fox.\n\nThe fox, the fox.',
      'The fox, the fox. X y z.',
      'X y z. A quick fox.',
    ].slice(0, passages.length),
  );
  expectValid(passages, source, 14);
  for (const [n, { start }] of passages.entries()) if (n > 0) expect(start).toBeLessThan(passages[n - 1]!.end);
});

test('sentences that are too long are divided between words, and words between characters', async () => {
  const long = `${'the quick brown fox '.repeat(20)}foxeseseseses ${'1230123012301230'.repeat(3)}. A fox.`;
  for (const maxTokens of [3, 4, 7, 20]) {
    const passages = await splitPassages(model, long, { maxTokens });
    expectValid(passages, long, maxTokens);
    expect(passages.length).toBeGreaterThan(5);
  }
  const [first] = await splitPassages(model, long, { maxTokens: 6 });
  expect(first!.text).toBe('the quick brown fox');
});

test.each(['bert-uncased', 'roberta', 'xlm-roberta', 'modernbert'])(
  'passages fit with the tokenizer %s',
  async (kind) => {
    const { readFileSync } = await import('node:fs');
    const own = await loadTokenizer({ 'tokenizer.json': readFileSync(`${fixtures}tokenizers/${kind}.json`) });
    const text =
      'Dr. Smith paid $3.50, e.g. for tea. Überall naïve café! 東京は大きい。とても大きい。 👩‍👩‍👧 family? supercalifragilistic...  \r\n end';
    for (const maxTokens of [10, 13, 30])
      for (const overlap of [0, 4]) {
        const passages = await splitPassages(own, text, { maxTokens, overlap });
        expectValid(passages, text, maxTokens, own.count.bind(own));
      }
  },
);

test('the prompt has room', async () => {
  const prompt = 'the x y ';
  const passages = await splitPassages(model, source, { maxTokens: 10, prompt });
  expectValid(passages, source, 7);
  const { truncated } = await model.embed(textsOf(passages), { prompt, maxLength: 10 });
  expect(truncated).toEqual(passages.map(() => 0));
});

test('without Intl.Segmenter, sentences end with punctuation', async () => {
  vi.stubGlobal('Intl', { ...Intl, Segmenter: undefined });
  try {
    const passages = await splitPassages(model, source, { maxTokens: 10 });
    expect(textsOf(passages)).toEqual(['The quick fox. A brown fox.', 'The fox, the fox.', 'X y z. A quick fox.']);
    const long = 'the fox '.repeat(30);
    expectValid(await splitPassages(model, long, { maxTokens: 5 }), long, 5);
  } finally {
    vi.unstubAllGlobals();
  }
});

test('in a worker', async () => {
  using remote = await heed.fromPretrained(tinyModel(), { worker: true });
  expect(await splitPassages(remote, source, { maxTokens: 10 })).toEqual(
    await splitPassages(model, source, { maxTokens: 10 }),
  );
});

describe('one clear error', () => {
  const wrong = (options: object, text: unknown = source) => splitPassages(model, text as string, options);

  test.each([
    [{ maxTokens: 2 }, /splitPassages.maxTokens: expected at least 3, .*special tokens/],
    [{ maxTokens: 5, prompt: 'the x y' }, /splitPassages.maxTokens: expected at least 6/],
    [{ maxTokens: 100_000 }, /splitPassages.maxTokens: expected at most \d+, the model's limit/],
    [{ maxTokens: 0 }, /splitPassages.maxTokens/],
    [{ maxTokens: 5, overlap: 3 }, /splitPassages.overlap: expected less than 3/],
    [{ locale: 'not a language' }, /splitPassages.locale/],
    [{ size: 3 }, /'size'/],
  ])('%o', async (options, message) => {
    await expect(wrong(options)).rejects.toThrow(message);
    await expect(wrong(options)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  test('for other arguments', async () => {
    await expect(wrong({}, 5)).rejects.toThrow(/^source: expected a string/);
    await expect(splitPassages({} as never, 'a')).rejects.toThrow(/a model or a tokenizer/);
    await expect(wrong({ signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough');
    expect(await splitPassages(model, 'a fox')).toHaveLength(1);
  });

  test('for a character that does not fit', async () => {
    const { readFileSync } = await import('node:fs');
    const bytes = await loadTokenizer({ 'tokenizer.json': readFileSync(`${fixtures}tokenizers/roberta.json`) });
    const crab = '\u{1F980}';
    const needed = bytes.count(crab);
    expect(needed).toBeGreaterThan(3);
    await expect(splitPassages(bytes, `a ${crab}`, { maxTokens: 3 })).rejects.toThrow(
      /maxTokens: too small for '\u{1F980}', which has/u,
    );
    expectValid(
      await splitPassages(bytes, `a ${crab}`, { maxTokens: needed + 1 }),
      `a ${crab}`,
      needed + 1,
      bytes.count.bind(bytes),
    );
  });
});

describe('embedLong', () => {
  test('is the mean of the vectors of passages, weighted by their tokens', async () => {
    const vectors = await embedLong(model, [source, 'a fox'], { maxTokens: 10 });
    const passages = await splitPassages(model, source, { maxTokens: 10 });
    expect(vectors.passages).toEqual([passages, await splitPassages(model, 'a fox')]);
    const each = (await model.embedDocument(textsOf(passages))).toArray<number[][]>();
    const total = passages.reduce((sum, { tokens }) => sum + tokens, 0);
    const mean = each[0]!.map((_, i) =>
      passages.reduce((sum, { tokens }, n) => sum + (tokens / total) * each[n]![i]!, 0),
    );
    vectors.at(0, 0);
    mean.forEach((value, i) => {
      expect(vectors.data[i]).toBeCloseTo(value, 5);
    });
    expect([...vectors.data.subarray(24)]).toEqual([...(await model.embedDocument('a fox')).data]);
  });

  test('has length 1 if vectors are normalized', async () => {
    const { data } = await embedLong(model, source, { maxTokens: 10, normalize: true });
    expect(Math.hypot(...data)).toBeCloseTo(1, 5);
  });

  test('leaves room for the prompts of the folder, the default one included', async () => {
    const config = { prompts: { document: 'the x y ', other: 'x x x x x ' }, default_prompt_name: 'other' };
    const folder = { ...tinyModel(), 'config_sentence_transformers.json': JSON.stringify(config) };
    using prompted = await heed.fromPretrained(folder);
    const long = 'The quick fox. A brown fox. '.repeat(40);
    const asDocument = await embedLong(prompted, long);
    expect(asDocument.passages[0]!.length).toBeGreaterThan(1);
    const { truncated } = await prompted.embedDocument(textsOf(asDocument.passages[0]!));
    expect(Math.max(...truncated)).toBe(0);
    const asQuery = await embedLong(prompted, long, { role: 'query' }); // the folder has no such prompt, so the default is used
    const cut = await prompted.embed(textsOf(asQuery.passages[0]!));
    expect(Math.max(...cut.truncated)).toBe(0);
  });

  test('of empty texts is what embed gives, and no texts give none', async () => {
    const { data, passages } = await embedLong(model, ['', 'a fox']);
    expect([...data.subarray(0, 24)]).toEqual([...(await model.embedDocument('')).data]);
    expect(passages[0]).toEqual([]);
    expect((await embedLong(model, [])).shape[0]).toBe(0);
  });

  test('refuses wrong options and stops', async () => {
    await expect(embedLong(model, source, { maxTokens: 2 })).rejects.toThrow(
      /embedLong.maxTokens: expected at least 3/,
    );
    await expect(embedLong(model, source, { role: 'passage' as never })).rejects.toThrow(/embedLong.role/);
    await expect(embedLong(model, source, { poling: 'cls' } as never)).rejects.toThrow(/'poling'/);
    await expect(embedLong(model, [5 as never])).rejects.toThrow(/^texts\[0\]/);
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(embedLong(model, source, { signal })).rejects.toThrow('enough');
  });
});

test.each(['sentence', 'word', 'grapheme'] as const)(
  'long texts have the %ss that Intl.Segmenter finds in the whole',
  (granularity) => {
    const parts = [
      'The quick brown fox can\'t jump 3.14 m. "Really?" he asked... 1. 2. 3. and so on! ',
      'Ein Satz mit z. B. Abkürzungen; noch einer.\n\n',
      '\u{1F1E9}\u{1F1EA}\u{1F1EB}\u{1F1F7} \u{1F468}\u200D\u{1F469}\u200D\u{1F467} e\u0301a\u0308 ',
      'สวัสดีครับ ยินดี. 私は学生です。',
    ];
    // V8 copies the whole text for each of its segments, so the text cannot be much longer.
    let text = '';
    for (let seed = 1; text.length < 6000; seed = (seed * 48271) % 2147483647) text += parts[seed % parts.length];
    text += `${'x'.repeat(5000)} The end.`; // a word that is longer than a window
    const found = [...segmentsOf('test', text, granularity, 'en')];
    const whole = new Intl.Segmenter('en', { granularity }).segment(text);
    expect(found).toEqual([...whole].map(({ index, segment }) => [index, index + segment.length]));
  },
);
