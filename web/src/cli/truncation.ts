/** Warns about texts that exceed the model's limit of tokens, or rejects them. */
import { describe } from '../base/error.js';
import { HeedError, type PretrainedModel } from '../index.js';
import { counted, notice } from './terminal.js';

/**
 * Makes a model count the texts that its calls truncate, and warn about them on standard error when it is disposed of.
 * If `truncation` is false, texts that are too long are errors. Calls that set `truncation` are not affected.
 * @returns the model itself
 */
export function watchTruncation(model: PretrainedModel, truncation: boolean): PretrainedModel {
  const cut = { texts: 0, tokens: 0 };
  // The texts are the first argument of `embed`, and the second one of `predict`.
  for (const [name, at] of [['embed', 0] as const, ['predict', 1] as const]) {
    const call = model[name] as (...args: unknown[]) => Promise<{ truncated: readonly number[] }>;
    const value = async (...args: unknown[]) => {
      const options = args[at + 1] as { truncation?: boolean } | undefined;
      if (options?.truncation !== undefined) return call.apply(model, args);
      if (!truncation) args[at + 1] = { ...options, truncation };
      const result = await call.apply(model, args).catch((error: unknown) => {
        throw withText(error, args[at]);
      });
      for (const tokens of result.truncated) {
        if (tokens > 0) cut.texts++;
        cut.tokens += tokens;
      }
      return result;
    };
    Object.defineProperty(model, name, { value });
  }
  const dispose = model.dispose.bind(model);
  Object.defineProperty(model, 'dispose', {
    value: () => {
      dispose();
      if (cut.texts > 0) warn(cut, model.config.maxLength);
      cut.texts = 0;
    },
  });
  return model;
}

function warn(cut: { texts: number; tokens: number }, limit: number): void {
  const what = `${counted(cut.texts, 'text')} cut to the model's limit of ${limit} tokens, ${counted(cut.tokens, 'token')} dropped`;
  notice(`${what}; --no-truncation makes that an error`, 'yellow');
}

/** Replaces the index of a text that is too long by the text itself in an error's message. */
function withText(error: unknown, texts: unknown): unknown {
  if (!(error instanceof HeedError) || error.code !== 'TOO_LONG') return error;
  const [, n = '0', expected] = /^texts\[(\d+)\]: (expected .*?)\. Shorten/.exec(error.message) ?? [];
  if (expected === undefined) return error;
  const text = [texts].flat()[Number(n)];
  return new HeedError('TOO_LONG', `${describe(text)}: ${expected}. Shorten it, or leave out --no-truncation`, {
    cause: error,
  });
}
