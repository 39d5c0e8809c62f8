/** `heed index`: builds an int8 search index for a file of texts. */
import { type Command, Option } from 'commander';
import { dispose } from '../../base/platform.js';
import { invalid } from '../../node/index.js';
import { indexFile, indexOf, listed, writeIndex } from '../indexing.js';
import { type EmbeddingOptions, type ModelOptions, openModel, type ParallelOptions } from '../model.js';
import { addEmbedding, addExamples, addInput, addJson, addModel, addParallel } from '../options.js';
import { Progress } from '../progress.js';
import { Input, type RecordOptions } from '../records.js';
import { counted, print, printJson } from '../terminal.js';

type Options = ModelOptions &
  ParallelOptions &
  RecordOptions &
  EmbeddingOptions & { out: string; force?: boolean; weight?: number; json?: boolean };

export function addIndex(program: Command): void {
  const command = program.command('index <file>').description('build an int8 search index of a file of texts');
  addModel(command);
  addInput(
    command,
    'the key or column with the id, a unique integer (default: id, if all are unique integers, else 0, 1, 2, ...)',
  );
  addEmbedding(command).addOption(
    new Option(
      '--weight <w>',
      "weight of the mean of an entry's descriptions relative to its text (default: 1). JSON lines have descriptions: " +
        '{"text": "aunt", "descriptions": ["the sister of a parent", "an uncle\'s wife"]}',
    ).argParser(weightOf),
  );
  command
    .optionsGroup('Output:')
    .requiredOption('--out <file>', 'the index: a .safetensors file, or a folder for its index.safetensors')
    .option('--force', 'replace an existing index once the new one is complete');
  addJson(command, 'one line of JSON { index, texts, dimensions, bytes }');
  addParallel(command);
  addExamples(command, 'heed index words.txt --dimensions 128 --dtype q8 --out dictionary/index.safetensors').action(
    (file: string, options: Options) => {
      // The file is read twice, which is impossible for standard input.
      if (file === '-') throw invalid('file', "a file's path", "'-' (standard input)");
      return makeIndex(file, options);
    },
  );
}

function weightOf(value: string): number {
  const weight = Number(value);
  if (value !== '' && weight >= 0 && weight < Infinity) return weight;
  throw invalid('--weight', 'a number of at least 0', `'${value}'`);
}

async function makeIndex(file: string, options: Options): Promise<void> {
  const { pooling, dimensions, prompt, weight = 1 } = options;
  const input = new Input([file], { ...options, described: true });
  const out = indexFile(options.out, options.force ?? false);
  const entries = await listed(input.entries(), options.id);
  const texts = entries.texts.length;
  using model = await openModel(options, { input });
  const progress = new Progress('indexing', 'texts');
  const onProgress = (done: number) => progress.update(done, done / texts);
  const vectors = { pooling, dimensions, prompt, weight, onProgress };
  const index = await indexOf(model, entries, input.entries(), vectors).finally(() => progress[dispose]());
  const bytes = await writeIndex(out, index);
  const { dimensions: width } = index;
  if (options.json) printJson({ index: out, texts, dimensions: width, bytes });
  else print(`${out}: ${counted(texts, 'text')}, ${counted(width, 'dimension')}, ${counted(bytes, 'byte')}`);
}
