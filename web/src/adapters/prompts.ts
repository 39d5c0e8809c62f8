/** Shared by the adapters: embeds queries and documents with the prompts that the model's folder defines for them. */
import { describe, invalid } from '../error.js';
import { optional, type Read, readOptions, text } from '../options.js';
import type { SignalLike } from '../platform.js';
import type { Tensor } from '../tensor.js';

/** What an adapter uses of a model: one that `fromPretrained` returned, of `heed` or of `heed/train`. */
export interface Embedder {
  readonly config: { readonly family: string; readonly prompts: Readonly<Record<string, string>> };
  embed(
    texts: readonly string[],
    options?: { prompt?: string; promptName?: string; dimensions?: number; signal?: SignalLike },
  ): Promise<Tensor>;
}

export interface PromptOptions {
  /** A text to put before each query. Default: the prompt of the model's folder named `query` or `search_query`; if there is none, as `embed` does by default. */
  queryPrompt?: string;
  /** A text to put before each document. Default: the prompt of the model's folder named `document`, `passage`, `corpus` or `search_document`; if there is none, as `embed` does by default. */
  documentPrompt?: string;
}

export const promptSchema = {
  queryPrompt: optional(text, undefined),
  documentPrompt: optional(text, undefined),
};

/** The names of prompts: those of sentence-transformers' encode_query and encode_document, and those of Nomic's models. */
export const PROMPT_NAMES = {
  query: ['query', 'search_query'],
  document: ['document', 'passage', 'corpus', 'search_document'],
};

export type Role = keyof typeof PROMPT_NAMES;

export interface Call {
  signal?: SignalLike | undefined;
  dimensions?: number | undefined;
}

/** Embeds texts: one array of numbers per text. */
export type EmbedTexts = (role: Role, texts: readonly string[], call?: Call) => Promise<number[][]>;

/** Reads the options of an adapter, which are `schema` and the prompts, and returns them with a function that embeds. */
export function makeEmbedTexts<S extends Parameters<typeof readOptions>[1]>(
  owner: string,
  model: Embedder,
  schema: S,
  options: object | undefined,
): [embedTexts: EmbedTexts, read: Read<S>] {
  requireEmbedder(owner, model);
  const read = readOptions(owner, { ...promptSchema, ...schema }, options);
  const { queryPrompt, documentPrompt } = read as Read<typeof promptSchema>;
  const given = { query: queryPrompt, document: documentPrompt };
  const embedTexts: EmbedTexts = async (role, texts, call = {}) => {
    const tensor = await model.embed(texts, {
      ...(given[role] === undefined ? namedPrompt(model, PROMPT_NAMES[role]) : { prompt: given[role] }),
      ...definedOf(call),
    });
    return tensor.toArray<number[][]>();
  };
  return [embedTexts, read as Read<S>];
}

/** The option of `embed` for the first of these prompts that the model has. */
export function namedPrompt({ config }: Embedder, names: readonly string[]): { promptName?: string } {
  const promptName = names.find((name) => Object.hasOwn(config.prompts, name));
  return promptName === undefined ? {} : { promptName };
}

export function requireEmbedder(owner: string, model: unknown): void {
  if (typeof (model as Embedder | null)?.embed !== 'function')
    throw invalid(`${owner}: model`, 'a model that `fromPretrained` returned', describe(model));
}

/** `options` without those that are undefined, which `embed` would refuse to read twice. */
function definedOf({ signal, dimensions }: Call): { signal?: SignalLike; dimensions?: number } {
  return { ...(signal && { signal }), ...(dimensions !== undefined && { dimensions }) };
}
