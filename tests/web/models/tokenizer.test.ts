import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Settings } from '../../../web/src/io/settings.js';
import { TextTokenizer, truncatedLengths } from '../../../web/src/text/tokenizer.js';
import { fixtures } from './fixtures.js';

interface Encoded {
  ids: number[];
  offsets: number[];
}
interface Golden {
  strings: string[];
  pairs: [string, string][];
  kinds: Record<string, { ids: number[][]; offsets: number[][]; pairs: Encoded[] }>;
}

const folder = join(fixtures, 'tokenizers');
const golden = JSON.parse(readFileSync(join(folder, 'golden.json'), 'utf8')) as Golden;
const open = (kind: string) =>
  TextTokenizer.open(Settings.parse(readFileSync(join(folder, `${kind}.json`)), `${kind}.json`), undefined);
const tokenizerOf = (json: object) =>
  TextTokenizer.open(Settings.parse(new TextEncoder().encode(JSON.stringify(json)), 'tokenizer.json'), undefined);

describe.each(Object.keys(golden.kinds))("%s gives Hugging Face's tokens", (kind) => {
  const opening = open(kind);
  const { ids, offsets, pairs } = golden.kinds[kind]!;

  test.each(golden.strings.map((text, n) => [JSON.stringify(text), text, n] as const))('%s', async (_, text, n) => {
    const { tokens } = (await opening).tokenize(text, undefined, Infinity);
    expect(tokens.map((token) => token.id)).toEqual(ids[n]);
    expect(tokens.flatMap((token) => [token.start, token.end])).toEqual(offsets[n]);
  });

  test('pairs', async () => {
    const tokenizer = await opening;
    golden.pairs.forEach(([text, pair], n) => {
      const { tokens } = tokenizer.tokenize(text, pair, Infinity);
      expect(tokens.map((token) => token.id)).toEqual(pairs[n]!.ids);
      expect(tokens.flatMap((token) => [token.start, token.end])).toEqual(pairs[n]!.offsets);
    });
  });
});

interface Variants {
  strings: string[];
  variants: Record<string, { base: string; change: object; encodings: Encoded[] }>;
}

const { strings, variants } = JSON.parse(readFileSync(join(folder, 'variants.json'), 'utf8')) as Variants;

describe.each(Object.keys(variants))('%s, as in Hugging Face', (name) => {
  const { base, change, encodings } = variants[name]!;
  const json = { ...JSON.parse(readFileSync(join(folder, `${base}.json`), 'utf8')), ...change };
  const opening = tokenizerOf(json);

  test.each(strings.map((text, n) => [JSON.stringify(text), text, n] as const))('%s', async (_, text, n) => {
    const { tokens } = (await opening).tokenize(text, undefined, Infinity);
    expect(tokens.map((token) => token.id)).toEqual(encodings[n]!.ids);
    expect(tokens.flatMap((token) => [token.start, token.end])).toEqual(encodings[n]!.offsets);
  });
});

test.each([
  // Lengths of the first and second text, and their lengths truncated to 7 in total: the table of Hugging Face's tests
  [0, 0, 0, 0],
  [0, 2, 0, 2],
  [0, 4, 0, 4],
  [0, 8, 0, 7],
  [2, 0, 2, 0],
  [2, 2, 2, 2],
  [2, 4, 2, 4],
  [2, 8, 2, 5],
  [4, 0, 4, 0],
  [4, 2, 4, 2],
  [4, 4, 3, 4],
  [4, 8, 3, 4],
  [8, 0, 7, 0],
  [8, 2, 5, 2],
  [8, 4, 4, 3],
  [8, 8, 3, 4],
])('pairs of %i and %i tokens are cut to %i and %i', (first, second, n, m) => {
  expect(truncatedLengths(first, second, 7)).toEqual([n, m]);
  expect(truncatedLengths(first, second, 0)).toEqual([0, 0]);
});

test('an unknown token that the vocabulary lacks is named by the text that needs it', async () => {
  const json = JSON.parse(readFileSync(join(folder, 'bert-uncased.json'), 'utf8'));
  json.model.unk_token = '[NONE]';
  const tokenizer = await tokenizerOf(json);
  expect(tokenizer.tokenize('the', undefined, Infinity).tokens).toHaveLength(3);
  expect(() => tokenizer.tokenize('the \u{1F980}', undefined, Infinity)).toThrow(
    expect.objectContaining({
      code: 'INVALID_FILE',
      message: "tokenizer.json: token '[NONE]' is not in the vocabulary and there is no unknown token",
    }),
  );
});
