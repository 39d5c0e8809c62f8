#!/usr/bin/env node
/** The command `heed`. Each module in commands/ adds a subcommand to the program. */
import { Command, CommanderError } from 'commander';
import { version } from '../base/wasm/version.js';
import { addCache } from './commands/cache.js';
import { addClassify } from './commands/classify.js';
import { addCompletion } from './commands/completion.js';
import { addCorpus } from './commands/corpus.js';
import { addDoctor } from './commands/doctor.js';
import { addEmbed } from './commands/embed.js';
import { addEvaluate } from './commands/evaluate.js';
import { addHelp } from './commands/help.js';
import { addInspect } from './commands/inspect.js';
import { addIndex } from './commands/make-index.js';
import { addPrune } from './commands/prune.js';
import { addQuantize } from './commands/quantize.js';
import { addSearch } from './commands/search.js';
import { addTrain } from './commands/train.js';
import { report } from './failure.js';
import { checkOutput } from './standard-output.js';
import { hasColors, paint, settings } from './terminal.js';

const program = new Command('heed')
  .description('Embed, search and classify texts with transformer encoders.')
  .version(version, '-v, --version')
  .option('-q, --quiet', 'show no progress')
  .option('--no-color', 'print without colors, as with NO_COLOR=1; FORCE_COLOR=1 prints colors to pipes, too')
  .on('option:quiet', () => {
    settings.quiet = true;
  })
  .on('option:no-color', () => {
    settings.color = false;
  })
  .addHelpText(
    'after',
    `
Text files have one text per line; .jsonl and .csv files are read by --field. Without files, or for the file -, texts
are read from standard input. \`heed help <command>\` lists the options of a command.

Exit codes: 0 success, 1 failure, 2 wrong usage.`,
  )
  // Errors are reported below, in one line.
  .configureOutput({
    outputError: () => {},
    getOutHasColors: () => hasColors(process.stdout),
  })
  .configureHelp({ showGlobalOptions: true, styleTitle: (text) => paint('bold', text) })
  .exitOverride();

const subcommands = [
  ...[addEmbed, addSearch, addClassify, addIndex, addQuantize, addPrune, addTrain, addEvaluate, addInspect, addDoctor],
  ...[addCorpus, addCache, addCompletion, addHelp],
];
for (const add of subcommands) add(program);

checkOutput();

const args = process.argv.length > 2 ? process.argv.slice(2) : ['--help'];
program.parseAsync(args, { from: 'user' }).catch((error: unknown) => {
  if (error instanceof CommanderError && error.exitCode === 0) return; // --help and --version
  report(error, program);
});
