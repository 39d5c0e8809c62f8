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
  const count = ({ truncated }: { truncated: readonly number[] }) => {
    for (const tokens of truncated) {
      if (tokens > 0) cut.texts++;
      cut.tokens += tokens;
    }
  };
  const watched = <Result extends { truncated: readonly number[] }>(
    name: 'embed' | 'predict',
    at: number,
    call: (...args: never[]) => Promise<Result>,
  ) => {
    const replaced = async (...args: unknown[]) => {
      if ((args[at + 1] as { truncation?: boolean } | undefined)?.truncation !== undefined)
        return call.apply(model, args as never[]);
      if (!truncation) args[at + 1] = { ...(args[at + 1] as object | undefined), truncation };
      const result = await call.apply(model, args as never[]).catch((error: unknown) => {
        throw withText(error, args[at]);
      });
      count(result);
      return result;
    };
    Object.defineProperty(model, name, { value: replaced });
  };
  watched('embed', 0, model.embed as (...args: never[]) => ReturnType<typeof model.embed>);
  watched('predict', 1, model.predict as (...args: never[]) => ReturnType<typeof model.predict>);
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
