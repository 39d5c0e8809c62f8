/**
 * Shared by `heed embed` and `heed classify`: writes one record per text, in order, to a file or to standard output.
 */
import { HeedError, type PretrainedModel } from '../index.js';
import { batches, invalid } from '../node/index.js';
import { type ModelOptions, openModel, type ParallelOptions } from './model.js';
import { refuseBoth } from './options.js';
import { type Output, type OutputVector, openOutput } from './output.js';
import { inParallel } from './parallel.js';
import { Progress } from './progress.js';
import { type Entry, Input, type RecordOptions } from './records.js';
import { FingerprintFile, fingerprintOf, PROBE } from './resume.js';
import { stoppable } from './signals.js';
import { counted, print, settings } from './terminal.js';

export interface OutputOptions {
  out?: string;
  resume?: boolean;
  json?: boolean;
}

export interface Task {
  kind: 'vectors' | 'records';
  /** Label of the progress line. */
  label: string;
  /** Options on which the records depend, in addition to those shared by both commands. */
  options: Record<string, unknown>;
  /** Computes the records of some texts, for embeddings with their vectors. */
  compute: (
    model: PretrainedModel,
    texts: string[],
    signal: AbortSignal,
  ) => Promise<[record: { text: string }, vector?: OutputVector][]>;
  /** Prints a record in human-readable form. Without it, records are written as JSON. */
  print?: (record: object) => void;
}

/** Writes one record, for embeddings with its vector, for each text that `--out` does not contain yet. */
export async function writeRecords(
  files: string[],
  options: ModelOptions & ParallelOptions & OutputOptions & RecordOptions,
  task: Task,
): Promise<void> {
  const { out, resume = false } = options;
  refuseBoth('--json', '--out', options.json === true && out !== undefined);
  const input = new Input(files, options);
  const output = openOutput(out, resume, task);
  const rest = () =>
    out === undefined
      ? 'the records above are complete'
      : `${out} has ${output.count.toLocaleString('en')} records; continue it with --resume`;
  const unfinished = out === undefined || out === '-' ? null : new FingerprintFile(out);
  let isWhole = false;
  try {
    await stoppable(async (signal) => {
      using model = await openModel(options, { input, signal });
      const fingerprint = unfinished && (await fingerprintOfRun(model, options, task, signal));
      if (output.done > 0) unfinished?.check(fingerprint!);
      await writeAll(model, input, output, task, signal, () => unfinished?.keep(fingerprint!));
      isWhole = true;
    }, rest);
  } finally {
    output.close();
    if (isWhole || output.count === 0) unfinished?.remove();
  }
  if (isWhole && out !== undefined && !settings.quiet)
    print(`${out}: ${counted(output.count, task.kind.slice(0, -1))}`);
}

async function fingerprintOfRun(
  model: PretrainedModel,
  { dtype = 'fp32', field, id, model: source }: ModelOptions & RecordOptions,
  { compute, options }: Task,
  signal: AbortSignal,
) {
  const probe = JSON.stringify(await compute(model, [PROBE], signal));
  return fingerprintOf(probe, { ...options, dtype, field, id, model: source });
}

/** Computes and writes the records. `onFirst` is called before the first record is written. */
async function writeAll(
  model: PretrainedModel,
  input: Input,
  output: Output,
  { label, compute }: Task,
  signal: AbortSignal,
  onFirst: () => void,
): Promise<void> {
  using progress = new Progress(label, 'texts');
  const { done } = output;
  let seen = 0;
  async function* missing(): AsyncGenerator<{ entries: Entry[]; seen: number; fraction: number | undefined }> {
    for await (const batch of batches(input.entries())) {
      const old = Math.min(batch.length, done - seen);
      if (old > 0 && seen + old === done) await requireSame(batch[old - 1]!);
      const entries = batch.slice(Math.max(0, old));
      seen += batch.length;
      if (entries.length > 0) yield { entries, seen, fraction: input.fraction };
      else progress.skip(seen, input.fraction);
    }
  }
  /**
   * Checks the last existing record, which also detects changed texts, and outputs of earlier releases, which have no
   * fingerprint.
   */
  async function requireSame({ text }: Entry): Promise<void> {
    const [[record, vector]] = (await compute(model, [text], signal)) as [[{ text: string }, OutputVector?]];
    if (output.endsWith(record, vector)) return;
    const problem = `the last record of --out is not what this model computes with these options for text ${done.toLocaleString('en')} of the input`;
    const hint = 'Use the model, the options and the files with which --out was begun, or another --out';
    throw new HeedError('INVALID_ARGUMENT', `--resume: ${problem}. ${hint}`);
  }
  const results = inParallel(missing(), Math.max(1, model.workers.count), async ({ entries, ...at }) => {
    const texts = entries.map(({ text }) => text);
    return { ...at, entries, records: await compute(model, texts, signal) };
  });
  let isFirst = true;
  for await (const { entries, records, seen, fraction } of results) {
    if (isFirst) onFirst();
    isFirst = false;
    for (const [n, [{ text, ...record }, vector]] of records.entries())
      await output.write({ text, ...entries[n]!.place, ...record }, vector);
    progress.update(seen, fraction);
  }
  if (seen < done)
    throw invalid('--resume', `an input of at least ${counted(done, 'text')}, which --out has`, counted(seen, 'text'));
}
