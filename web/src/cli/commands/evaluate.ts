/** `heed evaluate`: compares the labels that a model predicts with those of examples. */
import type { Command } from 'commander';
import { load } from '../../train/index.js';
import { type ExampleOptions, readExamples } from '../examples.js';
import { metricsTable } from '../metrics.js';
import type { ModelOptions } from '../model.js';
import { addExamples, addModel } from '../options.js';
import { ProgressLine } from '../progress.js';
import { addLabelled } from './train.js';

type Options = ModelOptions & ExampleOptions & { json?: boolean };

export function addEvaluate(program: Command): void {
  const command = program.command('evaluate <files...>').description('measure a classifier on labelled texts');
  addModel(command);
  addLabelled(command);
  command.optionsGroup('Output:').option('--json', 'print the metrics as JSON');
  addExamples(command, 'heed evaluate test.csv --model ./reviews').action(evaluate);
}

async function evaluate(files: string[], options: Options): Promise<void> {
  const examples = await readExamples(files, options);
  const heed = await load();
  const progress = new ProgressLine('loading, bytes');
  using model = await heed.fromPretrained(options.model, {
    ...(options.dtype && { dtype: options.dtype }),
    onProgress: ({ loaded }) => progress.update(loaded),
  });
  progress.end();
  const metrics = await heed.evaluateClassifier(model, examples);
  process.stdout.write(options.json ? `${JSON.stringify(metrics)}\n` : metricsTable(metrics));
}
