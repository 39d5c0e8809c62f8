/**
 * Shared by `heed embed` and `heed classify`: writes one record per text, in order, to a file or to standard output.
 */
import type { PretrainedModel } from '../index.js';
import { batches, type Stored } from '../node/index.js';
import { type ModelOptions, openModel, type ParallelOptions } from './model.js';
import { refuseBoth } from './options.js';
import { Output } from './output.js';
import { inParallel } from './parallel.js';
import { Progress } from './progress.js';
import { type Entry, Input, type RecordOptions } from './records.js';
import { stoppable } from './signals.js';
import { counted, print, settings } from './terminal.js';

export interface OutputOptions {
  out?: string;
  json?: boolean;
}

export interface Task {
  kind: 'vectors' | 'records';
  /** Label of the progress line. */
  label: string;
  /** Computes the records of some texts, for embeddings with their vectors. */
  compute: (
    model: PretrainedModel,
    texts: string[],
    signal: AbortSignal,
  ) => Promise<[record: { text: string }, vector?: Stored][]>;
  /** Prints a record in human-readable form. Without it, records are written as JSON. */
  print?: (record: object) => void;
}

/** Writes one record, for embeddings with its vector, for each text. */
export async function writeRecords(
  files: string[],
  options: ModelOptions & ParallelOptions & OutputOptions & RecordOptions,
  task: Task,
): Promise<void> {
  const { out } = options;
  refuseBoth('--json', '--out', options.json === true && out !== undefined);
  const input = new Input(files, options);
  const output = new Output(out, task);
  const rest = () =>
    out === undefined
      ? 'the records above are complete'
      : output.count === 0
        ? 'nothing was written'
        : `${out} has the first ${counted(output.count, 'record')}`;
  let isWhole = false;
  try {
    await stoppable(async (signal) => {
      using model = await openModel(options, { input, signal });
      await writeAll(model, input, output, task, signal);
      isWhole = true;
    }, rest);
  } finally {
    output.close();
  }
  if (isWhole && out !== undefined && !settings.quiet)
    print(`${out}: ${counted(output.count, task.kind.slice(0, -1))}`);
}

async function writeAll(
  model: PretrainedModel,
  input: Input,
  output: Output,
  { label, compute }: Task,
  signal: AbortSignal,
): Promise<void> {
  using progress = new Progress(label, 'texts');
  let seen = 0;
  async function* read(): AsyncGenerator<{ entries: Entry[]; seen: number; fraction: number | undefined }> {
    for await (const entries of batches(input.entries())) {
      seen += entries.length;
      yield { entries, seen, fraction: input.fraction };
    }
  }
  const results = inParallel(read(), Math.max(1, model.workers.count), async ({ entries, ...at }) => {
    const texts = entries.map(({ text }) => text);
    return { ...at, entries, records: await compute(model, texts, signal) };
  });
  for await (const { entries, records, seen, fraction } of results) {
    for (const [n, [{ text, ...record }, vector]] of records.entries())
      await output.write({ text, ...entries[n]!.place, ...record }, vector);
    progress.update(seen, fraction);
  }
}
