/** Labeled examples: reading and checking them. */
import { describe, guarded, invalid } from '../base/error.js';
import type { Steps } from '../base/event-loop.js';
import { lengthOf, listOf, requireKnown, text } from '../base/options.js';

/** A text (or, with `pair`, a pair of texts) with its label (or, with `labels`, all labels that apply). */
export interface ClassifierExample {
  /** A text. */
  readonly text: string;
  /** The second text of a pair. Either all examples have one, or none. */
  readonly pair?: string | undefined;
  /** The only label of the text. */
  readonly label?: string | undefined;
  /** The labels of the text, any number. Either all examples have `labels`, or all have `label`. */
  readonly labels?: readonly string[] | undefined;
}

/** Checked examples. */
export interface ExampleSet {
  readonly texts: readonly string[];
  readonly textPairs: readonly string[] | undefined;
  /** The labels of each text; exactly one unless `isMultiLabel`. */
  readonly labels: readonly (readonly string[])[];
  readonly isMultiLabel: boolean;
}

const labelList = listOf(text, 'an array of labels');

/** The number of examples that are read in a step. */
const BLOCK = 512;

/**
 * Reads a list of examples in steps. `read`: reads the entry at an index; `form`: what the list looks like, for the
 * message.
 */
export function* readEach<T>(
  argument: string,
  given: unknown,
  form: string,
  read: (entry: unknown, at: string, index: number) => T,
): Steps<T[]> {
  if (!Array.isArray(given)) throw invalid(argument, form, describe(given));
  const count = guarded(argument, () => lengthOf(given, argument));
  if (count === 0) throw invalid(argument, 'at least one example', 'none');
  const all: T[] = [];
  for (let first = 0; first < count; first += BLOCK) {
    if (first > 0) yield null;
    guarded(argument, () => {
      for (let i = first; i < Math.min(first + BLOCK, count); i++) all.push(read(given[i], `${argument}[${i}]`, i));
    });
  }
  return all;
}

/**
 * Reads examples. `like`: other examples of the same call; these must have the same fields.
 * @throws HeedError `INVALID_ARGUMENT` for empty texts, for a text with two labels, and for examples that do not all have the same fields
 */
export function* readExamples(argument: string, given: unknown, like?: ExampleSet): Steps<ExampleSet> {
  let first = like && { isMultiLabel: like.isMultiLabel, hasPair: like.textPairs !== undefined };
  const known = new Map<string, { labels: readonly string[]; index: number }>();
  const read = yield* readEach(argument, given, '[{ text, label }, ...]', (value, at, index) => {
    const example = readExample(value, at);
    const { text, pair, labels, isMultiLabel } = example;
    first ??= { isMultiLabel, hasPair: pair !== undefined };
    const others = like ? 'the examples to train on' : 'the first example';
    if ((pair !== undefined) !== first.hasPair)
      throw invalid(
        `${at}.pair`,
        first.hasPair ? `a text, as in ${others}` : `undefined, as in ${others}`,
        describe(pair),
      );
    if (isMultiLabel !== first.isMultiLabel) {
      const [expected, got] = first.isMultiLabel ? ['labels', 'label'] : ['label', 'labels'];
      throw invalid(at, `\`${expected}\`, as in ${others}`, `\`${got}\``);
    }
    const key = pair === undefined ? text : JSON.stringify([text, pair]);
    const before = known.get(key);
    const sorted = labels.length > 1 ? [...labels].sort() : labels;
    if (before && JSON.stringify(before.labels) !== JSON.stringify(sorted)) {
      const shown = (list: readonly string[]) => list.map((label) => `'${label}'`).join(', ') || 'none';
      const expected = `${shown(before.labels)}, as for the same text at [${before.index}]`;
      throw invalid(at, expected, `${shown(sorted)} for ${describe(text)}`, undefined, {
        hint: 'Remove one of the two',
      });
    }
    known.set(key, { labels: sorted, index });
    return example;
  });
  const { isMultiLabel, hasPair } = first!;
  return {
    texts: read.map(({ text }) => text),
    textPairs: hasPair ? read.map(({ pair }) => pair!) : undefined,
    labels: read.map(({ labels }) => labels),
    isMultiLabel,
  };
}

function readExample(value: unknown, at: string) {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw invalid(at, '{ text, label }', describe(value));
  const example = { ...value } as Record<string, unknown>;
  requireKnown(at, Object.keys(example), ['text', 'pair', 'label', 'labels']);
  const hasLabels = example.labels !== undefined;
  if (hasLabels === (example.label !== undefined))
    throw invalid(at, 'either `label` or `labels`', hasLabels ? 'both' : 'none');
  const labels = hasLabels
    ? labelList(example.labels, `${at}.labels`)
    : [readText(example.label, `${at}.label`, 'a label that is not empty')];
  if (new Set(labels).size < labels.length)
    throw invalid(`${at}.labels`, 'each label once', labels.map((label) => `'${label}'`).join(', '));
  return {
    text: readText(example.text, `${at}.text`),
    pair: example.pair === undefined ? undefined : readText(example.pair, `${at}.pair`),
    labels,
    isMultiLabel: hasLabels,
  };
}

/** Reads a text, which must not be empty. */
export function readText(value: unknown, at: string, expected = 'a text that is not empty'): string {
  const read = text(value, at);
  if (read.trim() === '') throw invalid(at, expected, describe(read));
  return read;
}

/** Lists labels in a message: the first ones if there are many. */
export function listLabels(labels: readonly string[]): string {
  const most = 20;
  const shown = labels.slice(0, most).join(', ');
  return labels.length > most ? `${shown} and ${labels.length - most} more` : shown;
}

/**
 * @throws HeedError `INVALID_ARGUMENT` for examples with a label that is not in `labels`. `expected`: what these are, for
 * the message
 */
export function requireLabels(argument: string, set: ExampleSet, labels: readonly string[], expected: string): void {
  const known = new Set(labels);
  for (const list of set.labels)
    for (const label of list)
      if (!known.has(label))
        throw invalid(argument, `${expected} (${listLabels(labels) || 'it has none'})`, describe(label));
}
