/** Long texts are tokenized in segments, with the same tokens as the whole text. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Settings } from '../../../web/src/io/settings.js';
import { allowsSegments, SEGMENT, segmentEnd } from '../../../web/src/text/segments.js';
import { TextTokenizer } from '../../../web/src/text/tokenizer.js';
import { fixtures } from './fixtures.js';

const folder = join(fixtures, 'tokenizers');
const read = (name: string) => JSON.parse(readFileSync(join(folder, name), 'utf8'));
const { strings, kinds } = read('golden.json') as { strings: string[]; kinds: Record<string, unknown> };
const { strings: others, variants } = read('variants.json') as {
  strings: string[];
  variants: Record<string, { base: string; change: object }>;
};
const settingsOf = (json: object) => Settings.parse(new TextEncoder().encode(JSON.stringify(json)), 'tokenizer.json');

const files: Record<string, { added_tokens?: object[] }> = Object.fromEntries([
  ...Object.keys(kinds).map((kind) => [kind, read(`${kind}.json`)]),
  ...Object.entries(variants).map(([name, { base, change }]) => [name, { ...read(`${base}.json`), ...change }]),
]);

/** Disables segments by an added token with a space, which occurs in no text. */
const whole = (json: { added_tokens?: object[] }) => ({
  ...json,
  added_tokens: [
    ...(json.added_tokens ?? []),
    {
      ...{ id: 5000, content: '\uE000 \uE000', special: false },
      ...{ single_word: false, lstrip: false, rstrip: false, normalized: false },
    },
  ],
});

/** The strings in many orders, separated by single spaces and other white space. */
const text = Array.from({ length: 60 }, (_, n) =>
  [...strings, ...others].map((each, i) => `${each}${[' ', ' ', '  ', '\n', ' a '][(n + i) % 5]}`).join(''),
)
  .join(' ')
  .slice(0, 2.2 * SEGMENT);

describe('the tokens of', () => {
  const allowed = Object.entries(files).filter(([, json]) => allowsSegments(settingsOf(json)));

  test('tokenizers with words or bytes', () => {
    expect(readdirSync(folder).length).toBeGreaterThan(2);
    expect(allowed.length).toBeGreaterThanOrEqual(3);
    expect(text.length).toBeGreaterThan(2 * SEGMENT);
  });

  test.each(allowed)('%s', async (_, json) => {
    const open = (each: object, side: string) =>
      TextTokenizer.open(settingsOf(each), settingsOf({ truncation_side: side }));
    for (const [side, limit, pair] of [
      ['right', 8, undefined],
      ['left', 512, text.slice(0, 3000)],
      ['right', Infinity, undefined],
    ] as const) {
      const opened = await Promise.all([json, whole(json)].map((each) => open(each, side)));
      const [one, other] = opened.map((tokenizer) => tokenizer.tokenize(text, pair, limit));
      expect(JSON.stringify(one) === JSON.stringify(other), `${side}, ${limit}`).toBe(true);
    }
  });
});

test('a text without a space between words is one segment', () => {
  for (const long of ['x'.repeat(2 * SEGMENT), ', '.repeat(SEGMENT), 'x  '.repeat(SEGMENT)])
    expect(segmentEnd(long, 0, SEGMENT)).toBe(long.length);
  expect(segmentEnd(`${'x'.repeat(SEGMENT)}a b`, 0, SEGMENT)).toBe(SEGMENT + 1);
  expect(segmentEnd('', 0, SEGMENT)).toBe(0);
});

test.each<[string, object]>([
  ['an added token with a space', { added_tokens: [{ content: 'a b', rstrip: false }] }],
  ['an added word that takes the space after it', { added_tokens: [{ content: 'mask', rstrip: true }] }],
  ['no division into words', { pre_tokenizer: null }],
  ['marks for spaces, which begin at the first one', { pre_tokenizer: { type: 'Metaspace', prepend_scheme: 'first' } }],
  ['another regular expression', { pre_tokenizer: { type: 'Split', pattern: { Regex: '\\w+ \\w+' } } }],
  ['a normalizer of the whole text', { normalizer: { type: 'Prepend', prepend: '_' } }],
])('no segments: %s', (_, change) => {
  const json = {
    normalizer: { type: 'BertNormalizer' },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    added_tokens: [],
  };
  expect(allowsSegments(settingsOf(json))).toBe(true);
  expect(allowsSegments(settingsOf({ ...json, ...change }))).toBe(false);
});
