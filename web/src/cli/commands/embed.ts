/** `heed embed`: computes a vector for each text. */
import type { Command } from 'commander';
import type { VectorOutput } from '../../index.js';
import { embedTexts } from '../../node/index.js';
import type { EmbeddingOptions, ModelOptions, ParallelOptions } from '../model.js';
import {
  addExamples,
  addInput,
  addJson,
  addModel,
  addOutput,
  addParallel,
  addVectors,
  refuseBothNormalizations,
} from '../options.js';
import type { RecordOptions } from '../records.js';
import { type OutputOptions, writeRecords } from '../write-records.js';

type Options = ModelOptions &
  ParallelOptions &
  OutputOptions &
  RecordOptions &
  EmbeddingOptions & { normalize?: boolean; type?: VectorOutput };

export function addEmbed(program: Command): void {
  const command = program.command('embed [files...]').description('compute a vector for each text');
  addModel(command);
  addInput(command);
  addVectors(command);
  addOutput(command);
  addJson(command, 'JSON lines, the default');
  addParallel(command);
  addExamples(
    command,
    'heed embed texts.txt --out vectors.npy',
    'heed embed reviews.csv --field review > vectors.jsonl',
  ).action((files: string[], options: Options) => {
    refuseBothNormalizations();
    return embed(files, options);
  });
}

function embed(files: string[], options: Options): Promise<void> {
  const { pooling, dimensions, prompt, role, normalize, type: output = 'float32' } = options;
  return writeRecords(files, options, {
    kind: 'vectors',
    label: 'embedding',
    async compute(model, texts, signal) {
      const vectors = await embedTexts(model, texts, { pooling, dimensions, prompt, role, normalize, output, signal });
      const { data, shape } = vectors;
      const width = shape[1]!;
      return texts.map((text, n) => {
        const values = data.subarray(n * width, (n + 1) * width);
        return [{ text }, 'scales' in vectors ? { values, scale: vectors.scales[n]! } : { values }];
      });
    },
  });
}
