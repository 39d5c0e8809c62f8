/** `heed completion`: prints scripts with which shells complete heed's command lines. */
import { Argument, type Command } from 'commander';
import { candidates, SCRIPTS } from '../complete.js';
import { addExamples } from '../options.js';
import { print } from '../terminal.js';

export function addCompletion(program: Command): void {
  const shells = Object.keys(SCRIPTS);
  const command = program
    .command('completion')
    .description('print a script that completes commands, options and their values in a shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(shells))
    .action((shell: keyof typeof SCRIPTS) => {
      process.stdout.write(SCRIPTS[shell]);
    });
  addExamples(
    command,
    'eval "$(heed completion bash)"                                  in ~/.bashrc',
    'eval "$(heed completion zsh)"                                   in ~/.zshrc, after compinit',
    'heed completion fish > ~/.config/fish/completions/heed.fish',
    'heed completion powershell | Out-String | Invoke-Expression      in $PROFILE',
  );
  // Called by the completion scripts.
  program
    .command('complete', { hidden: true })
    .argument('[words...]')
    .helpOption(false)
    .action((words: string[]) => {
      for (const each of candidates(program, words))
        print(typeof each === 'string' ? each : `${each.value}\t${each.description.replace(/\s+/g, ' ')}`);
    });
}
