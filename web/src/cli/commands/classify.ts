/** `heed classify`: labels for each text. */
import type { Command } from 'commander';
import { classify } from '../../index.js';
import type { ModelOptions } from '../model.js';
import { addExamples, addInput, addModel, addOutput, count } from '../options.js';
import type { RecordOptions } from '../records.js';
import { type OutputOptions, writeRecords } from '../write-records.js';

type Options = ModelOptions & OutputOptions & RecordOptions & { top?: number };

export function addClassify(program: Command): void {
  const command = program.command('classify [files...]').description('compute labels for each text');
  addModel(command);
  addInput(command);
  addOutput(command).addOption(count('--top <k>', 'number of labels per text (default: all)'));
  addExamples(command, 'heed classify reviews.csv --field review --model ./sentiment').action(classifyTexts);
}

function classifyTexts(files: string[], options: Options): Promise<void> {
  return writeRecords(files, options, 'records', 'texts classified', async (model, texts) => {
    const labels = await classify(model, texts, { topK: options.top });
    return texts.map((text, n) => [{ text, labels: labels[n] }]);
  });
}
