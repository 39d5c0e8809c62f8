/** What `heed embed` and `heed classify` have in common: one record for each text, in order, to a file or to standard output. */
import type { PretrainedModel } from '../index.js';
import { batches } from '../node/batches.js';
import { type ModelOptions, openModel, type ParallelOptions } from './model.js';
import { refuseBoth } from './options.js';
import { type Output, type OutputVector, openOutput } from './output.js';
import { inParallel } from './parallel.js';
import { Progress } from './progress.js';
import { type Entry, Input, type RecordOptions } from './records.js';
import { stoppable } from './signals.js';
import { counted, print, settings } from './terminal.js';

export interface OutputOptions {
  out?: string;
  resume?: boolean;
  json?: boolean;
}

export interface Task {
  kind: 'vectors' | 'records';
  /** What the progress line says. */
  label: string;
  /** The records of some texts, for embeddings with their vectors. */
  compute: (
    model: PretrainedModel,
    texts: string[],
    signal: AbortSignal,
  ) => Promise<[record: { text: string }, vector?: OutputVector][]>;
  /** Prints a record for people; without it, records are written as JSON. */
  print?: (record: object) => void;
}

/** Writes one record, and for embeddings its vector, for each text that `--out` does not have yet. */
export async function writeRecords(
  files: string[],
  options: ModelOptions & ParallelOptions & OutputOptions & RecordOptions,
  task: Task,
): Promise<void> {
  refuseBoth('--json', '--out', options.json === true && options.out !== undefined);
  const input = new Input(files, options);
  const output = openOutput(options.out, options.resume ?? false, task);
  const rest = () =>
    options.out === undefined
      ? 'the records above are whole'
      : `${options.out} has ${output.count.toLocaleString('en')} records; continue it with --resume`;
  try {
    await stoppable(async (signal) => {
      using model = await openModel(options, { input, signal });
      await writeAll(model, input, output, task, signal);
    }, rest);
    if (options.out !== undefined && !settings.quiet && process.exitCode === undefined)
      print(`${options.out}: ${counted(output.count, task.kind.slice(0, -1))}`);
  } finally {
    output.close();
  }
}

async function writeAll(
  model: PretrainedModel,
  input: Input,
  output: Output,
  { label, compute }: Task,
  signal: AbortSignal,
): Promise<void> {
  using progress = new Progress(label, 'texts');
  const { done } = output;
  let seen = 0;
  async function* missing(): AsyncGenerator<{ entries: Entry[]; seen: number; fraction: number | undefined }> {
    for await (const batch of batches(input.entries())) {
      const entries = batch.slice(Math.max(0, done - seen));
      seen += batch.length;
      if (entries.length > 0) yield { entries, seen, fraction: input.fraction };
      else progress.skip(seen, input.fraction);
    }
  }
  const results = inParallel(missing(), Math.max(1, model.workers.count), async ({ entries, ...at }) => {
    const texts = entries.map(({ text }) => text);
    return { ...at, entries, records: await compute(model, texts, signal) };
  });
  for await (const { entries, records, seen, fraction } of results) {
    for (const [n, [{ text, ...record }, vector]] of records.entries())
      await output.write({ text, ...entries[n]!.place, ...record }, vector);
    progress.update(seen, fraction);
  }
}
