/** Options shared by several subcommands, and parsers of their values. */
import { type Command, Option } from 'commander';
import { POOLINGS } from '../models/index.js';
import { FORMATS, invalid } from '../node/index.js';

/**
 * An option whose value `read` converts. It returns undefined for values other than `expected`. `choices`: the values
 * that shells complete.
 */
export function option<T>(
  flags: string,
  description: string,
  expected: string,
  read: (value: string) => T | undefined,
  choices: readonly string[] = [],
): Option {
  const made = new Option(flags, description);
  if (choices.length > 0) made.choices(choices);
  return made.argParser((value: string) => {
    const result = read(value);
    if (result !== undefined) return result;
    throw invalid(`--${made.name()}`, expected, `'${value}'`);
  });
}

/** An option whose value is one of `legal`. */
export const choice = (flags: string, description: string, legal: readonly string[]): Option =>
  option(flags, description, `one of ${legal.join(', ')}`, (value) => legal.find((each) => each === value), legal);

const wholeNumber = (value: string) => (/^[1-9]\d{0,8}$/.test(value) ? Number(value) : undefined);

export const count = (flags: string, description: string): Option =>
  option(flags, description, 'a whole number of at least 1', wholeNumber);

export const countOrAuto = (flags: string, description: string, most: number): Option =>
  option(flags, description, `'auto' or a whole number from 1 to ${most}`, (value) => {
    const number = wholeNumber(value);
    return value === 'auto' ? value : number && number <= most ? number : undefined;
  });

export const number = (
  flags: string,
  description: string,
  expected: string,
  isLegal: (value: number) => boolean,
): Option =>
  option(flags, description, expected, (value) =>
    value.trim() !== '' && isLegal(Number(value)) ? Number(value) : undefined,
  );

export function refuseBoth(first: string, second: string, both: boolean): void {
  if (both) throw invalid(first, `only one of ${first} and ${second}`, 'both');
}

/** Throws if one of the given options, by name, has a value: without the option `needed`, they have no effect. */
export function requireWith(needed: string, given: Readonly<Record<string, unknown>>): void {
  const name = Object.keys(given).find((each) => given[each] !== undefined);
  if (name !== undefined) throw invalid(name, `${needed}, without which it has no effect`, `${name} alone`);
}

/** For a command that has only subcommands, which have been added. It throws if none of them is named. */
export const requireSubcommand = (command: Command): Command =>
  command.allowExcessArguments().action(() => {
    const [given] = command.args;
    const names = command.commands.map((each) => each.name()).join(' or ');
    throw invalid(command.name(), names, given === undefined ? 'nothing' : `'${given}'`);
  });

export const DTYPES = ['fp32', 'q8'] as const;

export const addModel = (command: Command): Command =>
  addDtype(
    addRemote(
      command
        .optionsGroup('Model:')
        .option('--model <folder>', "a model's folder or URL, or its id on a hub (default: the model in the package)")
        .option('--strict', 'fail if the model has settings that heed does not know, which `heed inspect` lists'),
    ),
  );

export const addDtype = (command: Command): Command =>
  command.addOption(
    choice(
      '--dtype <type>',
      'arithmetic: q8 is int8, smaller and faster (default: q8 for the model in the package, fp32 for others)',
      DTYPES,
    ),
  );

/** Options of commands that read a model from a hub. */
export const addRemote = (command: Command): Command =>
  command
    .optionsGroup('Model:')
    .option('--remote-host <url>', 'the hub of models that are named by their id (default: HF_ENDPOINT, if it is set)')
    .option(
      '--cache <folder>',
      "the folder for downloaded files (default: heed's folder in the user's cache directory)",
    )
    .option('--no-cache', 'download files each time')
    .option('--refresh', 'ask the host for newer versions of cached files');

/** Options of commands that read files of texts. */
export const addTexts = (command: Command): Command =>
  addFormat(command, 'lines').option('--field <name>', 'the key (JSON) or column (CSV) with the text', 'text');

/** Options for the format of files. `fallback`: format of files with unknown extensions. */
export const addFormat = (command: Command, fallback: 'lines' | 'jsonl'): Command =>
  command
    .optionsGroup('Input:')
    .addOption(
      choice(
        '--format <format>',
        `the files' format (default: by the file's extension, else ${fallback})`,
        fallback === 'lines' ? FORMATS : FORMATS.filter((format) => format !== 'lines'),
      ),
    )
    .addOption(
      option(
        '--delimiter <character>',
        "separator of a CSV file's columns, such as ';' or tab (default: ,)",
        "one character, or 'tab'",
        (value) => (value === 'tab' || value === '\\t' ? '\t' : /^[^"\r\n]$/.test(value) ? value : undefined),
      ),
    );

/** `idOf`: what --id does. */
export const addInput = (
  command: Command,
  idOf = 'the key or column with the id, copied to the output (default: id, if there is one)',
): Command =>
  addTexts(command)
    .option('--id <name>', idOf)
    .option(
      '--no-truncation',
      "fail on texts that exceed the model's token limit (default: truncate them, with a warning)",
    );

export const addOutput = (command: Command): Command =>
  command
    .optionsGroup('Output:')
    .option('--out <file>', 'a .jsonl file, or .npy for vectors (default: JSON lines on standard output)');

/** Options of commands that embed texts. `prompts`: the default of --prompt. */
export const addEmbedding = (
  command: Command,
  prompts = "the model's prompts for queries and for documents",
): Command =>
  command
    .optionsGroup('Vectors:')
    .addOption(
      option(
        '--pooling <mode>',
        'one mode, or several joined by + (default: as in the model)',
        `one of ${POOLINGS.join(', ')}, or several joined by +`,
        (value) => {
          const modes = value.split('+');
          return modes.every((mode) => (POOLINGS as readonly string[]).includes(mode)) ? modes : undefined;
        },
        POOLINGS,
      ),
    )
    .addOption(count('--dimensions <n>', 'keep the first n entries of each vector'))
    .option('--prompt <text>', `text to prepend to every text (default: ${prompts})`);

const OUTPUT = 'float32, int8 with a scale per vector, or binary: signs as bits (default: float32)';

export const addVectors = (command: Command): Command =>
  addEmbedding(command, "the model's default prompt, if it has one")
    .addOption(
      choice('--role <role>', "prepend the model's prompt for queries or for documents", [
        'query',
        'document',
      ]).conflicts('prompt'),
    )
    .option('--normalize', 'scale vectors to unit length (default: as in the model)')
    .option('--no-normalize', 'do not scale vectors')
    .addOption(choice('--type <type>', OUTPUT, ['float32', 'int8', 'binary']));

/** commander keeps the last of the two. */
export function refuseBothNormalizations(): void {
  const both = ['--normalize', '--no-normalize'].every((flag) => process.argv.includes(flag));
  refuseBoth('--normalize', '--no-normalize', both);
}

export const addParallel = (command: Command): Command =>
  command
    .optionsGroup('Speed:')
    .addOption(
      countOrAuto(
        '--workers <n>',
        'number of workers, each with a copy of the model, or auto: one per core, up to 8 (default: one per 8 KiB of input, up to one per core, as memory allows)',
        64,
      ),
    )
    .addOption(
      countOrAuto(
        '--threads <n>',
        'number of threads that share one copy of the model, instead of workers, or auto: up to 4',
        16,
      ),
    );

/** Adds --json to a command with human-readable output. */
export const addJson = (command: Command, what: string): Command =>
  command.optionsGroup('Output:').option('--json', `print ${what}`);

export const addExamples = (command: Command, ...lines: string[]): Command =>
  command.addHelpText('after', ['', 'Examples:', ...lines.map((line) => `  ${line}`)].join('\n'));
