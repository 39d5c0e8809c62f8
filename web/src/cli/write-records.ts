/** What `heed embed` and `heed classify` have in common: one record for each text, in order, to a file or to standard output. */
import type { PretrainedModel } from '../index.js';
import { batches } from '../scale/batches.js';
import { type ModelOptions, openModel } from './model.js';
import { type OutputVector, openOutput } from './output.js';
import { ProgressLine } from './progress.js';
import { type RecordOptions, readTexts } from './records.js';

export interface OutputOptions {
  out?: string;
  resume?: boolean;
}

/** Writes one record, and for embeddings its vector, for each text that `--out` does not have yet. */
export async function writeRecords(
  files: string[],
  options: ModelOptions & OutputOptions & RecordOptions,
  kind: 'vectors' | 'records',
  label: string,
  compute: (model: PretrainedModel, texts: string[]) => Promise<[record: object, vector?: OutputVector][]>,
): Promise<void> {
  const output = openOutput(options.out, options.resume ?? false, kind);
  using model = await openModel(options);
  const progress = new ProgressLine(label);
  let seen = 0;
  try {
    for await (const batch of batches(readTexts(files, options))) {
      const texts = batch.slice(Math.max(0, output.done - seen));
      seen += batch.length;
      if (texts.length === 0) continue;
      for (const [record, vector] of await compute(model, texts)) await output.write(record, vector);
      progress.update(seen);
    }
  } finally {
    output.close();
    progress.end();
  }
}
