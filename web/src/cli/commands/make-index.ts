/** `heed index`: builds or changes an int8 search index for a file of texts. */
import { type Command, Option } from 'commander';
import { load, type PretrainedModel, type TextIndex } from '../../index.js';
import { invalid } from '../../node/index.js';
import { embedderOf, indexFile, indexOf, type Listed, listed, removeFrom, writeIndex } from '../indexing.js';
import { type EmbeddingOptions, type ModelOptions, openModel, type ParallelOptions } from '../model.js';
import {
  addEmbedding,
  addExamples,
  addInput,
  addJson,
  addModel,
  addParallel,
  number,
  requireWith,
} from '../options.js';
import { Progress } from '../progress.js';
import { Input, type RecordOptions } from '../records.js';
import { counted, print, printJson } from '../terminal.js';

type Options = ModelOptions &
  ParallelOptions &
  RecordOptions &
  EmbeddingOptions & {
    out: string;
    force?: boolean;
    update?: boolean;
    remove?: string[];
    weight?: number;
    json?: boolean;
  };

export function addIndex(program: Command): void {
  const command = program
    .command('index [file]')
    .description('build an int8 search index of a file of texts, or change one');
  addModel(command);
  addInput(
    command,
    'the key or column with the id, unique: texts, or integers (default: id, if all texts have one, else 0, 1, 2, ...)',
  );
  addEmbedding(command).addOption(
    number(
      '--weight <w>',
      "weight of the mean of an entry's descriptions relative to its text (default: 1). JSON lines have descriptions: " +
        '{"text": "aunt", "descriptions": ["the sister of a parent", "an uncle\'s wife"]}',
      'a number of at least 0',
      (weight) => weight >= 0 && weight < Infinity,
    ),
  );
  command
    .optionsGroup('Output:')
    .requiredOption('--out <file>', 'the index: a .safetensors file, or a folder for its index.safetensors')
    .addOption(
      new Option('--force', 'replace an existing index once the new one is complete').conflicts(['update', 'remove']),
    )
    .addOption(
      new Option('--update', 'add the texts to an existing index, where they replace texts with the same id').conflicts(
        ['dimensions', 'prompt'],
      ),
    )
    .option('--remove <ids...>', 'remove the texts with these ids from an existing index');
  addJson(command, 'one line of JSON { index, texts, dimensions, bytes }');
  addParallel(command);
  addExamples(
    command,
    'heed index words.txt --dimensions 128 --out dictionary/index.safetensors',
    'heed index pages.jsonl --id url --out pages/ --update',
    'heed index --out pages/ --remove /old.html /older.html',
  ).action((file: string | undefined, options: Options) => {
    // The file is read twice, which is impossible for standard input.
    if (file === '-') throw invalid('file', "a file's path", "'-' (standard input)");
    if (file === undefined && !options.remove) throw invalid('file', "a file's path, or --remove", 'none');
    if (file === undefined) requireWith('a file', { '--update': options.update, '--id': options.id });
    if (file !== undefined && options.remove)
      requireWith('--update', { '--remove': options.update ? undefined : true });
    return makeIndex(file, options);
  });
}

async function makeIndex(file: string | undefined, options: Options): Promise<void> {
  const isChange = options.update === true || options.remove !== undefined;
  const out = indexFile(options.out, isChange ? 'update' : options.force ? 'replace' : 'none');
  const input = file === undefined ? null : new Input([file], { ...options, described: true });
  const entries = input && (await listed(input.entries(), options.id));
  const heed = await load();
  using given = isChange ? await heed.TextIndex.load(out) : null;
  if (given && options.remove) await removeFrom(given, options.remove);
  using model = input && (await openModel(options, { input }));
  using index = model ? await withTexts(model, input!, entries!, out, given, options) : given!;
  const bytes = await writeIndex(out, index);
  const { size: texts, dimensions } = index;
  if (options.json) printJson({ index: out, texts, dimensions, bytes });
  else print(`${out}: ${counted(texts, 'text')}, ${counted(dimensions, 'dimension')}, ${counted(bytes, 'byte')}`);
}

/** An index with the texts of a file: a new one, or that of the file `out`. */
async function withTexts(
  model: PretrainedModel,
  input: Input,
  entries: Listed,
  out: string,
  into: TextIndex | null,
  options: Options,
): Promise<TextIndex> {
  const { pooling, weight = 1 } = options;
  using progress = new Progress('indexing', 'texts');
  let { dimensions, prompt } = options;
  if (into) {
    const embedder = embedderOf(model, { pooling, documentPrompt: into.documentPrompt });
    await into.setEmbedder(out, embedder, null);
    dimensions = into.dimensions || undefined;
    prompt = into.documentPrompt;
  }
  const vectors = { pooling, dimensions, prompt, weight, onProgress: progress.onProgress, into };
  return indexOf(model, entries, input.entries(), vectors);
}
