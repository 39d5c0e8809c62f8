/** Formats the metrics of a classifier. */
import { maxOf } from '../base/lists.js';
import type { ClassifierMetrics } from '../train/index.js';

const percent = (part: number) => `${(100 * part).toFixed(1)} %`;

/** Formats rows of cells as columns, the first left-aligned, the others right-aligned. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => maxOf(rows.map((row) => row[column]!.length)));
  const line = (row: readonly string[]) =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  ');
  return rows.map((row) => `${line(row).trimEnd()}\n`).join('');
}

/** The metrics as text: per label, overall, and the confusion matrix. */
export function metricsTable({ count, accuracy, macroF1, labels, confusionMatrix }: ClassifierMetrics): string {
  const perLabel = table([
    ['label', 'precision', 'recall', 'F1', 'examples'],
    ...labels.map(({ label, precision, recall, f1, support }) => [
      label,
      ...[precision, recall, f1].map(percent),
      String(support),
    ]),
  ]);
  const total = `accuracy ${percent(accuracy)}, macro F1 ${percent(macroF1)}, ${count.toLocaleString('en')} examples\n`;
  if (!confusionMatrix) return `${perLabel}\n${total}`;
  const names = labels.map(({ label }) => label);
  const confusion = table([
    ['label \\ predicted', ...names],
    ...confusionMatrix.map((row, i) => [names[i]!, ...row.map(String)]),
  ]);
  return `${perLabel}\n${confusion}\n${total}`;
}
