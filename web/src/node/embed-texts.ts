/** How commands and runs over corpora embed texts: with the prompt that the model has for their role. */
import type { EmbedOptions, PretrainedModel, VectorOutput } from '../index.js';

/** The role of texts in a search. It selects the prompt of the model's folder, unless `prompt` is given. */
export type TextRole = 'query' | 'document';

type Settings = Omit<EmbedOptions, 'promptName'>;

/** Embeds texts as queries, as documents or, without a role, with the model's default prompt. */
export function embedTexts<O extends VectorOutput = 'float32'>(
  model: PretrainedModel,
  texts: string | string[],
  { role, ...options }: Settings & { role?: TextRole | undefined; output?: O | undefined },
) {
  const method = role === undefined ? 'embed' : role === 'query' ? 'embedQuery' : 'embedDocument';
  return model[method]<O>(texts, options as object);
}
