/** What the adapters share: they embed queries and documents with the prompts that the model's folder has for them. */
import { describe, invalid } from '../base/error.js';
import { optional, type Read, readOptions, text } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import type { Tensor } from '../base/tensor.js';
import { type Role, withPrompt } from '../models/index.js';

/** A model that `fromPretrained` of `heed` or `heed/train` returned, reduced to what adapters use. */
export interface Embedder {
  readonly config: { readonly family: string; readonly prompts: Readonly<Record<string, string>> };
  embed(
    texts: readonly string[],
    options?: {
      prompt?: string | undefined;
      promptName?: string | undefined;
      task?: string | undefined;
      dimensions?: number | undefined;
      signal?: SignalLike | undefined;
    },
  ): Promise<
    Tensor & { readonly truncated?: readonly number[] | undefined; readonly tokens?: readonly number[] | undefined }
  >;
}

export interface PromptOptions {
  /**
   * Text to prepend to each query. Default: the prompt of the model's folder named `query` or `search_query`, else the
   * default prompt of `embed`.
   */
  queryPrompt?: string | undefined;
  /**
   * Text to prepend to each document. Default: the prompt of the model's folder named `document`, `passage`, `corpus`
   * or `search_document`, else the default prompt of `embed`.
   */
  documentPrompt?: string | undefined;
}

const promptSchema = {
  queryPrompt: optional(text, undefined),
  documentPrompt: optional(text, undefined),
};

/**
 * Embeds texts: one array of numbers per text. `tokens`: the number of embedded tokens, undefined if the model does not
 * report it. `cut`: the number of truncated texts.
 */
export type Embed = (
  role: Role,
  texts: readonly string[],
  call?: { signal?: SignalLike | undefined; dimensions?: number | undefined },
) => Promise<{ embeddings: number[][]; tokens: number | undefined; cut: number }>;

/** Reads an adapter's model and options, which are those of `schema` and the prompts. */
export function makeEmbed<S extends Parameters<typeof readOptions>[1]>(
  owner: string,
  model: Embedder,
  schema: S,
  options: object | undefined,
): [embed: Embed, read: Read<S>] {
  requireMethod(owner, model, 'embed');
  const read = readOptions(owner, { ...promptSchema, ...schema }, options);
  const { queryPrompt, documentPrompt } = read as Read<typeof promptSchema>;
  const prompts = { query: queryPrompt, document: documentPrompt };
  const embed: Embed = async (role, texts, call = {}) => {
    const prompt = prompts[role];
    const ofRole = prompt === undefined ? withPrompt(model.config.prompts, role, {}) : { prompt };
    const vectors = await model.embed(texts, { task: role, ...ofRole, ...call });
    return {
      embeddings: vectors.toArray<number[][]>(),
      tokens: vectors.tokens?.reduce((sum, count) => sum + count, 0),
      cut: (vectors.truncated ?? []).filter((count) => count > 0).length,
    };
  };
  return [embed, read as Read<S>];
}

/** Rejects what is not a model. `method`: a method of models. */
export function requireMethod(owner: string, model: unknown, method: 'embed' | 'predict'): void {
  if (typeof (model as Record<string, unknown> | null)?.[method] !== 'function')
    throw invalid(`${owner}: model`, 'a model that `fromPretrained` returned', describe(model));
}
