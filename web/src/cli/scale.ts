/** `heed embed` for corpora larger than one machine: --plan, --work, --status and --finish. */
import { type Command, Option } from 'commander';
import { invalid, statusOf } from '../node/index.js';
import {
  type EmbeddingStatus,
  embeddingStatus,
  finishEmbedding,
  type PlanOptions,
  planEmbedding,
  workEmbedding,
} from '../node.js';
import { choice, count } from './options.js';
import { Progress } from './progress.js';
import { stoppable } from './signals.js';
import { counted, notice, print, printJson, printTable } from './terminal.js';

const MODES = ['plan', 'work', 'status', 'finish'] as const;
type Mode = (typeof MODES)[number];

/** Options as commander returns them. */
export interface ScaleOptions extends Omit<PlanOptions, 'out'> {
  plan?: boolean;
  work?: string;
  status?: string;
  finish?: string;
  out?: string;
  shard?: { index: number; count: number };
  queue?: string;
  retry?: boolean;
  lock?: number;
  workers?: number | 'auto';
  to?: string;
  table?: string;
  json?: boolean;
}

/** The options of each mode. All other options are for embedding without a plan. */
const OPTIONS: Record<Mode, string[]> = {
  plan: [
    ...['plan', 'out', 'model', 'dtype', 'build', 'format', 'field', 'id', 'chunk', 'parts', 'output'],
    ...['pooling', 'dimensions', 'prompt', 'normalize', 'json'],
  ],
  work: ['work', 'model', 'shard', 'queue', 'retry', 'lock', 'workers', 'to', 'table', 'json'],
  status: ['status', 'json'],
  finish: ['finish', 'queue', 'retry', 'to', 'table', 'json'],
};
const ONE_FILE = [
  ...[
    'model',
    'host',
    'cache',
    'refresh',
    'dtype',
    'format',
    'delimiter',
    'field',
    'id',
    'pooling',
    'dimensions',
    'prompt',
  ],
  ...['normalize', 'output', 'out', 'resume', 'truncation', 'workers', 'threads', 'json'],
];

function shardOf(value: string): { index: number; count: number } {
  const [, index, count] = /^(\d{1,9})\/(\d{1,9})$/.exec(value) ?? [];
  const shard = { index: Number(index), count: Number(count) };
  if (index !== undefined && shard.index < shard.count) return shard;
  throw invalid('--shard', 'i/n with i from 0 to n - 1, as in 0/3', `'${value}'`);
}

/** Adds the options to `heed embed`. */
export function addScale(command: Command): Command {
  return command
    .optionsGroup('Corpora larger than one machine:')
    .option('--plan', 'only plan: write manifest.json to the folder --out, which workers share')
    .option(
      '--work <folder>',
      "embed chunks of a plan; any number of processes may do so at once; --model names a copy of the plan's model",
    )
    .option('--status <folder>', 'print the progress of a plan')
    .option('--finish <folder>', 'count every row of a plan; exit code 1 while something is missing')
    .addOption(count('--chunk <lines>', 'with --plan: lines per chunk (default: 10000)'))
    .addOption(
      choice('--parts <format>', "with --plan: the parts' format (default: jsonl)", ['jsonl', 'npy', 'parquet']),
    )
    .addOption(
      choice('--build <build>', 'with --plan: the build of all workers (default: the fastest here)', [
        'simd128',
        'relaxed-simd',
      ]),
    )
    .addOption(new Option('--shard <i/n>', 'with --work: only this share of the chunks, as in 0/3').argParser(shardOf))
    .option('--queue <url>', 'with --work: a queue that hands out chunks, redis:// or postgres:// (with bullmq)')
    .option('--retry', 'wait without a limit for a queue that cannot be reached')
    .addOption(count('--lock <seconds>', 'seconds until the chunk of a dead process is handed out again (default: 30)'))
    .option('--to <url>', 'with --work and --finish: also insert the rows into PostgreSQL with pgvector')
    .option('--table <name>', 'the table for --to (default: embeddings)');
}

/** The requested mode, or null. Throws if options of different modes are given. */
export function scaleMode(command: Command, files: string[]): Mode | null {
  const given = command.options.filter((option) => command.getOptionValueSource(option.attributeName()) === 'cli');
  const names = given.map((option) => option.attributeName());
  const [mode = null, other] = MODES.filter((each) => names.includes(each));
  if (other) throw invalid(`--${mode}`, `only one of --${mode} and --${other}`, 'both');
  const legal = mode === null ? ONE_FILE : OPTIONS[mode];
  const wrong = names.find((name) => !legal.includes(name));
  if (wrong !== undefined) {
    const owners = MODES.filter((each) => OPTIONS[each].includes(wrong)).map((each) => `--${each}`);
    const expected = mode === 'work' && OPTIONS.plan.includes(wrong) ? 'as in the plan: give it with --plan' : 'none';
    if (mode === null) throw invalid(`--${wrong}`, `${owners.join(' or ')} with it`, 'neither');
    throw invalid(`--${wrong}`, `${expected === 'none' ? `none with --${mode}` : expected}`, `it with --${mode}`);
  }
  if (mode !== null && mode !== 'plan' && files.length > 0)
    throw invalid(`--${mode}`, 'a folder only; the files are those of the plan', `'${files[0]}'`);
  return mode;
}

/** Lists at most five items. */
const some = (list: (string | number)[]) => list.slice(0, 5).join(', ') + (list.length > 5 ? ', ...' : '');

function complain(message: string): void {
  notice(message);
  process.exitCode = 1;
}

/** Runs a mode. SIGINT and SIGTERM stop it at once, without loss of written results. */
export async function runScale(mode: Mode, files: string[], options: ScaleOptions): Promise<void> {
  const rest = { plan: 'nothing was planned', work: 'finished parts are kept; run the same command again to go on' };
  try {
    await stoppable(
      (signal) => RUN[mode](files, options, signal),
      () => rest[mode as 'plan'] ?? 'nothing was changed',
    );
  } finally {
    setTimeout(() => process.exit(), 500).unref(); // a lost connection must not delay the end
  }
}

const RUN: Record<Mode, (files: string[], options: ScaleOptions, signal: AbortSignal) => Promise<void>> = {
  async plan(files, { plan: _, json, out, ...options }, signal) {
    if (out === undefined) throw invalid('--out', 'the folder of the plan', 'none');
    using progress = new Progress('planning', 'bytes');
    const total = files.reduce((sum, file) => sum + (statusOf(file)?.size ?? 0), 0);
    const onProgress = (bytes: number) => progress.update(bytes, bytes / total);
    const { rows, chunks, build } = await planEmbedding(files, { ...options, out, signal, onProgress });
    if (json) printJson({ folder: out, rows, chunks: chunks.length, build });
    else print(`${out}: ${counted(rows, 'line')} in ${counted(chunks.length, 'chunk')}, build ${build}`);
  },

  async work(_, { work: folder, json, retry, ...options }, signal) {
    using progress = new Progress('embedding', 'rows');
    // With a shard or a queue, the number of rows left for this process is unknown.
    const isAlone = options.shard === undefined && options.queue === undefined;
    const before = isAlone ? embeddingStatus(folder!) : null;
    const total = before && before.rows - before.rowsDone;
    const onProgress = (rows: number) => progress.update(rows, total ? rows / total : undefined);
    const queueTimeout = retry ? Number.POSITIVE_INFINITY : undefined;
    const result = await workEmbedding(folder!, { ...options, queueTimeout, signal, onProgress });
    const { parts, rows, errors, failed } = result;
    if (json) printJson(result);
    else print(`${folder}: wrote ${counted(parts, 'part')}, ${counted(rows, 'row')}, ${counted(errors, 'error')}`);
    for (const { chunk, error } of failed.slice(0, 5)) complain(`chunk ${chunk}: ${error}`);
    if (failed.length > 0)
      complain(`${counted(failed.length, 'chunk')} failed: ${some(failed.map(({ chunk }) => chunk))}`);
  },

  async status(_, { status: folder, json }) {
    const status = embeddingStatus(folder!);
    if (json) printJson(status);
    else printTable(statusRows(status));
  },

  async finish(_, { finish: folder, json, retry, queue, to, table }, signal) {
    using progress = new Progress('counting', 'rows');
    const { rows: total } = embeddingStatus(folder!);
    const onProgress = (rows: number) => progress.update(rows, rows / total);
    const queueTimeout = retry ? Number.POSITIVE_INFINITY : undefined;
    const result = await finishEmbedding(folder!, { queue, queueTimeout, to, table, signal, onProgress });
    const { complete, rows, errors, parts, missing, failed, damaged } = result;
    if (json) printJson(result);
    else print(`${folder}: ${counted(rows, 'row')} in ${counted(parts, 'part')}, ${counted(errors, 'error')}`);
    if (complete) return;
    for (const { part, error } of damaged.slice(0, 5)) complain(`${part}: ${error}`);
    for (const { chunk, error } of failed.slice(0, 5)) complain(`chunk ${chunk}: ${error}`);
    const what = `${counted(missing.length, 'part')} missing: ${some(missing)}`;
    complain(`${what}. Run heed embed --work ${folder} again`);
  },
};

function statusRows(status: EmbeddingStatus): string[][] {
  const { rows, rowsDone, chunks, partsDone, rate, remaining, failed, finished } = status;
  const of = (done: number, all: number) => `${done.toLocaleString('en')} of ${all.toLocaleString('en')}`;
  return [
    ['rows', of(rowsDone, rows)],
    ['parts', of(partsDone, chunks)],
    ['rows/s', rate === null ? 'unknown' : rate.toFixed(rate < 10 ? 1 : 0)],
    ['remaining', remaining === null ? 'unknown' : duration(remaining)],
    ['failures', `${failed.length}`],
    ...failed.slice(0, 5).map(({ chunk, error }) => [`  chunk ${chunk}`, error]),
    ['finished', finished ? 'yes' : 'no'],
  ];
}

function duration(seconds: number): string {
  const whole = Math.ceil(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours > 0 ? `${hours} h ${minutes} min` : minutes > 0 ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}
