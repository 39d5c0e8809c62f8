/** Shared by the tasks: their options, and the step from logits to scores. */
import { describe, guarded, invalid } from '../../error.js';
import {
  listOf,
  plainOptions,
  type Read,
  type Reader,
  readOptions,
  sizeOrInfinity,
  text,
  texts,
} from '../../options.js';
import type { SignalLike } from '../../platform.js';
import type { PretrainedModel } from '../model.js';

export interface TaskOptions {
  /** Stops the call; it rejects with the signal's reason. */
  signal?: SignalLike;
}

/** The number of results; Infinity: all. */
export const topCount = sizeOrInfinity;
export const strings = listOf(text, 'an array of strings');

/** Refuses what is not a model: something without its method `method`. */
export function requireModel(owner: string, model: unknown, method: keyof PretrainedModel): void {
  if (typeof guarded(`${owner}: model`, () => (model as PretrainedModel | null)?.[method]) !== 'function')
    throw invalid(`${owner}: model`, 'a model that `fromPretrained` returned', describe(model));
}

/** Separates a task's own options, which are read here, from the others, which the model's `predict` reads. */
export function taskOptions<S extends Record<string, Reader<unknown>>>(
  task: string,
  model: PretrainedModel,
  schema: S,
  given: object | undefined,
): [own: Read<S>, call: object] {
  requireModel(task, model, 'predict');
  const entries = Object.entries(plainOptions(task, given));
  const isOwn = ([name]: [string, unknown]) => Object.hasOwn(schema, name);
  const own = readOptions(task, schema, Object.fromEntries(entries.filter(isOwn)));
  return [own, Object.fromEntries(entries.filter((entry) => !isOwn(entry)))];
}

/** One text or several, as a list. */
export function listOfTexts(input: unknown, name = 'texts'): string[] {
  const given = texts(input, name);
  return typeof given === 'string' ? [given] : given;
}

export function labelOf(model: PretrainedModel, index: number): string {
  return model.config.labels[index] ?? `LABEL_${index}`;
}

export function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

export function softmax(row: Float32Array): Float32Array {
  const max = row.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = row.map((x) => Math.exp(x - max));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((p) => p / sum);
}
