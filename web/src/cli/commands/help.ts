/** `heed help`: same as `--help`. Replaces commander's own, which prints the whole help for an unknown command. */
import type { Command } from 'commander';
import { invalid } from '../../node/index.js';
import { subcommandsOf } from '../complete.js';

export function addHelp(program: Command): void {
  program
    .helpCommand(false)
    .command('help [command] [subcommand]')
    .description('print the options of a command')
    .action(async (name?: string, below?: string) => {
      const command = program.commands.find((each) => each.name() === name);
      if (command && below !== undefined) requireSubcommand(command, below);
      const names = [name, below].filter((each) => each !== undefined);
      // An unknown command is rejected as it would be without `help`.
      await program.parseAsync(command || name === undefined ? [...names, '--help'] : [name], { from: 'user' });
    });
}

function requireSubcommand(command: Command, name: string): void {
  const names = subcommandsOf(command).map(({ value }) => value);
  if (!names.includes(name)) throw invalid(command.name(), names.join(' or ') || 'no subcommand', `'${name}'`);
}
