/** The prompts of a model's folder for queries and for documents. */
import { guarded } from '../base/error.js';
import { oneOf, plainOptions } from '../base/options.js';
import { isTexts, type ModelInput } from './input.js';
import type { EmbedCall, EmbedOptions, PretrainedModel } from './model.js';
import type { VectorOutput, VectorsOf } from './quantized.js';

/** What a text is in a search. */
export type Role = 'query' | 'document';
export const readRole = oneOf<Role>(['query', 'document']);

/**
 * The names of prompts: those that sentence-transformers' encode_query and encode_document look for, and those of Nomic's models. encode_document never gets past `document`, which
 * every model there has, empty unless its folder defines it, so that documents of E5-like models lack their `passage` prompt.
 */
export const PROMPT_NAMES: Record<Role, readonly string[]> = {
  query: ['query', 'search_query'],
  document: ['document', 'passage', 'corpus', 'search_document'],
};

type Prompts = Readonly<Record<string, string>>;

/** The option of `embed` for the first of these prompts that the folder has; none if it has none of them. */
export function namedPrompt(prompts: Prompts, names: readonly string[]): { promptName?: string } {
  const promptName = names.find((name) => Object.hasOwn(prompts, name));
  return promptName === undefined ? {} : { promptName };
}

/** The options of `embed` for texts of a role: with the folder's prompt, unless the caller names one. */
export function withPrompt<O extends Pick<EmbedOptions, 'prompt' | 'promptName'>>(
  prompts: Prompts,
  role: Role,
  options: O,
): O {
  const isGiven = options.prompt !== undefined || options.promptName !== undefined;
  return isGiven ? options : { ...options, ...namedPrompt(prompts, PROMPT_NAMES[role]) };
}

/** The text that these options put before each text; the folder's default prompt, which applies without them, is not known here. */
export function promptText(prompts: Prompts, options: Pick<EmbedOptions, 'prompt' | 'promptName'>): string {
  return options.prompt ?? prompts[options.promptName ?? ''] ?? '';
}

/** `embedQuery` or `embedDocument` of a model. Token ids are embedded as they are. */
export async function embedAs<O extends VectorOutput>(
  model: Pick<PretrainedModel, 'config' | 'embed'>,
  role: Role,
  input: ModelInput,
  given: EmbedCall<O> | undefined,
): Promise<VectorsOf<O>> {
  const owner = role === 'query' ? 'embedQuery' : 'embedDocument';
  const options = plainOptions(owner, given);
  const takesPrompt = guarded('texts', () => isTexts(input));
  return model.embed(input, takesPrompt ? withPrompt(model.config.prompts, role, options) : options);
}
