/** The prompts for queries and documents in a model's folder. */
import { guarded, invalid } from '../base/error.js';
import { oneOf, plainOptions } from '../base/options.js';
import { isTexts, type ModelInput } from './input.js';
import type { EmbedCall, EmbedOptions, PretrainedModel } from './model.js';
import type { VectorOutput, VectorsOf } from './quantized.js';

/** The role of a text in a search. */
export type Role = 'query' | 'document';
export const readRole = oneOf<Role>(['query', 'document']);

/**
 * The names of prompts, in order of priority: those that sentence-transformers' encode_query and encode_document look
 * for, and those of Nomic's and Jina's models. encode_document always stops at `document`, because every model has that
 * prompt there, empty unless its folder defines it, so documents of E5-like models do not get their `passage` prompt.
 */
const PROMPT_NAMES: Record<Role, readonly string[]> = {
  query: ['query', 'search_query', 'retrieval.query'],
  document: ['document', 'passage', 'corpus', 'search_document', 'retrieval.passage'],
};

type Prompts = Readonly<Record<string, string>>;

/** The options of `embed` for texts of a role: adds the folder's prompt unless the caller gave one. */
export function withPrompt<O extends Pick<EmbedOptions, 'prompt' | 'promptName'>>(
  prompts: Prompts,
  role: Role,
  options: O,
): O {
  const isGiven = options.prompt !== undefined || options.promptName !== undefined;
  const promptName = PROMPT_NAMES[role].find((name) => Object.hasOwn(prompts, name));
  return isGiven || promptName === undefined ? options : { ...options, promptName };
}

/**
 * The index of a task's adapters in `tasks`, the model's tasks with adapters; -1 if there are none or no task is given.
 * For 'query' and 'document', a name in PROMPT_NAMES will do, too.
 */
export function adaptersFor(task: string | undefined, tasks: readonly string[]): number {
  if (task === undefined || tasks.length === 0) return -1;
  const names = [task, ...(PROMPT_NAMES[task as Role] ?? [])];
  const found = names.map((name) => tasks.indexOf(name)).find((i) => i >= 0);
  if (found === undefined) throw invalid('task', `one of ${tasks.join(', ')}, or none`, `'${task}'`);
  return found;
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
  const call = { task: role, ...options };
  return model.embed(input, takesPrompt ? withPrompt(model.config.prompts, role, call) : call);
}
