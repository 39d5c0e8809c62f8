/** The settings of tokenizer_config.json for truncation and spaces, and the smallest limits. */
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { tinyModel } from './tiny.js';

const heed = await load();
type Json = Record<string, unknown>;

/** The tiny model with other settings of its tokenizer. */
function withSettings(config: Json, tokenizer: Json = {}) {
  const files = tinyModel() as Record<string, Uint8Array | string>;
  const parsed = (name: string) => {
    const file = files[name];
    return file === undefined ? {} : JSON.parse(typeof file === 'string' ? file : new TextDecoder().decode(file));
  };
  return {
    ...files,
    'tokenizer_config.json': JSON.stringify({ ...parsed('tokenizer_config.json'), ...config }),
    'tokenizer.json': JSON.stringify({ ...parsed('tokenizer.json'), ...tokenizer }),
  };
}

describe('truncation_side', () => {
  const truncation = (direction: string) => ({
    truncation: { direction, max_length: 512, strategy: 'LongestFirst', stride: 0 },
  });
  const [first, second] = ['the quick brown fox', 'x y'];

  test.each<[string, Json, Json, string[]]>([
    ['right by default', {}, {}, ['the', 'quick']],
    ['left', { truncation_side: 'left' }, {}, ['brown', 'fox']],
    ['left in tokenizer.json', {}, truncation('Left'), ['brown', 'fox']],
    ['right, although left in tokenizer.json', { truncation_side: 'right' }, truncation('Left'), ['the', 'quick']],
    ['left, although right in tokenizer.json', { truncation_side: 'left' }, truncation('Right'), ['brown', 'fox']],
  ])('%s', async (_, config, tokenizer, expected) => {
    using model = await heed.fromPretrained(withSettings(config, tokenizer));
    const { tokens, offsets, truncated } = await model.tokenize(first, { maxLength: 4 });
    expect(tokens[0]!.slice(1, -1)).toEqual(expected);
    expect(offsets[0]!.slice(1, -1).map(([start, end]) => first.slice(start, end))).toEqual(expected);
    expect(truncated).toEqual([2]);
    // The vectors are also those of the truncated text.
    const cut = await model.embed(first, { maxLength: 4 });
    expect(cut.data).toEqual((await model.embed(expected.join(' '))).data);
  });

  test('of pairs', async () => {
    using model = await heed.fromPretrained(withSettings({ truncation_side: 'left' }));
    const { tokens } = await model.tokenize(first, { textPairs: second, maxLength: 7 });
    expect(tokens[0]!.filter((token) => !token.startsWith('['))).toEqual(['brown', 'fox', 'x', 'y']);
  });

  test.each(['up', 3])('%j is refused', async (side) => {
    await expect(heed.fromPretrained(withSettings({ truncation_side: side }))).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining("truncation_side: expected 'left' or 'right'"),
    });
  });
});

test.each([
  [true, 'the fox.'],
  [undefined, 'the fox .'],
  [false, 'the fox .'],
])('clean_up_tokenization_spaces: %s', async (clean, expected) => {
  // Without a decoder, because decoders may clean up by themselves, and with a class that does not make one.
  const config = {
    tokenizer_class: 'PreTrainedTokenizerFast',
    ...(clean !== undefined && { clean_up_tokenization_spaces: clean }),
  };
  using model = await heed.fromPretrained(withSettings(config, { decoder: null }));
  const { inputIds } = await model.tokenize('the fox.');
  expect(await model.decode(inputIds[0]!)).toBe(expected);
  expect(await model.decode(inputIds[0]!, { cleanUpTokenizationSpaces: true })).toBe('the fox.');
  expect(await model.decode(inputIds[0]!, { cleanUpTokenizationSpaces: false })).toBe('the fox .');
});

describe('a limit below the number of special tokens', () => {
  test.each([undefined, true, false])('truncation: %s', async (truncation) => {
    using model = await heed.fromPretrained(tinyModel());
    const options = { maxLength: 1, ...(truncation !== undefined && { truncation }) };
    const expected = { code: 'INVALID_ARGUMENT', message: expect.stringMatching(/maxLength: expected at least [23]/) };
    await expect(model.tokenize('the fox', options)).rejects.toMatchObject(expected);
    await expect(model.embed('the fox', options)).rejects.toMatchObject(expected);
    await expect(model.embedTokens('the fox', options)).rejects.toMatchObject(expected);
  });
});
