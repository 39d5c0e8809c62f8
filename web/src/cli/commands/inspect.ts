/** `heed inspect`: the family, sizes and parameters of a model. */
import type { Command } from 'commander';
import { type ModelOptions, openModel } from '../model.js';
import { addExamples, addModel, refuseBoth } from '../options.js';

export function addInspect(program: Command): void {
  const command = program.command('inspect [model]').description('print the family, sizes and parameters of a model');
  addModel(command);
  addExamples(command, 'heed inspect ./model').action((model: string | undefined, options: ModelOptions) => {
    refuseBoth('--model', 'a model', options.model !== undefined && model !== undefined);
    return inspect({ ...options, model: model ?? options.model });
  });
}

async function inspect(options: ModelOptions): Promise<void> {
  using model = await openModel(options);
  const { config } = model;
  const rows: [string, unknown][] = [
    ['family', config.family],
    ['parameters', config.parameterCount.toLocaleString('en')],
    ['stored as', config.storage.join(', ')],
    ['layers', config.numLayers],
    ['heads', config.numHeads],
    ['width', config.embedDim],
    ['feed-forward', config.feedForwardDim],
    ['vocabulary', config.vocabSize.toLocaleString('en')],
    ['longest text', `${config.maxLength} tokens`],
    ['tokenizer', config.hasTokenizer ? 'yes' : 'none: token ids only'],
    ['vectors', `${config.pooling}${config.normalize ? ', normalized' : ''}`],
    ['prompts', Object.keys(config.prompts).join(', ') || 'none'],
    ['labels', config.labels.join(', ') || 'none'],
    ['unused tensors', config.unusedTensors.join(', ') || 'none'],
  ];
  for (const [name, value] of rows) process.stdout.write(`${name.padEnd(16)}${String(value)}\n`);
}
