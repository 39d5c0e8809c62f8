/** How well the vocabulary of a model or a tokenizer covers texts. Imported on demand. */
import { invalid } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { listOfTexts, optional, readOptions, signal, text } from '../base/options.js';
import { coverageOf, type VocabularyCoverage } from '../models/coverage.js';
import { type EmbedOptions, type PretrainedModel, requireModel, type TokenizeResult } from '../models/model.js';
import type { TaskOptions } from './task.js';

/** A model or a Tokenizer. */
type CoverageTokenizer =
  | Pick<PretrainedModel, 'tokenize'>
  | { readonly modelMaxLength: number; tokenize(texts: readonly string[]): TokenizeResult };

/** Implements `vocabularyCoverage` of on-demand.ts. */
export async function vocabularyCoverage(
  model: CoverageTokenizer,
  texts: string | readonly string[],
  options?: TaskOptions & Pick<EmbedOptions, 'task'>,
): Promise<VocabularyCoverage[]> {
  requireModel('vocabularyCoverage', model, 'tokenize');
  const read = readOptions('vocabularyCoverage', { signal, task: optional(text, undefined) }, options);
  const list = listOfTexts(texts);
  const found =
    'modelMaxLength' in model ? model.tokenize(list) : await model.tokenize(list, { maxLength: Infinity, ...read });
  const all = await coverageOf(list, found, makeYield(read.signal));
  return all.map((coverage) => {
    if (coverage) return coverage;
    throw invalid('vocabularyCoverage: model', 'tokens with ranges in the text', 'tokens without', 'UNSUPPORTED', {
      hint: "The folder's chat template puts texts into messages. Pass its tokenizer: loadTokenizer(source)",
    });
  });
}
