/** `heed prune`: writes a model's folder without the vocabulary entries that a corpus does not need. */
import type { Command } from 'commander';
import { load } from '../../index.js';
import { type ModelOptions, remoteOptions } from '../model.js';
import { addExamples, addJson, addRemote, addTexts, count } from '../options.js';
import { Progress } from '../progress.js';
import { allTexts, type RecordOptions } from '../records.js';
import { stoppable } from '../signals.js';
import { printJson, printTable } from '../terminal.js';

type Options = RecordOptions &
  ModelOptions & {
    keep: string;
    out: string;
    texts?: string;
    positions?: number;
    json?: boolean;
  };

export function addPrune(program: Command): void {
  const command = program
    .command('prune <model>')
    .description("write a model's folder without the tokens that a corpus does not need")
    .requiredOption('--keep <file>', 'the corpus: texts whose vectors stay the same, bit for bit')
    .requiredOption('--out <folder>', 'a new folder')
    .addOption(count('--positions <n>', 'the number of position embeddings to keep; longer texts are cut'))
    .option(
      '--texts <file>',
      'other texts; reports their unknown tokens and the cosine of their vectors before and after',
    );
  addRemote(command);
  addTexts(command);
  addJson(command, 'the report as one line of JSON');
  addExamples(
    command,
    'heed prune ./model --keep corpus.txt --out ./model-pruned',
    'heed prune ./model-int8 --keep corpus.txt --out ./model-small --texts queries.txt',
  ).action((model: string, options: Options) =>
    stoppable(
      (signal) => prune(model, options, signal),
      () => 'nothing was written',
    ),
  );
}

async function prune(
  model: string,
  { keep, out, texts: file, positions, json, ...options }: Options,
  signal: AbortSignal,
): Promise<void> {
  const files = [keep, ...(file === undefined ? [] : [file])];
  const corpus = await allTexts(keep, options, files);
  const texts = file === undefined ? undefined : await allTexts(file, options, files);
  using heed = await load();
  using progress = new Progress('pruning', 'bytes');
  const { onProgress } = progress;
  const given = { ...remoteOptions(options), keep: corpus, out, texts, positions, signal, onProgress };
  const { report } = await heed.prune(model, given);
  if (json) return printJson(report);
  const number = (count: number) => count.toLocaleString('en');
  const percent = (share: number) => `${(100 * share).toFixed(2)} %`;
  const { rows, loss, leftOut } = report;
  printTable([
    ['before', `${number(report.bytesBefore)} bytes, ${number(rows.before)} tokens`],
    ['after', `${number(report.bytesAfter)} bytes, ${number(rows.after)} tokens in ${out}`],
    ['left out', leftOut.join(', ') || 'nothing'],
    ['corpus', `${number(corpus.length)} texts with the same vectors`],
    ...(loss
      ? ([
          ['unknown', `${percent(loss.unknown.after)} of the tokens, ${percent(loss.unknown.before)} before`],
          ['cosine', `mean ${loss.mean.toFixed(5)}, worst ${loss.worst.toFixed(5)} (${loss.text.slice(0, 60)})`],
        ] as [string, string][])
      : []),
  ]);
}
