/** The examples of `trainEmbedding`: types and checks. */
import { describe, guarded, invalid } from '../../base/error.js';
import type { Steps } from '../../base/event-loop.js';
import { finite, requireKnown } from '../../base/options.js';
import { type ExampleSet, readEach, readExamples, readText } from '../../evaluation/labeled-examples.js';
import { labelsOf, split } from './examples.js';

/** Two related texts, such as a question and its answer. */
export interface PairExample {
  /** A text. */
  readonly a: string;
  /** A text with a similar meaning. */
  readonly b: string;
}

/** A text with a similar text and a dissimilar one. */
export interface TripletExample {
  /** A text. */
  readonly anchor: string;
  /** A text that is similar to it. */
  readonly positive: string;
  /** A text that is not. */
  readonly negative: string;
}

/**
 * Two texts with their similarity, on any scale where larger numbers mean more similar, such as STS's scores from 0 to
 * 5.
 */
export interface ScoredPair {
  /** A text. */
  readonly a: string;
  /** Another text. */
  readonly b: string;
  /** How similar they are, on any scale. */
  readonly score: number;
}

/** A text and its class; texts of the same class are similar to each other. */
export interface LabeledText {
  /** A text. */
  readonly text: string;
  /** Its label. */
  readonly label: string;
}

/** The examples of `trainEmbedding`, all of the same kind. */
export type EmbeddingExamples =
  | readonly PairExample[]
  | readonly ScoredPair[]
  | readonly TripletExample[]
  | readonly LabeledText[];

/** Examples as rows of texts: pairs, triplets, or single texts with the indices of their labels. */
export interface Rows {
  readonly texts: readonly (readonly string[])[];
  readonly labels: readonly number[] | null;
  /** Whether the labels are scores of pairs. */
  readonly isScored?: boolean | undefined;
}

interface DataOptions {
  readonly validation: number | object | null;
  readonly seed: number;
  readonly batchSize: number | null;
}

const NAME = 'trainEmbedding';

/**
 * An id per row, [N], or for triplets, per row and then per negative, [2 N]. Rows that share one of their first two
 * texts, directly or through other rows, have the same id, as do negatives that are one of these texts. A triplet's own
 * negative gets a different id even if it would have that of its row.
 */
export function groupsOf(rows: readonly (readonly string[])[]): number[] {
  const parents = rows.map((_, i) => i);
  const rootOf = (i: number): number => {
    let at = i;
    while (parents[at] !== at) at = parents[at] = parents[parents[at]!]!;
    return at;
  };
  const seen = new Map<string, number>();
  for (const [i, row] of rows.entries()) {
    for (const text of row.slice(0, 2)) {
      const before = seen.get(text);
      if (before === undefined) seen.set(text, i);
      else parents[rootOf(i)] = rootOf(before);
    }
  }
  const negatives = rows.flatMap(([, , negative], i) => {
    if (negative === undefined) return [];
    const row = seen.get(negative);
    const own = rows.length + i;
    return row === undefined || rootOf(row) === rootOf(i) ? own : rootOf(row);
  });
  return [...rows.map((_, i) => rootOf(i)), ...negatives];
}

const KINDS = [
  ['a', 'b', 'score'],
  ['a', 'b'],
  ['anchor', 'positive', 'negative'],
  ['text', 'label'],
] as const;

/** The examples to train on, and those to validate with. */
export interface EmbeddingData {
  readonly trained: Rows;
  readonly held: Rows | null;
}

/** Rows, and what decides which of them `split` holds out. */
type Read = (given: unknown, argument: string) => Steps<Rows & { strata: Parameters<typeof split>[0] }>;

export function* readEmbeddingData(examples: unknown, options: DataOptions): Steps<EmbeddingData> {
  const { validation, seed, batchSize } = options;
  const kind = kindOf(examples, `${NAME}: examples`);
  const isScored = kind.at(-1) === 'score';
  if (batchSize === 1 && kind[0] !== 'anchor') {
    const what = isScored ? 'pairs' : 'texts';
    throw invalid(`${NAME}.batchSize`, `at least 2: ${what} are compared with others of their batch`, '1');
  }
  const read = kind[0] === 'text' ? labeledReader() : rowReader(kind, isScored);
  const all = yield* read(examples, `${NAME}: examples`);
  if (validation === null) return { trained: all, held: null };
  if (typeof validation !== 'number') return { trained: all, held: yield* read(validation, `${NAME}.validation`) };
  const { trained, held } = split(all.strata, validation, seed, `${NAME}.validation`);
  const part = (indices: readonly number[]) => ({
    texts: indices.map((i) => all.texts[i]!),
    labels: all.labels && indices.map((i) => all.labels![i]!),
    isScored,
  });
  return { trained: part(trained), held: part(held) };
}

/** Reads pairs, with or without scores, and triplets. */
const rowReader = (keys: readonly string[], isScored: boolean): Read =>
  function* (given, argument) {
    const form = `{ ${keys.join(', ')} }`;
    const scores: number[] = [];
    const texts = yield* readEach(argument, given, `[${form}, ...]`, (entry, at) => {
      if (typeof entry !== 'object' || entry === null) throw invalid(at, form, describe(entry));
      const row = { ...(entry as Record<string, unknown>) };
      requireKnown(at, Object.keys(row), keys);
      if (isScored) scores.push(finite(row.score, `${at}.score`));
      return keys.filter((key) => key !== 'score').map((key) => readText(row[key], `${at}.${key}`));
    });
    const strata = { labels: texts.map(() => []), isMultiLabel: true };
    return { texts, labels: isScored ? scores : null, isScored, strata };
  };

/** Reads labeled texts. Labels get numbers in the order of the first list's labels; those of other lists follow. */
function labeledReader(): Read {
  let first: ExampleSet | undefined;
  const known = new Map<string, number>();
  const numberOf = (label: string) => {
    if (!known.has(label)) known.set(label, known.size);
    return known.get(label)!;
  };
  return function* (given, argument) {
    const set = yield* readExamples(argument, given, first);
    if (!first) labelsOf(set, argument).forEach(numberOf);
    first ??= set;
    return {
      texts: set.texts.map((text) => [text]),
      labels: set.labels.map(([label]) => numberOf(label!)),
      strata: set,
    };
  };
}

function kindOf(examples: unknown, argument: string): (typeof KINDS)[number] {
  return guarded(argument, () => {
    const form =
      '[{ a, b }, ...], [{ a, b, score }, ...], [{ anchor, positive, negative }, ...] or [{ text, label }, ...]';
    if (!Array.isArray(examples)) throw invalid(argument, form, describe(examples));
    if (examples.length === 0) throw invalid(argument, 'at least one example', 'none');
    const first: unknown = examples[0];
    const has = (key: string) => typeof first === 'object' && first !== null && key in first;
    const kind = KINDS.find((keys) => has(keys[0]) && (keys[2] !== 'score' || has('score')));
    if (!kind) throw invalid(`${argument}[0]`, form, describe(examples[0]));
    return kind;
  });
}
