/** `heed index`: an int8 search index of a file of texts. */
import { type Command, Option } from 'commander';
import { invalid } from '../error.js';
import { indexFiles, indexOf, wordsOf, writeIndex } from '../indexing.js';
import { type EmbeddingOptions, type ModelOptions, openModel } from '../model.js';
import { addEmbedding, addExamples, addInput, addModel } from '../options.js';
import { ProgressLine } from '../progress.js';
import { type RecordOptions, readEntries } from '../records.js';

type Options = ModelOptions & RecordOptions & EmbeddingOptions & { out: string; weight?: number };

export function addIndex(program: Command): void {
  const command = program.command('index <file>').description('make an int8 search index of a file of texts');
  addModel(command);
  addInput(command);
  addEmbedding(command).addOption(
    new Option(
      '--weight <w>',
      "weight of the mean of an entry's descriptions relative to its text (default: 1). JSON lines have descriptions: " +
        '{"text": "aunt", "descriptions": ["the sister of a parent", "an uncle\'s wife"]}',
    ).argParser(weightOf),
  );
  command
    .optionsGroup('Output:')
    .requiredOption('--out <file>', 'the index, a .safetensors file; words.txt is written to the same folder');
  addExamples(command, 'heed index words.txt --dimensions 128 --dtype q8 --out dictionary/index.safetensors').action(
    (file: string, options: Options) => {
      // The file is read twice, which standard input cannot be.
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
  const entries = () => readEntries([file], { ...options, described: true });
  const words = await wordsOf(entries(), file);
  const files = indexFiles(options.out, words);
  using model = await openModel(options);
  const progress = new ProgressLine('entries indexed', words.length);
  const onProgress = (done: number) => progress.update(done);
  const index = await indexOf(model, words, entries(), { pooling, dimensions, prompt, weight, onProgress });
  progress.end();
  const bytes = writeIndex(files, index);
  process.stdout.write(
    `${files.vectors}: ${words.length} texts, ${index.dimensions} dimensions, ${bytes.toLocaleString('en')} bytes\n`,
  );
}
