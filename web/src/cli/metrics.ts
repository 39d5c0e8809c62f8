/** Formats the metrics of a classifier. */
import type { ClassifierMetrics } from '../train/index.js';
import { aligned } from './terminal.js';

const percent = (part: number) => `${(100 * part).toFixed(1)} %`;

/** The lines of a table with a column of names and columns of numbers. */
export const numberTable = (rows: readonly (readonly string[])[]): string[] => aligned(rows, { numbers: true });

/** The metrics as text: per label, overall, and the confusion matrix. */
export function metricsTable({ count, accuracy, macroF1, labels, confusionMatrix }: ClassifierMetrics): string {
  const names = labels.map(({ label }) => label);
  const perLabel = labels.map(({ label, precision, recall, f1, support }) => [
    label,
    ...[precision, recall, f1].map(percent),
    String(support),
  ]);
  const confusion = confusionMatrix && [
    ['label \\ predicted', ...names],
    ...confusionMatrix.map((row, i) => [names[i]!, ...row.map(String)]),
  ];
  return [
    ...numberTable([['label', 'precision', 'recall', 'F1', 'examples'], ...perLabel]),
    '',
    ...(confusion ? [...numberTable(confusion), ''] : []),
    `accuracy ${percent(accuracy)}, macro F1 ${percent(macroF1)}, ${count.toLocaleString('en')} examples`,
  ].join('\n');
}
