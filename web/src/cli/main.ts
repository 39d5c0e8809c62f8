#!/usr/bin/env node
/** The command `heed`: its subcommands and their options. */
import { Command, CommanderError, Option } from 'commander';
import { HeedError } from '../index.js';
import { POOLINGS } from '../models/sentence-transformers.js';
import { version } from '../version.js';
import { classifyTexts, embed, inspect, makeIndex, search } from './commands.js';
import { invalid } from './error.js';
import { FORMATS } from './records.js';
import { addScale, runScale, scaleMode } from './scale.js';

/** An option whose value is one of `legal`, or with `separator` a list of them. */
function choice(flags: string, description: string, legal: readonly string[], separator?: string): Option {
  const option = new Option(flags, description).choices(legal);
  return option.argParser((value: string) => {
    const values = separator ? value.split(separator) : [value];
    const wrong = values.find((name) => !legal.includes(name));
    if (wrong !== undefined) throw invalid(`--${option.name()}`, `one of ${legal.join(', ')}`, `'${wrong}'`);
    return separator ? values : value;
  });
}

/** An option whose value is a whole number of at least 1. */
function count(flags: string, description: string): Option {
  const option = new Option(flags, description);
  return option.argParser((value: string) => {
    if (!/^[1-9]\d{0,8}$/.test(value))
      throw invalid(`--${option.name()}`, 'a whole number of at least 1', `'${value}'`);
    return Number(value);
  });
}

function weightOf(value: string): number {
  const weight = Number(value);
  if (value !== '' && weight >= 0 && weight < Infinity) return weight;
  throw invalid('--weight', 'a number of at least 0', `'${value}'`);
}

/** Throws if both of two exclusive arguments are given. */
function refuseBoth(first: string, second: string, both: boolean): void {
  if (both) throw invalid(first, `only one of ${first} and ${second}`, 'both');
}

const addModel = (command: Command) =>
  command
    .option('--model <folder>', "a model's folder or URL (default: the model in the package)")
    .addOption(choice('--dtype <type>', 'arithmetic: q8 is int8, smaller and faster (default: fp32)', ['fp32', 'q8']));

const addInput = (command: Command) =>
  command
    .addOption(choice('--format <format>', "the files' format (default: by the file's ending, else lines)", FORMATS))
    .option('--field <name>', 'the key (.jsonl) or column (.csv) with the text', 'text');

const addOutput = (command: Command) =>
  command
    .option('--out <file>', 'a .jsonl file, or .npy for vectors (default: JSON lines on standard output)')
    .option('--resume', 'continue an --out file that an earlier run left incomplete');

const addEmbedding = (command: Command) =>
  command
    .addOption(choice('--pooling <mode>', 'one mode, or several joined by + (default: as in the model)', POOLINGS, '+'))
    .addOption(count('--dimensions <n>', 'keep the first n entries of each vector'))
    .option('--prompt <text>', 'text to prepend to every text');

const program = new Command('heed')
  .description('Embed, search and classify texts with transformer encoders.')
  .version(version, '-v, --version')
  .addHelpText(
    'after',
    `
Text files have one text per line; .jsonl and .csv files are read by --field. Without files, texts are read from
standard input. \`heed help <command>\` lists the options of a command.`,
  )
  // Errors are printed below, once, in one line.
  .configureOutput({ outputError: () => {} })
  .exitOverride()
  .on('command:*', ([name]: string[]) => {
    const names = program.commands.map((command) => command.name());
    throw invalid('command', `one of ${names.join(', ')}`, `'${name}'`);
  });

const addCommand = (usage: string, description: string, ...parts: ((command: Command) => Command)[]) =>
  parts.reduce((command, add) => add(command), program.command(usage).description(description));

const embedCommand = addCommand(
  'embed [files...]',
  'compute a vector for each text',
  addModel,
  addInput,
  addEmbedding,
  addOutput,
)
  .option('--normalize', 'scale vectors to length 1 (default: as in the model)')
  .option('--no-normalize', 'leave vectors as they are')
  .action((files, options) => {
    // commander keeps the last of the two.
    const both = ['--normalize', '--no-normalize'].every((flag) => process.argv.includes(flag));
    refuseBoth('--normalize', '--no-normalize', both);
    const mode = scaleMode(embedCommand, files);
    return mode === null ? embed(files, options) : runScale(mode, files, options);
  });
addScale(embedCommand, choice, count);

const nearest = 'print the texts nearest to the query, from files or from an index';
addCommand('search <query> [files...]', nearest, addModel, addInput, addEmbedding)
  .addOption(count('--top <k>', 'number of results (default: 10)'))
  .addOption(
    new Option('--index <folder>', 'search in an index made by `heed index`').conflicts([
      'format',
      'field',
      'dimensions',
    ]),
  )
  .action((query, files, options) => {
    refuseBoth('--index', 'files', options.index !== undefined && files.length > 0);
    return search(query, files, options);
  });

addCommand('classify [files...]', 'compute labels for each text', addModel, addInput, addOutput)
  .addOption(count('--top <k>', 'number of labels per text (default: all)'))
  .action(classifyTexts);

addCommand('index <file>', 'make an int8 search index of a file of texts', addModel, addInput, addEmbedding)
  .requiredOption('--out <file>', 'the index, a .safetensors file; words.txt is written to the same folder')
  .addOption(
    new Option(
      '--weight <w>',
      "weight of the mean of an entry's descriptions relative to its text (default: 1). JSON lines have descriptions: " +
        '{"text": "aunt", "descriptions": ["the sister of a parent", "an uncle\'s wife"]}',
    ).argParser(weightOf),
  )
  .action((file, options) => {
    // The file is read twice, which standard input cannot be.
    if (file === '-') throw invalid('file', "a file's path", "'-' (standard input)");
    return makeIndex(file, options);
  });

addCommand('inspect [model]', 'print the family, sizes and parameters of a model', addModel).action(
  (model, options) => {
    refuseBoth('--model', 'a model', options.model !== undefined && model !== undefined);
    return inspect({ ...options, model: model ?? options.model });
  },
);

/** One line for a mistake of the caller or an error of the system; the stack for any other error. */
function messageOf(error: unknown): string {
  if (error instanceof CommanderError) {
    const { args } = program;
    const help = ['heed', ...program.commands.map((command) => command.name()).filter((name) => name === args[0])];
    return `${error.message.replace(/^error: /, '').replace(/\s*\n/g, ' ')}; \`${help.join(' ')} --help\` lists the options`;
  }
  if (error instanceof HeedError || (error as NodeJS.ErrnoException).syscall) return (error as Error).message;
  return (error as Error).stack ?? String(error);
}

// A reader that closes standard output early (`| head`) is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));

program.parseAsync(process.argv.length > 2 ? process.argv : [...process.argv, '--help']).catch((error: unknown) => {
  if (error instanceof CommanderError && error.exitCode === 0) return; // --help and --version
  process.stderr.write(`heed: ${messageOf(error)}\n`);
  process.exitCode = 1;
});
