/** `heed evaluate`: compares the labels that a model predicts with those of examples. */
import type { Command } from 'commander';
import { load } from '../../train/index.js';
import { type ExampleOptions, readExamples } from '../examples.js';
import { metricsTable } from '../metrics.js';
import type { ModelOptions } from '../model.js';
import { addExamples, addJson, addModel } from '../options.js';
import { addLabelled, openModel } from './train.js';

type Options = ModelOptions & ExampleOptions & { json?: boolean };

export function addEvaluate(program: Command): void {
  const command = program.command('evaluate <files...>').description('measure a classifier on labelled texts');
  addModel(command);
  addLabelled(command);
  addJson(command, 'the metrics as JSON');
  addExamples(command, 'heed evaluate test.csv --model ./reviews').action(evaluate);
}

async function evaluate(files: string[], options: Options): Promise<void> {
  const examples = await readExamples(files, options);
  using heed = await load();
  using model = await openModel(heed, { model: options.model, dtype: options.dtype });
  const metrics = await heed.evaluateClassifier(model, examples);
  process.stdout.write(options.json ? `${JSON.stringify(metrics)}\n` : metricsTable(metrics));
}
