/** `heed help`: the same as `--help`. Instead of commander's own, which prints everything if the command is unknown. */
import type { Command } from 'commander';

export function addHelp(program: Command): void {
  program
    .helpCommand(false)
    .command('help [command]')
    .description('print the options of a command')
    .action(async (name?: string) => {
      const isUnknown = name !== undefined && program.commands.every((command) => command.name() !== name);
      await program.parseAsync(isUnknown ? [name] : [...(name ? [name] : []), '--help'], { from: 'user' });
    });
}
