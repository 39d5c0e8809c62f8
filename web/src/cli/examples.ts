/** Reads labeled examples. All of them are held in memory, because training iterates over them many times. */
import { invalidFile } from '../node/index.js';
import type { ClassifierExample, EmbeddingExamples, ScoredPair } from '../train/index.js';
import { keysOf } from './records.js';
import { type FormatOptions, requireApplicable, rowsOf } from './rows.js';

/** A record's values by key or column. `at`: its location, for messages. */
interface Row {
  readonly at: string;
  readonly values: Readonly<Record<string, unknown>>;
}

export interface ExampleOptions extends FormatOptions {
  /** Key or column of the text. */
  field: string;
  /** Key or column of the second text of a pair. */
  pair?: string;
  /** Key or column of the label. */
  label: string;
  /** Separator between several labels in one cell. */
  labelSeparator?: string;
}

/** Reads all records of the files. `columns`: the columns required in tables, with the options that name them. */
export async function readRows(
  files: readonly string[],
  { format, delimiter }: FormatOptions,
  columns?: ReadonlyMap<string, string>,
): Promise<Row[]> {
  const rows: Row[] = [];
  for (const file of files)
    for await (const { value, at } of rowsOf(file, { format, delimiter, columns, fallback: 'jsonl' })) {
      if (typeof value === 'string')
        throw invalidFile(at, 'an object, such as {"text": "...", "label": "..."}', 'a text');
      rows.push({ at, values: value });
    }
  return rows;
}

/** @throws HeedError for --delimiter without a CSV file among the files of examples */
export const requireCsv = (files: readonly string[], { format, delimiter }: FormatOptions): void =>
  requireApplicable(files, { format, fallback: 'jsonl' }, { '--delimiter': delimiter });

/** A text of a record. `option`: the option that changes the key, for messages. */
export function textOf({ at, values }: Row, key: string, option: string): string {
  const value = values[key];
  if (typeof value === 'string') return value;
  const got = Object.hasOwn(values, key) ? JSON.stringify(value) : keysOf(values);
  throw invalidFile(at, `a text under '${key}'`, `${got}. Name another key with ${option}`);
}

/** Reads examples for `trainClassifier`. */
export async function readExamples(files: readonly string[], options: ExampleOptions): Promise<ClassifierExample[]> {
  const { field, pair, label, labelSeparator } = options;
  const columns = new Map([[field, '--field'], [label, '--label'], ...(pair ? [[pair, '--pair'] as const] : [])]);
  return (await readRows(files, options, columns)).map((row): ClassifierExample => {
    const texts = { text: textOf(row, field, '--field'), ...(pair && { pair: textOf(row, pair, '--pair') }) };
    const value = row.values[label];
    if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return { ...texts, labels: value };
    const given = typeof value === 'number' ? String(value) : textOf(row, label, '--label');
    if (labelSeparator === undefined) return { ...texts, label: given };
    const labels = given.split(labelSeparator).map((each) => each.trim());
    return { ...texts, labels: labels.filter((each) => each !== '') };
  });
}

/** Reads pairs with scores, from the keys or columns a, b and score. */
export async function readScored(files: readonly string[], options: FormatOptions): Promise<ScoredPair[]> {
  return (await readRows(files, options)).map(scoredOf);
}

function scoredOf({ at, values }: Row): ScoredPair {
  const { a, b, score } = values;
  const number = typeof score === 'string' && score.trim() !== '' ? Number(score) : score;
  if (typeof a === 'string' && typeof b === 'string' && typeof number === 'number' && Number.isFinite(number))
    return { a, b, score: number };
  const keys = keysOf(values);
  throw invalidFile(at, 'texts under a, b and a number under score', keys);
}

/**
 * Reads queries and the texts that they should find, from the keys or columns a and b. A query may have several rows.
 * Each distinct text of the rows and of `others` is one document, whose id is the text.
 */
export async function readRelevant(files: readonly string[], others: readonly string[], options: FormatOptions) {
  const relevant = new Map<string, Set<string>>();
  for (const { at, values } of await readRows(files, options)) {
    const { a, b } = values;
    if (typeof a !== 'string' || typeof b !== 'string') throw invalidFile(at, 'texts under a and b', keysOf(values));
    relevant.set(a, (relevant.get(a) ?? new Set()).add(b));
  }
  const byText = (texts: Iterable<string>) => Object.fromEntries([...texts].map((text) => [text, text]));
  const documents = new Set([...[...relevant.values()].flatMap((texts) => [...texts]), ...others]);
  return { queries: byText(relevant.keys()), corpus: byText(documents), relevantDocs: Object.fromEntries(relevant) };
}

const FORMS = [
  ['a', 'b'],
  ['anchor', 'positive', 'negative'],
  ['text', 'label'],
];

/** Reads examples for `trainEmbedding`. Their keys or columns determine their form. */
export async function readSimilar(files: readonly string[], options: FormatOptions): Promise<EmbeddingExamples> {
  const rows = await readRows(files, options);
  if (rows[0] && 'score' in rows[0].values) return rows.map(scoredOf);
  return rows.map(({ at, values }) => {
    const form = FORMS.find((keys) => keys.every((key) => typeof values[key] === 'string'));
    const forms = FORMS.map((keys) => keys.join(', ')).join(' or ');
    if (!form) throw invalidFile(at, `texts under ${forms}`, keysOf(values));
    return Object.fromEntries(form.map((key) => [key, values[key]]));
  }) as unknown as EmbeddingExamples;
}
