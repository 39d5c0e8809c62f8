/** Labelled texts as readers write and drop them: what can be learned from, and what is wrong with the rest. */

export interface LabelledText {
  text: string;
  label: string;
}

export interface Checked {
  /** What can be learned from, and the positions of these examples in the given list. */
  usable: LabelledText[];
  positions: number[];
  /** What is wrong with an example, or worth knowing; by position. */
  remarks: Map<number, Remark>;
  /** Why nothing can be learned yet. */
  missing: string | null;
}

export interface Remark {
  about: 'text' | 'label';
  message: string;
  /** Whether the example is left out. */
  leftOut: boolean;
}

/** How labels are learned: with AdamW and all examples in each step. `trainClassifier` gets the same options. */
export const recipe = { lr: 0.01, weightDecay: 0.01, epochs: 100 } as const;

/** The epochs after which the map shows what has been learned. */
export const moments = Array.from({ length: 26 }, (_, i) => (i * recipe.epochs) / 25);

/** More would not be learned while one types. */
export const mostExamples = 500;

export function checkExamples(examples: LabelledText[]): Checked {
  const usable: LabelledText[] = [];
  const positions: number[] = [];
  const remarks = new Map<number, Remark>();
  const seen = new Map<string, { label: string; at: number }>();
  /** The first spelling of each label. */
  const spelled = new Map<string, string>();
  for (const [i, example] of examples.entries()) {
    const [text, written] = [example.text.trim(), example.label.trim()];
    const label = spelled.get(written.toLowerCase()) ?? written;
    if (text === '' && label === '') continue;
    const before = seen.get(text);
    const wrong = remarkOn(text, label, before, usable.length);
    if (wrong) {
      remarks.set(i, { ...wrong, leftOut: true });
      continue;
    }
    spelled.set(label.toLowerCase(), label);
    if (label !== written)
      remarks.set(i, { about: 'label', message: `Counts as “${label}”: only the case differs.`, leftOut: false });
    seen.set(text, { label, at: i + 1 });
    usable.push({ text, label });
    positions.push(i);
  }
  const counts = countBy(usable.map(({ label }) => label));
  for (const [n, { label }] of usable.entries())
    if (counts.get(label) === 1)
      remarks.set(positions[n]!, {
        about: 'label',
        message: `The only example of “${label}”: a second one shows whether it can be told apart.`,
        leftOut: false,
      });
  return { usable, positions, remarks, missing: missingIn(usable, counts.size) };
}

function remarkOn(
  text: string,
  label: string,
  before: { label: string; at: number } | undefined,
  usable: number,
): Omit<Remark, 'leftOut'> | undefined {
  if (text === '') return { about: 'text', message: 'Write a text, or remove the label.' };
  if (label === '') return { about: 'label', message: 'Give the text a label.' };
  if (before && before.label !== label)
    return {
      about: 'label',
      message: `Example ${before.at} is the same text with the label “${before.label}”. One of the two is wrong; this one is left out.`,
    };
  if (before) return { about: 'text', message: `The same as example ${before.at}; it counts once.` };
  if (usable >= mostExamples)
    return { about: 'text', message: `Left out: this page learns from up to ${mostExamples} examples.` };
  return undefined;
}

function missingIn(usable: LabelledText[], labels: number): string | null {
  if (usable.length === 0) return 'Write some texts and their labels.';
  if (labels === 1)
    return `All examples have the label “${usable[0]!.label}”. Add examples of at least one other label, so that there is something to tell apart.`;
  return null;
}

function countBy(values: string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

/**
 * Examples in a file: JSON Lines of `{ text, label }`, or CSV with the columns `text` and `label`, or without a header the text first. Commas, semicolons or tabs
 * separate the columns. Throws an Error that says what is wrong.
 */
export async function readExamples(name: string, contents: string): Promise<LabelledText[]> {
  const isJson = /\.(jsonl|ndjson|json)$/i.test(name) || contents.trimStart().startsWith('{');
  const examples = isJson ? readJsonLines(contents) : await readCsv(contents);
  if (examples.length === 0) throw new Error('The file has no examples.');
  return examples;
}

function readJsonLines(contents: string): LabelledText[] {
  return contents.split('\n').flatMap((line, i) => {
    if (line.trim() === '') return [];
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      throw new Error(`Line ${i + 1} is not JSON. Each line should be like {"text": "…", "label": "…"}.`);
    }
    const { text, label } = (value ?? {}) as Record<string, unknown>;
    if (typeof text !== 'string' || !(typeof label === 'string' || typeof label === 'number'))
      throw new Error(`Line ${i + 1} should have a “text” and a “label”, as in {"text": "…", "label": "…"}.`);
    return [cleaned(text, String(label))];
  });
}

async function readCsv(contents: string): Promise<LabelledText[]> {
  const { parse } = await import('./learning-csv');
  const read = (delimiter: string) =>
    parse(contents, { bom: true, skip_empty_lines: true, relax_column_count: true, delimiter }) as string[][];
  const found = delimiters.flatMap((delimiter) => {
    try {
      return [read(delimiter)];
    } catch {
      return [];
    }
  });
  const rows = found.find((rows) => headerOf(rows)) ?? found.find((rows) => rows.every(({ length }) => length === 2));
  return labelledIn(rows ?? readFirst(read));
}

const delimiters = [',', ';', '\t'];

/** The file as CSV with commas, or an Error that says why it is none. */
function readFirst(read: (delimiter: string) => string[][]): string[][] {
  try {
    return read(delimiters[0]!);
  } catch (reason) {
    throw new Error(`The file is not CSV: ${(reason as Error).message}`);
  }
}

/** The places of the columns in a header, if there is one. */
function headerOf(rows: string[][]): { text: number; label: number } | undefined {
  const names = rows[0]?.map((name) => name.trim().toLowerCase()) ?? [];
  const [text, label] = [names.indexOf('text'), names.indexOf('label')];
  return text >= 0 && label >= 0 ? { text, label } : undefined;
}

function labelledIn(rows: string[][]): LabelledText[] {
  const header = headerOf(rows);
  return (header ? rows.slice(1) : rows).map((row, i) => {
    const [textCell, labelCell] = header ? [row[header.text], row[header.label]] : row;
    if (textCell === undefined || labelCell === undefined)
      throw new Error(`Row ${i + (header ? 2 : 1)} should have a text and a label.`);
    return cleaned(textCell, labelCell);
  });
}

/** Examples are written in fields of one line. */
const cleaned = (text: string, label: string): LabelledText => ({
  text: text.replace(/\s+/g, ' ').trim(),
  label: label.replace(/\s+/g, ' ').trim(),
});
