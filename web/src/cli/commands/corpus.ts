/** `heed corpus`: corpora larger than one machine. A plan divides the work among processes that share a folder. */
import { type Command, Option } from 'commander';
import { invalid, requireServers, statusOf } from '../../node/index.js';
import {
  type EmbeddingStatus,
  embeddingStatus,
  finishEmbedding,
  type PlanOptions,
  planEmbedding,
  type WorkOptions,
  workEmbedding,
} from '../../node.js';
import {
  addDtype,
  addExamples,
  addJson,
  addVectors,
  choice,
  count,
  countOrAuto,
  refuseBothNormalizations,
  requireSubcommand,
} from '../options.js';
import { Progress } from '../progress.js';
import { stoppable } from '../signals.js';
import { counted, notice, print, printJson, printTable } from '../terminal.js';

interface Json {
  json?: boolean;
}

interface Servers extends Json, Pick<WorkOptions, 'queue' | 'to' | 'table'> {
  retry?: boolean;
}

type Work = Servers & Pick<WorkOptions, 'model' | 'shard' | 'lock' | 'workers'>;

export function addCorpus(program: Command): void {
  const corpus = program.command('corpus').description('embed a corpus on any number of machines');
  addPlan(corpus);
  addWork(corpus);
  addJson(corpus.command('status <folder>').description('print the progress of a plan'), 'one line of JSON').action(
    status,
  );
  addFinish(corpus);
  addExamples(
    requireSubcommand(corpus),
    'heed corpus plan corpus/*.jsonl --out vectors',
    'heed corpus work vectors               any number of times in parallel',
    'heed corpus finish vectors',
  );
}

function addPlan(corpus: Command): void {
  const command = corpus
    .command('plan <files...>')
    .description('divide files into chunks: writes manifest.json to a folder that workers share')
    .requiredOption('--out <folder>', 'the folder of the plan')
    .addOption(count('--chunk <lines>', 'lines per chunk (default: 10000)'))
    .addOption(choice('--parts <format>', "the parts' format (default: jsonl)", ['jsonl', 'npy', 'parquet']))
    .addOption(
      choice('--build <build>', 'the build of all workers (default: the fastest here)', ['simd128', 'relaxed-simd']),
    )
    .optionsGroup('Model:')
    .option('--model <folder>', "a model's folder, or its .safetensors file (default: the model in the package)");
  addDtype(command)
    .optionsGroup('Input:')
    .addOption(
      choice('--format <format>', "the files' format (default: by the file's extension, else lines)", [
        'lines',
        'jsonl',
      ]),
    )
    .option('--field <name>', 'the key with the text', 'text')
    .option('--id <name>', 'the key with the id, copied to the rows (default: id, if there is one)');
  addJson(addVectors(command), 'one line of JSON').action((files: string[], options: PlanOptions & Json) => {
    refuseBothNormalizations();
    return stopped('nothing was planned', (signal) => plan(files, options, signal));
  });
}

function addWork(corpus: Command): void {
  const command = corpus
    .command('work <folder>')
    .description('embed chunks of a plan; any number of processes may do so at once')
    .option('--model <folder>', "a copy of the plan's model (default: at the path in the plan)")
    .addOption(new Option('--shard <i/n>', 'process only this share of the chunks, such as 0/3').argParser(shardOf))
    .addOption(countOrAuto('--workers <n>', 'number of threads, or auto: one per core (default: auto)', 64))
    .addOption(
      count('--lock <seconds>', "with --queue: seconds until a dead process's chunk is handed out again (default: 30)"),
    );
  addServers(command, 'a queue that hands out chunks').action((folder: string, options: Work) =>
    stopped('finished parts are kept; run the same command again to go on', (signal) => work(folder, options, signal)),
  );
}

function addFinish(corpus: Command): void {
  const command = corpus
    .command('finish <folder>')
    .description('count every row of a plan; exit code 1 while something is missing');
  addServers(command, 'a queue to which missing chunks are added').action((folder: string, options: Servers) =>
    stopped('nothing was changed', (signal) => finish(folder, options, signal)),
  );
}

/** Options of commands that may use servers. `queue`: what the queue is for. */
const addServers = (command: Command, queue: string): Command =>
  addJson(
    command
      .option('--queue <url>', `${queue}, redis:// or postgres:// (with bullmq)`)
      .option('--retry', 'wait indefinitely while the servers of --queue and --to do not answer')
      .option('--to <url>', 'also insert the rows into PostgreSQL with pgvector')
      .option('--table <name>', 'the table for --to (default: embeddings)'),
    'one line of JSON',
  );

function shardOf(value: string): { index: number; count: number } {
  const [, index, count] = /^(\d{1,9})\/(\d{1,9})$/.exec(value) ?? [];
  const shard = { index: Number(index), count: Number(count) };
  if (index !== undefined && shard.index < shard.count) return shard;
  throw invalid('--shard', 'i/n with i from 0 to n - 1, such as 0/3', `'${value}'`);
}

/**
 * Runs `body`. SIGINT and SIGTERM stop it at once, without loss of written results; `rest` is then printed.
 */
async function stopped(rest: string, body: (signal: AbortSignal) => Promise<void>): Promise<void> {
  try {
    await stoppable(body, () => rest);
  } finally {
    setTimeout(() => process.exit(), 500).unref(); // a lost connection must not delay the end
  }
}

async function plan(files: string[], { json, ...options }: PlanOptions & Json, signal: AbortSignal): Promise<void> {
  const { out } = options;
  using progress = new Progress('planning', 'bytes');
  const total = files.reduce((sum, file) => sum + (statusOf(file)?.size ?? 0), 0);
  const onProgress = (bytes: number) => progress.update(bytes, bytes / total);
  const { rows, chunks, build } = await planEmbedding(files, { ...options, signal, onProgress });
  if (json) printJson({ folder: out, rows, chunks: chunks.length, build });
  else print(`${out}: ${counted(rows, 'line')} in ${counted(chunks.length, 'chunk')}, build ${build}`);
}

const queueTimeout = (retry: boolean | undefined) => (retry ? Number.POSITIVE_INFINITY : undefined);

/** @throws HeedError for an option of a server that is not given */
const requireOwnServers = ({ retry, ...options }: Servers & Pick<Work, 'lock'>): void =>
  requireServers({ ...options, queueTimeout: retry }, (name) => `--${name === 'queueTimeout' ? 'retry' : name}`);

async function work(folder: string, { json, retry, ...options }: Work, signal: AbortSignal): Promise<void> {
  requireOwnServers({ retry, ...options });
  using progress = new Progress('embedding', 'rows');
  // With a shard or a queue, the number of rows left for this process is unknown.
  const isAlone = options.shard === undefined && options.queue === undefined;
  const before = isAlone ? embeddingStatus(folder) : null;
  const total = before && before.rows - before.rowsDone;
  const onProgress = (rows: number) => progress.update(rows, total ? rows / total : undefined);
  const result = await workEmbedding(folder, { ...options, queueTimeout: queueTimeout(retry), signal, onProgress });
  const { parts, rows, errors, failed } = result;
  if (json) printJson(result);
  else print(`${folder}: wrote ${counted(parts, 'part')}, ${counted(rows, 'row')}, ${counted(errors, 'error')}`);
  for (const { chunk, error } of failed.slice(0, 5)) complain(`chunk ${chunk}: ${error}`);
  if (failed.length > 0)
    complain(`${counted(failed.length, 'chunk')} failed: ${some(failed.map(({ chunk }) => chunk))}`);
}

function status(folder: string, { json }: Json): void {
  const found = embeddingStatus(folder);
  if (json) printJson(found);
  else printTable(statusRows(found));
}

async function finish(folder: string, { json, retry, ...options }: Servers, signal: AbortSignal): Promise<void> {
  requireOwnServers({ retry, ...options });
  using progress = new Progress('counting', 'rows');
  const { rows: total } = embeddingStatus(folder);
  const onProgress = (rows: number) => progress.update(rows, rows / total);
  const result = await finishEmbedding(folder, { ...options, queueTimeout: queueTimeout(retry), signal, onProgress });
  const { complete, rows, errors, parts, missing, failed, damaged } = result;
  if (json) printJson(result);
  else print(`${folder}: ${counted(rows, 'row')} in ${counted(parts, 'part')}, ${counted(errors, 'error')}`);
  if (complete) return;
  for (const { part, error } of damaged.slice(0, 5)) complain(`${part}: ${error}`);
  for (const { chunk, error } of failed.slice(0, 5)) complain(`chunk ${chunk}: ${error}`);
  complain(`${counted(missing.length, 'part')} missing: ${some(missing)}. Run heed corpus work ${folder} again`);
}

/** Lists at most five items. */
const some = (list: (string | number)[]) => list.slice(0, 5).join(', ') + (list.length > 5 ? ', ...' : '');

function complain(message: string): void {
  notice(message);
  process.exitCode = 1;
}

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

/**
 * `heed embed --plan FILES`, `--work FOLDER`, `--status FOLDER` and `--finish FOLDER`, as version 0.2.0 had them, in
 * the form of `heed corpus`; other command lines as they are.
 */
export function currentForm(args: readonly string[]): string[] {
  const at = args.findIndex((arg) => !arg.startsWith('-'));
  const flags = args.map((arg) => /^--(plan|work|status|finish)(?:=(.*))?$/s.exec(arg));
  const flag = flags.findIndex((found, i) => found && i > at);
  if (args[at] !== 'embed' || flag < 0) return [...args];
  const [, mode, value] = flags[flag]!;
  const folder = value === undefined ? [] : [value];
  return [...args.slice(0, at), 'corpus', mode!, ...args.slice(at + 1, flag), ...folder, ...args.slice(flag + 1)];
}
