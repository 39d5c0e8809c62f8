/**
 * Every component of tokenizer.json, with its options, compared with Hugging Face's tokenizers in Rust
 * (tests/fixtures/models/tokenizers/components.mjs).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Settings } from '../../../web/src/io/settings.js';
import { TextTokenizer } from '../../../web/src/text/tokenizer.js';
import { patternFiles, tokenizerFile } from '../../fixtures/models/tokenizers/components.mjs';
import { decoderFiles } from '../../fixtures/models/tokenizers/decoders.mjs';
import { fixtures } from './fixtures.js';

interface Encoded {
  text: string;
  ids: number[];
  tokens: string[];
  ranges: number[][];
  types: number[];
}

const { files, patterns, decoded } = JSON.parse(readFileSync(join(fixtures, 'tokenizers/components.json'), 'utf8')) as {
  files: { seed: number; choice: Record<string, string>; encodings: (Encoded | null)[] }[];
  patterns: { pattern: string; encodings: { text: string; ranges: number[][] }[] }[];
  decoded: string[][];
};

const tokenizerOf = (json: object) => TextTokenizer.open(new Settings(json, 'tokenizer.json'), undefined);

test.each(files)('$choice', async ({ seed, choice, encodings }) => {
  const tokenizer = await tokenizerOf(tokenizerFile(seed, choice));
  for (const encoding of encodings) {
    if (encoding === null) continue;
    const { tokens, typeIds } = tokenizer.tokenize(encoding.text, undefined, Infinity);
    const own = {
      text: encoding.text,
      ids: tokens.map(({ id }) => id),
      tokens: tokens.map(({ text }) => text),
      ranges: tokens.map(({ start, end }) => [start, end]),
      types: typeIds,
    };
    expect(own).toEqual(encoding);
  }
});

test.each(patterns.map(({ pattern, encodings }, n) => [pattern, encodings, n] as const))(
  '%s',
  async (_, encodings, n) => {
    const tokenizer = await tokenizerOf(patternFiles()[n]![1]);
    for (const { text, ranges } of encodings) {
      const { tokens } = tokenizer.tokenize(text, undefined, Infinity);
      expect({ text, ranges: tokens.map(({ start, end }) => [start, end]) }).toEqual({ text, ranges });
    }
  },
);

test.each(decoderFiles(8).map((file, n) => ({ ...file, texts: decoded[n]! })))(
  'decoder $type',
  async ({ json, ids, texts }) => {
    const tokenizer = await tokenizerOf(json);
    expect(ids.map((each) => tokenizer.decode(each, false))).toEqual(texts);
  },
);

const model = { type: 'WordLevel', vocab: { '[UNK]': 0, a: 1 }, unk_token: '[UNK]' };

test.each([
  ['normalizer', { normalizer: { type: 'Shout' } }, /normalizer: expected .*, got "Shout"/],
  ['pre-tokenizer', { pre_tokenizer: { type: 'Words' } }, /pre_tokenizer: expected .*, got "Words"/],
  [
    'pre-tokenizer within a sequence',
    { pre_tokenizer: { type: 'Sequence', pretokenizers: [{ type: 'Words' }] } },
    /pre_tokenizer: expected .*, got "Words"/,
  ],
  ['post-processor', { post_processor: { type: 'Envelope' } }, /post_processor: expected .*, got "Envelope"/],
  ['decoder', { decoder: { type: 'Speech' } }, /decoder: expected .*, got "Speech"/],
  ['an option of a decoder', { decoder: { type: 'WordPiece' } }, /decoder\.prefix: expected a text, got nothing/],
  ['model', { model: { ...model, type: 'Letters' } }, /model: expected .*, got "Letters"/],
  ['behavior', { pre_tokenizer: { type: 'Punctuation', behavior: 'Joined' } }, /behavior: .*got "Joined"/],
  ['length', { pre_tokenizer: { type: 'FixedLength', length: 0 } }, /length: expected a positive whole number, got 0/],
  [
    'scheme',
    { pre_tokenizer: { type: 'Metaspace', replacement: '_', prepend_scheme: 'last' } },
    /prepend_scheme: .*got "last"/,
  ],
  ['rules', { normalizer: { type: 'Precompiled', precompiled_charsmap: '?' } }, /precompiled_charsmap/],
  ['no pattern', { pre_tokenizer: { type: 'Split', behavior: 'Removed' } }, /pattern: expected/],
  ...['\\X', '\\K', '(?~a)', '(?(1)a|b)', '\\p{Klingon}', '(', '[', '[]', ')', '+', '\\2', '\\g<a>', '(?W)\\w'].map(
    (Regex): [string, object, RegExp] => [
      Regex,
      { pre_tokenizer: { type: 'Split', pattern: { Regex }, behavior: 'Removed' } },
      /pattern: expected a regular expression that JavaScript can apply, got/,
    ],
  ),
])('what is not supported is named: %s', async (_, change, message) => {
  const code = expect.stringMatching(/UNSUPPORTED|INVALID_FILE/);
  const error = expect.objectContaining({ code, message: expect.stringMatching(message) });
  await expect(tokenizerOf({ model, ...change })).rejects.toThrow(error);
});

test('merges of tokens that the vocabulary lacks are an error', async () => {
  const json = { model: { type: 'BPE', vocab: { a: 0, b: 1 }, merges: ['a b'] } };
  await expect(tokenizerOf(json)).rejects.toThrow(/model\.merges: expected tokens of the vocabulary.*got 'ab'/);
});

test('a text of a single word takes time in proportion to its length', async () => {
  const vocab = { a: 0, aa: 1, aaaa: 2 };
  const tokenizer = await tokenizerOf({ model: { type: 'BPE', vocab, merges: ['a a', 'aa aa'] } });
  const { tokens } = tokenizer.tokenize('a'.repeat(100_001), undefined, Infinity);
  expect(tokens.map(({ id }) => id)).toEqual([...new Array<number>(25_000).fill(2), 0]);
});
