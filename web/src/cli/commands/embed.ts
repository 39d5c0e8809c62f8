/** `heed embed`: computes a vector for each text. */
import type { Command } from 'commander';
import type { VectorOutput } from '../../index.js';
import type { EmbeddingOptions, ModelOptions, ParallelOptions } from '../model.js';
import {
  addEmbedding,
  addExamples,
  addInput,
  addJson,
  addModel,
  addOutput,
  addParallel,
  choice,
  refuseBoth,
} from '../options.js';
import type { RecordOptions } from '../records.js';
import { addScale, runScale, type ScaleOptions, scaleMode } from '../scale.js';
import { type OutputOptions, writeRecords } from '../write-records.js';

/** Options for embedding texts on one machine. See ScaleOptions for plans. */
type Options = ModelOptions &
  ParallelOptions &
  OutputOptions &
  RecordOptions &
  EmbeddingOptions & { normalize?: boolean; output?: VectorOutput };

const OUTPUT = 'float32, int8 with a scale per vector, or binary: signs as bits (default: float32)';

export function addEmbed(program: Command): void {
  const command = program.command('embed [files...]').description('compute a vector for each text');
  addModel(command);
  addInput(command);
  addEmbedding(command)
    .option('--normalize', 'scale vectors to length 1 (default: as in the model)')
    .option('--no-normalize', 'leave vectors as they are')
    .addOption(choice('--output <type>', OUTPUT, ['float32', 'int8', 'binary']));
  addOutput(command);
  addJson(command, 'JSON lines, the default; with --plan, --work, --status or --finish one line of JSON');
  addParallel(command);
  addScale(command);
  addExamples(
    command,
    'heed embed texts.txt --out vectors.npy',
    'heed embed reviews.csv --field review --dtype q8 > vectors.jsonl',
  ).action((files: string[], options: Options) => {
    // commander keeps only the last of both flags, so look at the arguments.
    const both = ['--normalize', '--no-normalize'].every((flag) => process.argv.includes(flag));
    refuseBoth('--normalize', '--no-normalize', both);
    const mode = scaleMode(command, files);
    return mode === null ? embed(files, options) : runScale(mode, files, options as ScaleOptions);
  });
}

function embed(files: string[], options: Options): Promise<void> {
  const { pooling, dimensions, prompt, normalize, output = 'float32' } = options;
  return writeRecords(files, options, {
    kind: 'vectors',
    label: 'embedding',
    options: { pooling, dimensions, prompt, normalize, output },
    async compute(model, texts, signal) {
      const vectors = await model.embed(texts, { pooling, dimensions, prompt, normalize, output, signal });
      const { data, shape } = vectors;
      const width = shape[1]!;
      return texts.map((text, n) => {
        const values = data.subarray(n * width, (n + 1) * width);
        return [{ text }, 'scales' in vectors ? { values, scale: vectors.scales[n]! } : { values }];
      });
    },
  });
}
