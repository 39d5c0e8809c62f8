/** `heed corpus`: corpora larger than one machine. A plan divides the work among processes that share a folder. */
import type { Command } from 'commander';
import {
  embeddingStatus,
  finishEmbedding,
  type PlanOptions,
  planEmbedding,
  type WorkOptions,
  workEmbedding,
} from '../../corpus.js';
import { requireServers } from '../../node/index.js';
import {
  addDtype,
  addExamples,
  addJson,
  addVectors,
  choice,
  count,
  countOrAuto,
  option,
  refuseBothNormalizations,
  requireSubcommand,
} from '../options.js';
import { clock, Progress } from '../progress.js';
import { stoppable } from '../signals.js';
import { counted, notice, print, printJson, printTable } from '../terminal.js';

interface Json {
  json?: boolean;
}

interface Plan extends Json, Omit<PlanOptions, 'output'> {
  type?: PlanOptions['output'];
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
  addJson(addVectors(command), 'one line of JSON').action((files: string[], options: Plan) => {
    refuseBothNormalizations();
    return stopped('nothing was planned', (signal) => plan(files, options, signal));
  });
}

function addWork(corpus: Command): void {
  const command = corpus
    .command('work <folder>')
    .description('embed chunks of a plan; any number of processes may do so at once')
    .option('--model <folder>', "a copy of the plan's model (default: at the path in the plan)")
    .addOption(
      option(
        '--shard <i/n>',
        'process only this share of the chunks, such as 0/3',
        'i/n with i from 0 to n - 1, such as 0/3',
        (value) => {
          const [, index, count] = /^(\d{1,9})\/(\d{1,9})$/.exec(value) ?? [];
          return Number(index) < Number(count) ? { index: Number(index), count: Number(count) } : undefined;
        },
      ),
    )
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

async function plan(files: string[], { json, type, ...options }: Plan, signal: AbortSignal): Promise<void> {
  const { out } = options;
  using progress = new Progress('planning', 'bytes');
  const { onProgress } = progress;
  const { rows, chunks, build } = await planEmbedding(files, { ...options, output: type, signal, onProgress });
  if (json) printJson({ folder: out, rows, chunks: chunks.length, build });
  else print(`${out}: ${counted(rows, 'line')} in ${counted(chunks.length, 'chunk')}, build ${build}`);
}

/** The options of `workEmbedding` and `finishEmbedding`. @throws HeedError for an option of a server that is not given */
function serversOf<T extends Servers>({ json: _, retry, ...options }: T, signal: AbortSignal, progress: Progress) {
  const { onProgress } = progress;
  const queueTimeout = retry ? Number.POSITIVE_INFINITY : undefined;
  requireServers({ ...options, queueTimeout }, (name) => `--${name === 'queueTimeout' ? 'retry' : name}`);
  return { ...options, queueTimeout, signal, onProgress };
}

async function work(folder: string, options: Work, signal: AbortSignal): Promise<void> {
  using progress = new Progress('embedding', 'rows');
  const result = await workEmbedding(folder, serversOf(options, signal, progress));
  const { parts, rows, errors, failed } = result;
  if (options.json) printJson(result);
  else print(`${folder}: wrote ${counted(parts, 'part')}, ${counted(rows, 'row')}, ${counted(errors, 'error')}`);
  for (const { chunk, error } of failed.slice(0, 5)) complain(`chunk ${chunk}: ${error}`);
  if (failed.length > 0)
    complain(`${counted(failed.length, 'chunk')} failed: ${some(failed.map(({ chunk }) => chunk))}`);
}

async function finish(folder: string, options: Servers, signal: AbortSignal): Promise<void> {
  using progress = new Progress('counting', 'rows');
  const result = await finishEmbedding(folder, serversOf(options, signal, progress));
  const { complete, rows, errors, parts, missing, failed, damaged } = result;
  if (options.json) printJson(result);
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

function status(folder: string, { json }: Json): void {
  const found = embeddingStatus(folder);
  if (json) {
    printJson(found);
    return;
  }
  const { rows, rowsDone, chunks, partsDone, rate, remaining, failed, finished } = found;
  const of = (done: number, all: number) => `${done.toLocaleString('en')} of ${all.toLocaleString('en')}`;
  printTable([
    ['rows', of(rowsDone, rows)],
    ['parts', of(partsDone, chunks)],
    ['rows/s', rate === null ? 'unknown' : rate.toFixed(rate < 10 ? 1 : 0)],
    ['remaining', remaining === null ? 'unknown' : clock(remaining)],
    ['failures', `${failed.length}`],
    ...failed.slice(0, 5).map(({ chunk, error }) => [`  chunk ${chunk}`, error]),
    ['finished', finished ? 'yes' : 'no'],
  ]);
}
