/** Reads labelled examples: JSON lines, or CSV with a header. They are read at once, as training goes through them many times. */
import { readFileSync } from 'node:fs';
import { CsvError } from 'csv-parse';
import { HeedError } from '../index.js';
import { invalidFile } from '../node/error.js';
import type { ClassifierExample, EmbeddingExamples, ScoredPair } from '../train/index.js';
import { csvRows } from './records.js';

/** A record by its keys or columns, and where it stands. */
interface Row {
  readonly at: string;
  readonly values: Readonly<Record<string, unknown>>;
}

export interface ExampleOptions {
  format?: 'jsonl' | 'csv';
  /** The keys or columns of texts, second texts and labels. */
  field: string;
  pair?: string;
  label: string;
  /** Separates the labels of a cell, each of which holds. */
  labelSeparator?: string;
}

/** All records of the files. */
export async function readRows(files: readonly string[], format?: 'jsonl' | 'csv'): Promise<Row[]> {
  const rows: Row[] = [];
  // One by one: a call takes about 120,000 arguments.
  for (const file of files) for (const row of await rowsOf(file, format)) rows.push(row);
  return rows;
}

async function rowsOf(file: string, format: 'jsonl' | 'csv' | undefined): Promise<Row[]> {
  let content: string;
  try {
    content = readFileSync(file === '-' ? 0 : file, 'utf8').replace(/^\uFEFF/, '');
  } catch (cause) {
    throw new HeedError('NOT_FOUND', `${file}: cannot be read (${(cause as Error).message})`, { cause });
  }
  if ((format ?? (file.endsWith('.csv') ? 'csv' : 'jsonl')) === 'csv') return csvRecords(content, file);
  return content
    .split(/\r?\n/)
    .flatMap((line, i) => (line.trim() === '' ? [] : [jsonRecord(line, `${file}:${i + 1}`)]));
}

function jsonRecord(line: string, at: string): Row {
  const expected = 'a JSON object, such as {"text": "...", "label": "..."}';
  try {
    const values: unknown = JSON.parse(line);
    if (typeof values === 'object' && values !== null && !Array.isArray(values))
      return { at, values: values as Record<string, unknown> };
  } catch (cause) {
    throw invalidFile(at, expected, 'a line that is not JSON', cause);
  }
  throw invalidFile(at, expected, 'other JSON');
}

async function csvRecords(content: string, file: string): Promise<Row[]> {
  const text = async function* () {
    yield content;
  };
  const rows: string[][] = [];
  try {
    for await (const row of csvRows(text())) rows.push(row);
  } catch (cause) {
    if (!(cause instanceof CsvError)) throw cause;
    throw invalidFile(file, 'CSV as in RFC 4180', `a file that cannot be parsed (${cause.message})`, cause);
  }
  const [header = [], ...cells] = rows;
  return cells.flatMap((row, i) =>
    row.length === 1 && row[0] === ''
      ? []
      : [{ at: `${file}: row ${i + 2}`, values: Object.fromEntries(header.map((name, n) => [name, row[n]])) }],
  );
}

/** A text of a record. `option`: with which another key is named. */
export function textOf({ at, values }: Row, key: string, option: string): string {
  const value = values[key];
  if (typeof value === 'string') return value;
  throw invalidFile(at, `a text under '${key}'`, `${JSON.stringify(value) ?? 'none'}. Name another key with ${option}`);
}

/** Examples for `trainClassifier`. */
export async function readExamples(files: readonly string[], options: ExampleOptions): Promise<ClassifierExample[]> {
  const { field, pair, label, labelSeparator, format } = options;
  return (await readRows(files, format)).map((row): ClassifierExample => {
    const texts = { text: textOf(row, field, '--field'), ...(pair && { pair: textOf(row, pair, '--pair') }) };
    const value = row.values[label];
    if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return { ...texts, labels: value };
    const given = typeof value === 'number' ? String(value) : textOf(row, label, '--label');
    if (labelSeparator === undefined) return { ...texts, label: given };
    const labels = given.split(labelSeparator).map((each) => each.trim());
    return { ...texts, labels: labels.filter((each) => each !== '') };
  });
}

/** Pairs with scores, under the keys or columns a, b, score. */
export async function readScored(files: readonly string[], format?: 'jsonl' | 'csv'): Promise<ScoredPair[]> {
  return (await readRows(files, format)).map(scoredOf);
}

function scoredOf({ at, values }: Row): ScoredPair {
  const { a, b, score } = values;
  const number = typeof score === 'string' && score.trim() !== '' ? Number(score) : score;
  if (typeof a === 'string' && typeof b === 'string' && typeof number === 'number' && Number.isFinite(number))
    return { a, b, score: number };
  const keys = Object.keys(values).join(', ') || 'none';
  throw invalidFile(at, 'texts under a, b and a number under score', keys);
}

/**
 * Queries and the texts that they should find, under the keys or columns a and b. A query may have several rows; each text that a row or `others` has is a document once, by its own text
 * as id.
 */
export async function readRelevant(files: readonly string[], others: readonly string[], format?: 'jsonl' | 'csv') {
  const relevant = new Map<string, Set<string>>();
  for (const { at, values } of await readRows(files, format)) {
    const { a, b } = values;
    if (typeof a !== 'string' || typeof b !== 'string')
      throw invalidFile(at, 'texts under a and b', Object.keys(values).join(', ') || 'none');
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

/** Examples for `trainEmbedding`; which form they have is seen from their keys or columns. */
export async function readSimilar(files: readonly string[], format?: 'jsonl' | 'csv'): Promise<EmbeddingExamples> {
  const rows = await readRows(files, format);
  if (rows[0] && 'score' in rows[0].values) return rows.map(scoredOf);
  return rows.map(({ at, values }) => {
    const form = FORMS.find((keys) => keys.every((key) => typeof values[key] === 'string'));
    const forms = FORMS.map((keys) => keys.join(', ')).join(' or ');
    if (!form) throw invalidFile(at, `texts under ${forms}`, Object.keys(values).join(', ') || 'none');
    return Object.fromEntries(form.map((key) => [key, values[key]]));
  }) as unknown as EmbeddingExamples;
}
