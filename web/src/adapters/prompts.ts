/** Shared by the adapters: embeds queries and documents with the prompts that the model's folder defines for them. */
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

export interface Call {
  signal?: SignalLike | undefined;
  dimensions?: number | undefined;
}

/** Embeds texts: one array of numbers per text. */
export type EmbedTexts = (role: Role, texts: readonly string[], call?: Call) => Promise<number[][]>;

/**
 * Embeds texts. `tokens`: number of embedded tokens, undefined if the model does not report it. `cut`: number of
 * truncated texts.
 */
export type EmbedAndCount = (
  role: Role,
  texts: readonly string[],
  call?: Call,
) => Promise<{ embeddings: number[][]; tokens: number | undefined; cut: number }>;

/**
 * Reads an adapter's options, which are those of `schema` and the prompts. Returns [embedTexts, options,
 * embedAndCount].
 */
export function makeEmbedTexts<S extends Parameters<typeof readOptions>[1]>(
  owner: string,
  model: Embedder,
  schema: S,
  options: object | undefined,
): [embedTexts: EmbedTexts, read: Read<S>, embedAndCount: EmbedAndCount] {
  requireEmbedder(owner, model);
  const read = readOptions(owner, { ...promptSchema, ...schema }, options);
  const { queryPrompt, documentPrompt } = read as Read<typeof promptSchema>;
  const given = { query: queryPrompt, document: documentPrompt };
  const promptOf = (role: Role): { prompt?: string | undefined; promptName?: string | undefined } =>
    given[role] === undefined ? withPrompt(model.config.prompts, role, {}) : { prompt: given[role] };
  const embedAndCount: EmbedAndCount = async (role, texts, call = {}) => {
    const vectors = await model.embed(texts, { ...promptOf(role), ...definedOf(call) });
    return {
      embeddings: vectors.toArray<number[][]>(),
      tokens: vectors.tokens?.reduce((sum, count) => sum + count, 0),
      cut: (vectors.truncated ?? []).filter((count) => count > 0).length,
    };
  };
  const embedTexts: EmbedTexts = async (role, texts, call = {}) =>
    (await model.embed(texts, { ...promptOf(role), ...definedOf(call) })).toArray<number[][]>();
  return [embedTexts, read as Read<S>, embedAndCount];
}

export function requireEmbedder(owner: string, model: unknown): void {
  if (typeof (model as Embedder | null)?.embed !== 'function')
    throw invalid(`${owner}: model`, 'a model that `fromPretrained` returned', describe(model));
}

/** The defined options of a call. */
function definedOf({ signal, dimensions }: Call): { signal?: SignalLike | undefined; dimensions?: number | undefined } {
  return { ...(signal && { signal }), ...(dimensions !== undefined && { dimensions }) };
}
