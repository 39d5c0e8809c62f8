/** heed's tokenizers beside Hugging Face's in Rust: 100 files with all components and options, 50 texts of all scripts; 400 decoders. */
import { expect, test } from 'vitest';
import { Settings } from '../../web/src/io/settings.js';
import { TextTokenizer } from '../../web/src/text/tokenizer.js';
import { texts, tokenizerFile } from '../fixtures/models/tokenizers/components.mjs';
import { decoderFiles } from '../fixtures/models/tokenizers/decoders.mjs';
import { decodings, encodings } from './reference.mjs';

const inputs = [
  ...texts.map((text): [string] => [text]),
  ...texts.map((text, n): [string, string] => [text, texts[n - 1] ?? '']),
];

test.each(Array.from({ length: 100 }, (_, seed) => seed))('file %i', async (seed) => {
  const json = tokenizerFile(seed);
  const tokenizer = await TextTokenizer.open(new Settings(json, 'tokenizer.json'), undefined);
  const reference = await encodings(json, inputs);
  inputs.forEach(([text, pair], n) => {
    const encode = () => tokenizer.tokenize(text, pair, Infinity);
    if (reference[n] === null) {
      expect(encode).toThrow(expect.objectContaining({ code: 'INVALID_FILE' }));
      return;
    }
    const { tokens, typeIds } = encode();
    const own = {
      ids: tokens.map(({ id }) => id),
      tokens: tokens.map((token) => token.text),
      ranges: tokens.map(({ start, end }) => [start, end]),
      types: typeIds,
    };
    expect(own, JSON.stringify([text, pair])).toEqual(reference[n]);
  });
});

test.each(decoderFiles(40))('decoder $type', async ({ json, ids }) => {
  const tokenizer = await TextTokenizer.open(new Settings(json, 'tokenizer.json'), undefined);
  const own = ids.map((each) => tokenizer.decode(each, false));
  expect(own, JSON.stringify((json as { decoder: object }).decoder)).toEqual(await decodings(json, ids));
});
