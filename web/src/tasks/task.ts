/** Shared by the tasks: their options and labels. */
import { plainOptions, type Read, type Reader, readOptions } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import { type PretrainedModel, requireModel, type TextHead } from '../models/model.js';

/** Options of all tasks. */
export interface TaskOptions {
  /** Stops the call, which rejects with the signal's reason. */
  signal?: SignalLike | undefined;
}

/**
 * Splits the given options into the task's own, which are read here, and the others, which the model's `predict` reads.
 */
export function taskOptions<S extends Record<string, Reader<unknown>>>(
  task: string,
  model: PretrainedModel | TextHead,
  schema: S,
  given: object | undefined,
): [own: Read<S>, call: object] {
  requireModel(task, model, 'predict');
  const entries = Object.entries(plainOptions(task, given));
  const isOwn = ([name]: [string, unknown]) => Object.hasOwn(schema, name);
  const own = readOptions(task, schema, Object.fromEntries(entries.filter(isOwn)));
  return [own, Object.fromEntries(entries.filter((entry) => !isOwn(entry)))];
}

export function labelOf(model: Pick<TextHead, 'config'>, index: number): string {
  return model.config.labels[index] ?? `LABEL_${index}`;
}
