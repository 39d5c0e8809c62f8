/** `heed search`: the texts nearest to a query. */
import { dirname } from 'node:path';
import { type Command, Option } from 'commander';
import { semanticSearch, TextIndex } from '../../index.js';
import { batches } from '../../scale/batches.js';
import { type EmbeddingOptions, type ModelOptions, openModel } from '../model.js';
import { addEmbedding, addExamples, addInput, addModel, count, refuseBoth } from '../options.js';
import { ProgressLine } from '../progress.js';
import { type RecordOptions, readTexts } from '../records.js';

type Options = ModelOptions & RecordOptions & EmbeddingOptions & { top?: number; index?: string };

export function addSearch(program: Command): void {
  const command = program
    .command('search <query> [files...]')
    .description('print the texts nearest to the query, from files or from an index');
  addModel(command);
  addInput(command).addOption(
    new Option('--index <folder>', 'search in an index made by `heed index`').conflicts([
      'format',
      'field',
      'dimensions',
    ]),
  );
  addEmbedding(command);
  command.optionsGroup('Output:').addOption(count('--top <k>', 'number of results (default: 10)'));
  addExamples(
    command,
    'heed search "a wild animal" texts.txt --top 3',
    'heed search "the sister of a parent" --index ./dictionary',
  ).action((query: string, files: string[], options: Options) => {
    refuseBoth('--index', 'files', options.index !== undefined && files.length > 0);
    return search(query, files, options);
  });
}

async function search(query: string, files: string[], options: Options): Promise<void> {
  const { pooling, dimensions, prompt, top: topK = 10 } = options;
  using model = await openModel(options);
  const settings = { pooling, dimensions, prompt, normalize: true };
  let hits: { text: string; score: number }[] = [];
  if (options.index !== undefined) {
    const index = await TextIndex.load(options.index.endsWith('.safetensors') ? dirname(options.index) : options.index);
    hits = index.search(await model.embed(query, { ...settings, dimensions: index.dimensions }), { topK });
  } else {
    const vector = await model.embed(query, settings);
    const progress = new ProgressLine('texts searched');
    let done = 0;
    for await (const batch of batches(readTexts(files, options))) {
      const [found] = semanticSearch(vector, await model.embed(batch, settings), { topK });
      // Only the best are kept, so that memory does not grow with the number of texts.
      hits = [...hits, ...found!.map(({ index, score }) => ({ text: batch[index]!, score }))]
        .sort((a, b) => b.score - a.score)
        .slice(0, topK);
      done += batch.length;
      progress.update(done);
    }
    progress.end();
  }
  for (const { text, score } of hits) process.stdout.write(`${score.toFixed(3)}  ${text}\n`);
}
