/** `heed inspect`: the family, sizes and parameters of a model. */
import type { Command } from 'commander';
import { type ModelOptions, openModel } from '../model.js';
import { addExamples, addJson, addModel, refuseBoth } from '../options.js';
import { printJson, printTable } from '../terminal.js';

type Options = ModelOptions & { json?: boolean };

export function addInspect(program: Command): void {
  const command = program.command('inspect [model]').description('print the family, sizes and parameters of a model');
  addModel(command);
  addJson(command, 'the configuration as one line of JSON');
  addExamples(command, 'heed inspect ./model').action((model: string | undefined, options: Options) => {
    refuseBoth('--model', 'a model', options.model !== undefined && model !== undefined);
    return inspect({ ...options, model: model ?? options.model });
  });
}

async function inspect(options: Options): Promise<void> {
  using model = await openModel(options);
  const { config } = model;
  if (options.json) return printJson(config);
  printTable([
    ['family', config.family],
    ['parameters', config.parameterCount.toLocaleString('en')],
    ['stored as', config.storage.join(', ')],
    ['layers', `${config.numLayers}`],
    ['heads', `${config.numHeads}`],
    ['width', `${config.embedDim}`],
    ['feed-forward', `${config.feedForwardDim}`],
    ['vocabulary', config.vocabSize.toLocaleString('en')],
    ['longest text', `${config.maxLength} tokens`],
    ['tokenizer', config.hasTokenizer ? 'yes' : 'none: token ids only'],
    ['vectors', `${config.pooling}${config.normalize ? ', normalized' : ''}`],
    ['prompts', Object.keys(config.prompts).join(', ') || 'none'],
    ['labels', config.labels.join(', ') || 'none'],
    ['unused tensors', config.unusedTensors.join(', ') || 'none'],
  ]);
}
