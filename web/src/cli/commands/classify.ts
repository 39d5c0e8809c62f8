/** `heed classify`: predicts labels for each text. */

import type { Command } from 'commander';
import { maxOf } from '../../base/lists.js';
import { classify } from '../../index.js';
import type { ModelOptions, ParallelOptions } from '../model.js';
import { addExamples, addInput, addJson, addModel, addOutput, addParallel, count } from '../options.js';
import type { RecordOptions } from '../records.js';
import { displayWidth, printTable } from '../terminal.js';
import { type OutputOptions, writeRecords } from '../write-records.js';

type Options = ModelOptions & ParallelOptions & OutputOptions & RecordOptions & { top?: number };

interface Classified {
  text: string;
  labels: { label: string; score: number }[];
}

export function addClassify(program: Command): void {
  const command = program.command('classify [files...]').description('compute labels for each text');
  addModel(command);
  addInput(command);
  addOutput(command).addOption(count('--top <k>', 'number of labels per text (default: all)'));
  addJson(command, 'JSON lines on a terminal, too, instead of a table with the best labels');
  addParallel(command);
  addExamples(
    command,
    'heed classify reviews.csv --field review --model ./sentiment',
    'heed classify reviews.csv --field review --model ./sentiment --top 1 --out labels.jsonl',
  ).action(classifyTexts);
}

function classifyTexts(files: string[], options: Options): Promise<void> {
  let width = 0;
  return writeRecords(files, options, {
    kind: 'records',
    label: 'classifying',
    async compute(model, texts, signal) {
      width = maxOf(model.config.labels.map(displayWidth));
      const labels = await classify(model, texts, { topK: options.top, signal });
      return texts.map((text, n) => [{ text, labels: labels[n]! } satisfies Classified]);
    },
    ...(process.stdout.isTTY && !options.json && { print: (record: object) => printLabels(record as Classified) }),
  });

  function printLabels({ text, labels }: Classified): void {
    const shown = labels.slice(0, options.top ?? 1);
    printTable(
      shown.map(({ label, score }, n) => [
        label + ' '.repeat(width - displayWidth(label)),
        score.toFixed(3),
        n === 0 ? text : '',
      ]),
    );
  }
}
