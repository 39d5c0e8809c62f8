/**
 * Classification with labels that the model was not trained on, by natural language inference of a hypothesis about
 * each label (Yin et al. 2019, arXiv:1909.00161).
 */
import { describe, invalid } from '../base/error.js';
import { flag, listOfTexts, optional, type Reader, text } from '../base/options.js';
import { best, softmax } from '../base/scores.js';
import type { PretrainedModel } from '../models/model.js';
import type { Label } from './classification.js';
import { type TaskOptions, taskOptions } from './task.js';

/** Options of `zeroShotClassify`. */
export interface ZeroShotOptions extends TaskOptions {
  /** The hypothesis; {} stands for the label. Default 'This example is {}.' */
  hypothesisTemplate?: string | undefined;
  /** Whether any number of labels may apply, so that each is scored separately. Default false: exactly one applies. */
  multiLabel?: boolean | undefined;
}

const template: Reader<string> = (value, name) => {
  if (text(value, name).includes('{}')) return value as string;
  throw invalid(name, "a text with '{}' in place of the label", describe(value));
};

const schema = {
  hypothesisTemplate: optional(template, 'This example is {}.'),
  multiLabel: optional(flag, false),
};

/** Implements `zeroShotClassify`, which imports this module when it is called; see api/on-demand.ts. */
export async function zeroShotClassify(
  model: PretrainedModel,
  texts: string | readonly string[],
  labels: string | readonly string[],
  options?: ZeroShotOptions,
): Promise<Label[][]> {
  const [{ hypothesisTemplate, multiLabel }, call] = taskOptions('zeroShotClassify', model, schema, options);
  const premises = listOfTexts(texts);
  const candidates = listOfTexts(labels, 'labels');
  if (candidates.length === 0) throw invalid('labels', 'at least one label', 'none');
  const names = model.config.labels.map((name) => name.toLowerCase());
  const entailment = names.findIndex((name) => name.startsWith('entail'));
  if (entailment < 0)
    throw invalid(
      'model',
      "a head with a label 'entailment'",
      `labels ${names.join(', ') || 'without names'}`,
      'UNSUPPORTED',
      { hint: 'Load a model that was trained on natural language inference (NLI)' },
    );
  // transformers takes the first label as contradiction, or the last if the first is entailment.
  const named = ['contradiction', 'not_entailment'].map((name) => names.indexOf(name)).find((id) => id >= 0);
  const contradiction = named ?? (entailment === 0 ? names.length - 1 : 0);
  const hypotheses = candidates.map((label) => hypothesisTemplate.replace('{}', () => label));
  const pairs = premises.flatMap((premise) => hypotheses.map((hypothesis) => [premise, hypothesis] as const));
  const textPairs = pairs.map(([, hypothesis]) => hypothesis);
  const { logits } = await model.predict(
    'sequence-classification',
    pairs.map(([premise]) => premise),
    { ...call, textPairs },
  );
  const width = logits.shape[1]!;
  const count = candidates.length;
  return premises.map((_, n) => {
    const logit = (i: number, id: number) => logits.data[(n * count + i) * width + id]!;
    const entailments = Float32Array.from(candidates, (_, i) => logit(i, entailment));
    const scores =
      multiLabel || count === 1
        ? entailments.map((x, i) => softmax(Float32Array.of(logit(i, contradiction), x))[1]!)
        : softmax(entailments);
    return best(scores, count).map(({ index, score }) => ({ label: candidates[index]!, score }));
  });
}
