/** The embedding model for the AI SDK, without its packages, which tests/adapters has. */
import { load } from 'heed';
import { embeddingModel } from 'heed/ai-sdk';
import { expect, test, vi } from 'vitest';
import { tinyModel } from './models/tiny.js';

const files = {
  ...tinyModel(),
  'config_sentence_transformers.json': JSON.stringify({ prompts: { document: 'a y ' } }),
};
const values = ['the quick brown fox', '', 'x '.repeat(100)];

test.each([{}, { worker: true }])(
  'usage has the tokens of a call, whose texts are tokenized once: %o',
  async (options) => {
    const heed = await load();
    using model = await heed.fromPretrained(files, options);
    const { inputIds } = await model.tokenize(values.map((text) => `a y ${text}`));
    const tokenize = vi.spyOn(model, 'tokenize');
    const { usage, warnings } = await embeddingModel(model).doEmbed({ values });
    expect(usage).toEqual({ tokens: inputIds.flat().length });
    expect(warnings).toHaveLength(1);
    expect(tokenize).not.toHaveBeenCalled();
  },
);
