/** Reports errors that end the command: one line on standard error, and the exit code. */
import { type Command, CommanderError } from 'commander';
import { HeedError } from '../index.js';
import { subcommandsOf } from './complete.js';
import { inOneLine, notice } from './terminal.js';

/** Exit code for errors while the command runs. */
const FAILURE = 1;
/** Exit code for an invalid command line: a wrong command, option or value. */
const WRONG_USAGE = 2;

export function report(error: unknown, program: Command): void {
  notice(messageOf(error, program), 'red');
  const { code, cause } = error as HeedError;
  const isUsage = error instanceof CommanderError || (code === 'INVALID_ARGUMENT' && !isSystemError(cause));
  process.exitCode = isUsage ? WRONG_USAGE : FAILURE;
}

/** Whether the operating system reported the error, such as for writing to a full disk. */
const isSystemError = (error: unknown) => (error as NodeJS.ErrnoException | undefined)?.syscall !== undefined;

/** One line for errors of usage or of the system; the stack trace for any other error. */
function messageOf(error: unknown, program: Command): string {
  if (error instanceof CommanderError) return usageMessage(error, program);
  if (error instanceof HeedError || isSystemError(error))
    return inOneLine(asOption((error as Error).message, optionsOf(program, program.args), program.args));
  return (error as Error).stack ?? String(error);
}

/** Options of the command line with other names than in the library. */
const RENAMED: Readonly<Record<string, string>> = {
  classWeight: 'balanced',
  output: 'type',
  topK: 'top',
};

/** Functions of the library whose options the commands pass on, by the names that messages begin with. */
const OWNERS =
  'TextIndex|add|classify|embed|embedTokens|encode|evaluateClassifier|evaluateEmbeddingSimilarity|evaluateInformationRetrieval|finishEmbedding|fromPretrained|inspect|listCache|clearCache|load|planEmbedding|predict|prune|quantize|save|search|tokenize|trainClassifier|trainEmbedding|workEmbedding';
const OPTION = new RegExp(`^(?:(?:${OWNERS})(?:\\.[A-Za-z]+)*\\.)?([A-Za-z]+)(?=(?:\\[\\d+\\])?: )`);

/**
 * Replaces options of the library in a message by those of the command, `flags`. `args`: the command line, whose files
 * keep their names.
 */
function asOption(message: string, flags: readonly string[], args: readonly string[]): string {
  const isGiven = args.some((arg) => message.startsWith(`${arg.replace(/^--[\w-]+=/, '')}: `));
  const named = message.replace(OPTION, (given, name: string) => {
    const flag = `--${RENAMED[name] ?? name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    return flags.includes(flag) && !isGiven ? flag : given;
  });
  return OPTIONS.reduce((text, [theirs, ours]) => text.replace(theirs, ours), named);
}

const OPTIONS: [string | RegExp, string][] = [
  ["`output` 'float32' or 'binary'", '--type float32 or binary'],
  ["`output` 'binary'", '--type binary'],
  ['run it again, or with `queueTimeout` Infinity', 'run the same command again, or with --retry'],
  [/(?<=copy .*)by `model`/, 'with `heed corpus work DIR --model`'],
  [/^source: expected a folder's path or URL, or its files' bytes/, "model: expected a folder's path or URL"],
  ['give its host as `remoteHost` or in', 'give its host with --remote-host or in'],
  ['give a token as `token`, or in', 'give a token in'],
  [
    'Open the index with the model that it was made with, or build it again with this model',
    'Name the model that the index was made with by --model, or build the index again with `heed index`',
  ],
  [
    'Load a model that was trained for this task, or train one with heed/train',
    'Name a model that was trained for this task with --model, or train one with `heed train`',
  ],
];

/** Options that commands once had, and what replaces them. */
const FORMER: Readonly<Record<string, string>> = {
  'embed --plan': '`heed corpus plan`',
  'embed --work': '`heed corpus work`',
  'embed --status': '`heed corpus status`',
  'embed --finish': '`heed corpus finish`',
  'embed --resume': '`heed corpus`',
  'classify --resume': 'a run from the start',
  'embed --output': '--type',
  'corpus plan --output': '--type',
  '--host': '--remote-host',
};

function usageMessage({ code, message }: CommanderError, program: Command): string {
  const [problem, ...hints] = message.replace(/^error: /, '').split(/\s*\n\s*/); // "(Did you mean ...?)"
  const hint = hints.map((text) => ` ${text}`).join('');
  if (code === 'commander.unknownCommand')
    return `command: expected one of ${namesOf(program).join(', ')}, got '${program.args[0]}'${hint}`;
  const path = commandPath(program, program.args).join(' ');
  if (code === 'commander.unknownOption')
    for (const flag of program.args.map((arg) => arg.replace(/=.*/s, ''))) {
      const current = FORMER[`${path} ${flag}`] ?? FORMER[flag];
      if (current) return `${flag}: expected ${current}, which replaces it`;
    }
  const help = ['heed', path, '--help'].filter(Boolean).join(' ');
  return `${problem}${hint}; \`${help}\` lists the options`;
}

/** The long options of the command that `args` name. */
function optionsOf(program: Command, args: readonly string[]): string[] {
  let command: Command = program;
  for (const name of commandPath(program, args)) command = command.commands.find((each) => each.name() === name)!;
  return command.options.flatMap(({ long }) => long ?? []);
}

const namesOf = (command: Command) => subcommandsOf(command).map(({ value }) => value);

/** The names at the beginning of `args` that lead to a command, such as train and classifier. */
function commandPath(parent: Command, [name, ...rest]: readonly string[]): string[] {
  const command = parent.commands.find((each) => each.name() === name);
  return command && namesOf(parent).includes(name!) ? [name!, ...commandPath(command, rest)] : [];
}
