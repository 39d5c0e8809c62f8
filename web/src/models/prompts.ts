/** The prompts for queries and documents in a model's folder. */
import { guarded } from '../base/error.js';
import { oneOf, plainOptions } from '../base/options.js';
import { isTexts, type ModelInput } from './input.js';
import type { EmbedCall, EmbedOptions, PretrainedModel } from './model.js';
import type { VectorOutput, VectorsOf } from './quantized.js';

/** The role of a text in a search. */
export type Role = 'query' | 'document';
export const readRole = oneOf<Role>(['query', 'document']);

/**
 * The names of prompts, in order of priority: those that sentence-transformers' encode_query and encode_document look
 * for, and those of Nomic's models. encode_document always stops at `document`, because every model has that prompt
 * there, empty unless its folder defines it, so documents of E5-like models do not get their `passage` prompt.
 */
export const PROMPT_NAMES: Record<Role, readonly string[]> = {
  query: ['query', 'search_query'],
  document: ['document', 'passage', 'corpus', 'search_document'],
};

type Prompts = Readonly<Record<string, string>>;

/** The option of `embed` for the first of these prompts that the folder defines; empty if it defines none. */
export function namedPrompt(prompts: Prompts, names: readonly string[]): { promptName?: string | undefined } {
  const promptName = names.find((name) => Object.hasOwn(prompts, name));
  return promptName === undefined ? {} : { promptName };
}

/** The options of `embed` for texts of a role: adds the folder's prompt unless the caller gave one. */
export function withPrompt<O extends Pick<EmbedOptions, 'prompt' | 'promptName'>>(
  prompts: Prompts,
  role: Role,
  options: O,
): O {
  const isGiven = options.prompt !== undefined || options.promptName !== undefined;
  return isGiven ? options : { ...options, ...namedPrompt(prompts, PROMPT_NAMES[role]) };
}

/**
 * The text that these options put before each text. Without them, the folder's default prompt applies, which is not
 * known here.
 */
export function promptText(prompts: Prompts, options: Pick<EmbedOptions, 'prompt' | 'promptName'>): string {
  return options.prompt ?? prompts[options.promptName ?? ''] ?? '';
}

/** Implements `embedQuery` and `embedDocument`. Token ids are embedded as given. */
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
