/** `heed quantize`: writes a model's folder with matrices and embedding tables in int8 or 4 to 2 bits. */
import type { Command } from 'commander';
import { load, type VectorSimilarity } from '../../index.js';
import { type ModelOptions, remoteOptions } from '../model.js';
import { addExamples, addJson, addRemote, addTexts, choice, requireWith } from '../options.js';
import { Progress } from '../progress.js';
import { allTexts, namedField, type RecordOptions } from '../records.js';
import { stoppable } from '../signals.js';
import { printJson, printTable } from '../terminal.js';

const TYPES = ['int8', 'int4', 'int3', 'int2'] as const;

type Options = RecordOptions &
  ModelOptions & {
    out: string;
    tables?: (typeof TYPES)[number];
    matrices?: (typeof TYPES)[number];
    texts?: string;
    json?: boolean;
  };

export function addQuantize(program: Command): void {
  const command = program
    .command('quantize <model>')
    .description("write a model's folder in int8 (a quarter of the bytes) or 4 to 2 bits")
    .requiredOption('--out <folder>', 'a new folder')
    .addOption(
      choice('--tables <type>', 'format of the token embeddings: int8, int4 with half the bytes, int3 or int2', TYPES),
    )
    .addOption(choice('--matrices <type>', "format of the layers' matrices: int8, int4, int3 or int2", TYPES))
    .option('--texts <file>', 'texts; reports the cosine of their vectors before and after');
  addRemote(command);
  addTexts(command);
  addJson(command, 'the report as one line of JSON');
  addExamples(
    command,
    'heed quantize ./model --out ./model-int8',
    'heed quantize ./model --out ./model-int4 --tables int4 --texts sentences.txt',
  ).action((model: string, options: Options) =>
    stoppable(
      (signal) => quantize(model, options, signal),
      () => 'nothing was written',
    ),
  );
}

async function quantize(
  model: string,
  { out, tables, matrices, texts: file, json, ...options }: Options,
  signal: AbortSignal,
): Promise<void> {
  if (file === undefined)
    requireWith('--texts', {
      '--format': options.format,
      '--delimiter': options.delimiter,
      '--field': namedField(options),
    });
  const texts = file === undefined ? undefined : await allTexts(file, options);
  using heed = await load();
  using progress = new Progress('quantizing', 'bytes');
  const { onProgress } = progress;
  const given = { ...remoteOptions(options), out, tables, matrices, texts, signal, onProgress };
  const { report } = await heed.quantize(model, given);
  if (json) return printJson(report);
  const bytes = (count: number) => `${count.toLocaleString('en')} bytes`;
  const cosines = ({ mean, worst, text }: VectorSimilarity) =>
    `mean ${mean.toFixed(5)}, worst ${worst.toFixed(5)} (${text.slice(0, 60)})`;
  const { loss, leftOut } = report;
  printTable([
    ['before', bytes(report.bytesBefore)],
    ['after', `${bytes(report.bytesAfter)} in ${out}`],
    [
      'tensors',
      (['int8', 'int4', 'int3', 'int2', 'bf16'] as const).map((type) => `${report[type].length} ${type}`).join(', '),
    ],
    ['left out', leftOut.join(', ') || 'nothing'],
    ...(loss ? Object.entries(loss).map(([dtype, each]): [string, string] => [`cosine, ${dtype}`, cosines(each)]) : []),
    ...Object.entries(loss ?? {}).flatMap(([dtype, { neighbours }]): [string, string][] =>
      neighbours === null
        ? []
        : [[`nearest, ${dtype}`, `${(100 * neighbours).toFixed(1)} % of the 10 nearest texts stay`]],
    ),
  ]);
}
