/** The examples of `trainEmbedding`: types and checks. */
import { describe, guarded, invalid } from '../../base/error.js';
import type { Steps } from '../../base/event-loop.js';
import { indicesOf } from '../../base/lists.js';
import { finite, requireKnown } from '../../base/options.js';
import { type ExampleSet, labelsOf, readEach, readExamples, readText, split, subset } from './examples.js';

/** Two related texts, such as a question and its answer. */
export interface PairExample {
  readonly a: string;
  readonly b: string;
}

/** A text with a similar text and a dissimilar one. */
export interface TripletExample {
  readonly anchor: string;
  readonly positive: string;
  readonly negative: string;
}

/**
 * Two texts with their similarity, on any scale where larger numbers mean more similar, such as STS's scores from 0 to
 * 5.
 */
export interface ScoredPair {
  readonly a: string;
  readonly b: string;
  readonly score: number;
}

/** A text and its class; texts of the same class are similar to each other. */
export interface LabelledText {
  readonly text: string;
  readonly label: string;
}

/** The examples of `trainEmbedding`, all of the same kind. */
export type EmbeddingExamples =
  | readonly PairExample[]
  | readonly ScoredPair[]
  | readonly TripletExample[]
  | readonly LabelledText[];

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
interface Data {
  readonly trained: Rows;
  readonly held: Rows | null;
}

export function* readData(examples: unknown, options: DataOptions): Steps<Data> {
  const { validation, seed, batchSize } = options;
  const kind = kindOf(examples, `${NAME}: examples`);
  if (kind.at(-1) === 'score') return yield* readScored(examples, options);
  if (batchSize === 1 && kind.length < 3)
    throw invalid(`${NAME}.batchSize`, 'at least 2: texts are compared with others of their batch', '1');
  if (kind[0] === 'text') return yield* readLabelled(examples, options);
  const read = yield* readRows(examples, kind, `${NAME}: examples`);
  const rows = (texts: readonly (readonly string[])[]): Rows => ({ texts, labels: null });
  if (validation === null) return { trained: rows(read), held: null };
  if (typeof validation !== 'number')
    return { trained: rows(read), held: rows(yield* readRows(validation, kind, `${NAME}.validation`)) };
  const set = { texts: [], textPairs: undefined, labels: read.map(() => []), isMultiLabel: true };
  const { trained, held } = split(set, validation, seed, `${NAME}.validation`);
  return { trained: rows(trained.map((i) => read[i]!)), held: rows(held.map((i) => read[i]!)) };
}

/** Pairs with scores. */
function* readScored(examples: unknown, { validation, seed, batchSize }: DataOptions): Steps<Data> {
  if (batchSize === 1)
    throw invalid(`${NAME}.batchSize`, 'at least 2: pairs are compared with others of their batch', '1');
  const rowsOf = function* (given: unknown, argument: string): Steps<Rows & { labels: number[] }> {
    const scores: number[] = [];
    const texts = yield* readRows(given, ['a', 'b', 'score'], argument, (row, at) => {
      scores.push(finite(row.score, `${at}.score`));
    });
    return { texts, labels: scores, isScored: true };
  };
  const all = yield* rowsOf(examples, `${NAME}: examples`);
  if (validation === null) return { trained: all, held: null };
  if (typeof validation !== 'number') return { trained: all, held: yield* rowsOf(validation, `${NAME}.validation`) };
  const set = { texts: [], textPairs: undefined, labels: all.labels.map(() => []), isMultiLabel: true };
  const { trained, held } = split(set, validation, seed, `${NAME}.validation`);
  const part = (rows: number[]) => ({
    texts: rows.map((i) => all.texts[i]!),
    labels: rows.map((i) => all.labels[i]!),
    isScored: true,
  });
  return { trained: part(trained), held: part(held) };
}

function* readLabelled(examples: unknown, { validation, seed }: DataOptions): Steps<Data> {
  const all = yield* readExamples(`${NAME}: examples`, examples);
  const known = indicesOf(labelsOf(all, `${NAME}: examples`));
  const rows = ({ texts, labels }: ExampleSet): Rows => ({
    texts: texts.map((text) => [text]),
    labels: labels.map(([label]) => indexOf(label!)),
  });
  const indexOf = (label: string) => {
    if (!known.has(label)) known.set(label, known.size);
    return known.get(label)!;
  };
  if (validation === null) return { trained: rows(all), held: null };
  if (typeof validation !== 'number')
    return { trained: rows(all), held: rows(yield* readExamples(`${NAME}.validation`, validation, all)) };
  const { trained, held } = split(all, validation, seed, `${NAME}.validation`);
  return { trained: rows(subset(all, trained)), held: rows(subset(all, held)) };
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

/** Reads rows of texts. `note` reads the `score` of a row, which is not a text. */
function* readRows(
  examples: unknown,
  keys: readonly string[],
  argument: string,
  note?: (row: Record<string, unknown>, at: string) => void,
): Steps<string[][]> {
  const form = `{ ${keys.join(', ')} }`;
  const texts = keys.filter((key) => key !== 'score');
  return yield* readEach(argument, examples, `[${form}, ...]`, (entry, at) => {
    if (typeof entry !== 'object' || entry === null) throw invalid(at, form, describe(entry));
    const row = { ...(entry as Record<string, unknown>) };
    requireKnown(at, Object.keys(row), keys);
    note?.(row, at);
    return texts.map((key) => readText(row[key], `${at}.${key}`));
  });
}
