import { HeedError, load, type ModelInput } from 'heed';
import { describe, expect, test } from 'vitest';
import { tinyModel } from './tiny.js';

const heed = await load();

describe('input', () => {
  const cases: [string, unknown, unknown, string][] = [
    ['a number', 3, {}, 'INVALID_ARGUMENT'],
    ['null', null, {}, 'INVALID_ARGUMENT'],
    ['a list with null', ['a', null], {}, 'INVALID_ARGUMENT'],
    ['flat ids', { inputIds: [1, 2] }, {}, 'INVALID_ARGUMENT'],
    ['an id outside the vocabulary', { inputIds: [[1, 80]] }, {}, 'INVALID_ARGUMENT'],
    ['a negative id', { inputIds: [[-1]] }, {}, 'INVALID_ARGUMENT'],
    ['half an id', { inputIds: [[0.5]] }, {}, 'INVALID_ARGUMENT'],
    ['a mask of twos', { inputIds: [[1]], attentionMask: [[2]] }, {}, 'INVALID_ARGUMENT'],
    ['a mask of another length', { inputIds: [[1, 2]], attentionMask: [[1]] }, {}, 'SHAPE_MISMATCH'],
    ['masks for other texts', { inputIds: [[1, 2]], attentionMask: [] }, {}, 'SHAPE_MISMATCH'],
    ['a key beside the ids that is none', { inputIds: [[1]], attention_mask: [[1]] }, {}, 'INVALID_ARGUMENT'],
    ['pairs of token ids', { inputIds: [[1]] }, { textPairs: ['a'] }, 'INVALID_ARGUMENT'],
    ['an unknown type', { inputIds: [[1]], tokenTypeIds: [[2]] }, {}, 'INVALID_ARGUMENT'],
    ['an unknown option', ['a'], { outputAttention: true }, 'INVALID_ARGUMENT'],
    ['a signal that is none', ['a'], { signal: 1 }, 'INVALID_ARGUMENT'],
    ['a limit of nothing', ['a'], { maxLength: 0 }, 'INVALID_ARGUMENT'],
  ];
  test.each(cases)('%s', async (_, given, options, code) => {
    using model = await heed.fromPretrained(tinyModel());
    const error = await model.encode(given as string, options as object).then(
      () => null,
      (e) => e,
    );
    expect(error).toBeInstanceOf(HeedError);
    expect(error.code).toBe(code);
    expect((await model.encode('the fox')).tokens).toEqual([['[CLS]', 'the', 'fox', '[SEP]']]);
  });

  test('the nearest option is named', async () => {
    using model = await heed.fromPretrained(tinyModel());
    await expect(model.encode('a', { outputAttention: true } as object)).rejects.toThrow(/'outputAttentions'/);
    await expect(model.embed({ inputIds: [[1]], attention_mask: [[0]] } as ModelInput)).rejects.toThrow(
      /expected 'attentionMask' .*, got the unknown option 'attention_mask'/,
    );
    await expect(heed.fromPretrained(tinyModel(), { dtype: 'fp16' } as object)).rejects.toThrow(/'fp32'.*'q8'/);
  });
});
