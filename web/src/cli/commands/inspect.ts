/** `heed inspect`: prints the family, sizes and parameters of a model. */
import type { Command } from 'commander';
import { HeedError, load } from '../../index.js';
import { type ModelOptions, remoteOptions } from '../model.js';
import { addExamples, addJson, addModel, refuseBoth } from '../options.js';
import { printJson, printTable } from '../terminal.js';

type Options = ModelOptions & { json?: boolean };

export function addInspect(program: Command): void {
  const command = program.command('inspect [model]').description('print the family, sizes and parameters of a model');
  addModel(command);
  addJson(command, 'the same as one line of JSON');
  addExamples(command, 'heed inspect ./model').action((model: string | undefined, options: Options) => {
    refuseBoth('--model', 'a model', options.model !== undefined && model !== undefined);
    return inspect({ ...options, model: model ?? options.model });
  });
}

async function inspect({ model: source, dtype, json, strict, ...options }: Options): Promise<void> {
  using heed = await load();
  const found = await heed.inspect(source, remoteOptions(options));
  const isRefused = strict && found.unread.length > 0;
  if (isRefused) throw new HeedError('UNSUPPORTED', `--strict: unread settings: ${found.unread.join(', ')}`);
  if (json) return printJson(found);
  const bytes = (count: number | null) => (count === null ? 'unknown' : `${count.toLocaleString('en')} bytes`);
  const { fp32, q8 } = found.memory;
  printTable([
    ['family', found.family],
    ['parameters', found.parameterCount.toLocaleString('en')],
    ['stored as', found.storage.join(', ')],
    ['download', `${bytes(found.download.fp32)}, after \`heed quantize\` ${bytes(found.download.q8)}`],
    ['memory', dtype ? bytes(found.memory[dtype]) : `${bytes(fp32)}, with --dtype q8 ${bytes(q8)}`],
    ['layers', `${found.numLayers}`],
    ['heads', `${found.numHeads}`],
    ['width', `${found.embedDim}`],
    ['feed-forward', `${found.feedForwardDim}`],
    ['vocabulary', found.vocabSize.toLocaleString('en')],
    ['longest text', `${found.maxLength} tokens`],
    ['vectors', `${found.pooling}${found.normalize ? ', normalized' : ''}`],
    ['prompts', Object.keys(found.prompts).join(', ') || 'none'],
    ['labels', found.labels.join(', ') || 'none'],
    ...found.files.map(({ path, bytes: size }): [string, string] => ['file', `${path}, ${bytes(size)}`]),
    ['missing', found.missing.join('; ') || 'nothing'],
    ['unread settings', found.unread.join(', ') || 'none'],
    ['unused tensors', found.unusedTensors.join(', ') || 'none'],
  ]);
  if (found.problem !== null) throw new HeedError('UNSUPPORTED', found.problem);
}
