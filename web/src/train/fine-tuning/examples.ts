/** The examples of `trainClassifier`: their labels, and which are held out. */
import { invalid } from '../../base/error.js';
import { append, groupBy } from '../../base/lists.js';
import type { Reader } from '../../base/options.js';
import { shuffled } from '../../base/random.js';
import type { ExampleSet } from '../../evaluation/labeled-examples.js';
import { fraction } from '../fit/fit-options.js';

/** Reads the option `validation`: a fraction of the examples, or examples, which are read later. */
export const heldOut: Reader<number | object> = (value, name) =>
  typeof value === 'number' ? fraction(value, name) : (value as object);

/** The examples at `indices`. */
export function subset(set: ExampleSet, indices: readonly number[]): ExampleSet {
  return {
    texts: indices.map((i) => set.texts[i]!),
    textPairs: set.textPairs && indices.map((i) => set.textPairs![i]!),
    labels: indices.map((i) => set.labels[i]!),
    isMultiLabel: set.isMultiLabel,
  };
}

/** The labels that occur, sorted by UTF-16 units, as scikit-learn's encoder sorts classes. */
export function labelsOf({ labels, isMultiLabel }: ExampleSet, argument: string): string[] {
  const found = [...new Set(labels.flat())].sort();
  const least = isMultiLabel ? 1 : 2;
  if (found.length >= least) return found;
  throw invalid(argument, `examples of at least ${least} labels`, found.map((label) => `'${label}'`).join() || 'none');
}

/** The random stream by which validation examples are chosen. */
const SPLIT = 2 ** 31 - 1;

/**
 * Splits examples into those for training and those for validation, as indices: `fraction` of the examples per label,
 * at least one, is held out; with several labels per text, `fraction` of all examples.
 * @throws HeedError `INVALID_ARGUMENT` for a label with only one example
 */
export function split(
  { labels, isMultiLabel }: Pick<ExampleSet, 'labels' | 'isMultiLabel'>,
  fraction: number,
  seed: number,
  argument: string,
): { trained: number[]; held: number[] } {
  const groups = groupBy(shuffled(labels.length, seed, SPLIT), (i) => (isMultiLabel ? '' : labels[i]![0]!));
  const trained: number[] = [];
  const held: number[] = [];
  for (const [label, indices] of groups) {
    if (indices.length < 2) {
      const got = isMultiLabel ? 'one example' : `one example of '${label}'`;
      throw invalid(argument, 'at least two examples of each label, one of them to validate with', got);
    }
    const kept = Math.min(indices.length - 1, Math.max(1, Math.round(indices.length * fraction)));
    append(held, indices.slice(0, kept));
    append(trained, indices.slice(kept));
  }
  const order = (a: number, b: number) => a - b;
  return { trained: trained.sort(order), held: held.sort(order) };
}
