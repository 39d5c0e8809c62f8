/** How errors end the command: one line on standard error, and the exit code. */
import { type Command, CommanderError } from 'commander';
import type { HeedError } from '../index.js';
import { subcommandsOf } from './complete.js';
import { inOneLine, paint } from './terminal.js';

/** Something went wrong. */
const FAILURE = 1;
/** The command line itself is wrong: a command, an option, or a value. */
const WRONG_USAGE = 2;

/** Prints an error and sets the exit code. */
export function report(error: unknown, program: Command): void {
  process.stderr.write(`${paint('red', 'heed:', process.stderr)} ${messageOf(error, program)}\n`);
  const isUsage = error instanceof CommanderError || (error as HeedError).code === 'INVALID_ARGUMENT';
  process.exitCode = isUsage ? WRONG_USAGE : FAILURE;
}

/** One line for a mistake of the caller or an error of the system; the stack for any other error. */
function messageOf(error: unknown, program: Command): string {
  if (error instanceof CommanderError) return usageMessage(error, program);
  // By its name: heed/train has a class of its own.
  if ((error as Error).name === 'HeedError' || (error as NodeJS.ErrnoException).syscall)
    return inOneLine((error as Error).message);
  return (error as Error).stack ?? String(error);
}

function usageMessage({ code, message }: CommanderError, program: Command): string {
  const [problem, ...hints] = message.replace(/^error: /, '').split(/\s*\n\s*/); // "(Did you mean ...?)"
  const names = subcommandsOf(program).map(({ value }) => value);
  const [command] = program.args;
  const hint = hints.map((text) => ` ${text}`).join('');
  if (code === 'commander.unknownCommand')
    return `command: expected one of ${names.join(', ')}, got '${command}'${hint}`;
  const help = names.includes(command!) ? `heed ${command} --help` : 'heed --help';
  return `${problem}${hint}; \`${help}\` lists the options`;
}
