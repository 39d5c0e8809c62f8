/** Shared by the tests of fine-tuning: tiny models, examples for them, and comparisons of their parameters. */
import type { TrainableModel, TrainingHeed } from 'heed/train';
import { tinyModel } from '../models/tiny.js';

export const tiny = (heed: TrainingHeed, family?: string) =>
  heed.fromPretrained(tinyModel(family), { trainable: true, dropout: 0, seed: 1 });

/** The label depends on which word comes first. */
export const examples = ['x y', 'x z', 'x fox', 'x brown', 'x quick', 'y x', 'y z', 'y fox', 'y brown', 'y quick'].map(
  (text) => ({
    text,
    label: text[0]!,
  }),
);

export const pairs = [
  { a: 'x', b: 'quick fox' },
  { a: 'y', b: 'brown fox' },
  { a: 'z', b: 'the fox' },
  { a: 'a x', b: 'a fox' },
  { a: 'x', b: 'a quick brown fox' },
  { a: 'y z', b: 'the brown fox' },
];

export const stateOf = (model: TrainableModel) =>
  Object.fromEntries(Object.entries(model.stateDict()).map(([name, { data }]) => [name, [...data]]));

export function changed(before: Record<string, number[]>, after: Record<string, number[]>): string[] {
  return Object.keys(after).filter((name) => String(after[name]) !== String(before[name]));
}
