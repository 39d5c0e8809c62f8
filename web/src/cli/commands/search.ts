/** `heed search`: finds the texts nearest to a query. */
import { type Command, Option } from 'commander';
import { load } from '../../index.js';
import { batches, embedTexts } from '../../node/index.js';
import { embedderOf, similarityOf } from '../indexing.js';
import { type EmbeddingOptions, type ModelOptions, openModel, type ParallelOptions } from '../model.js';
import {
  addEmbedding,
  addExamples,
  addInput,
  addJson,
  addModel,
  addParallel,
  count,
  refuseBoth,
  requireWith,
} from '../options.js';
import { inParallel } from '../parallel.js';
import { Progress } from '../progress.js';
import { Input, type Place, type RecordOptions } from '../records.js';
import { printJson, printTable } from '../terminal.js';

type Options = ModelOptions &
  ParallelOptions &
  RecordOptions &
  EmbeddingOptions & { top?: number; index?: string; hybrid?: boolean; json?: boolean };

export function addSearch(program: Command): void {
  const command = program
    .command('search <query> [files...]')
    .description('print the texts nearest to the query, from files or from an index');
  addModel(command);
  addInput(command).addOption(
    new Option('--index <file>', 'search in an index made by `heed index`: its file or folder').conflicts([
      'format',
      'delimiter',
      'field',
      'id',
    ]),
  );
  command.option('--hybrid', 'with --index: also find texts by the words of the query, such as names and identifiers');
  addEmbedding(command);
  addJson(command, 'JSON lines { text, score, file, line, id }').addOption(
    count('--top <k>', 'number of results (default: 10)'),
  );
  addParallel(command);
  addExamples(
    command,
    'heed search "a wild animal" texts.txt --top 3',
    'heed search "the sister of a parent" --index ./dictionary',
  ).action((query: string, files: string[], options: Options) => {
    refuseBoth('--index', 'files', options.index !== undefined && files.length > 0);
    if (options.index === undefined) requireWith('--index', { '--hybrid': options.hybrid });
    return search(query, files, options);
  });
}

interface Hit {
  text: string;
  score: number;
  place: Place;
}

async function search(query: string, files: string[], options: Options): Promise<void> {
  const hits =
    options.index === undefined ? await searchFiles(query, files, options) : await searchIndex(query, options);
  if (options.json) for (const { text, score, place } of hits) printJson({ text, score, ...place });
  else
    printTable(
      hits.map(({ text, score, place }) => [score.toFixed(3), ...(files.length > 1 ? [placeOf(place)] : []), text]),
    );
}

async function searchIndex(query: string, options: Options): Promise<Hit[]> {
  const { pooling, prompt, dimensions = null, threads, top: topK = 10, index: path = '', hybrid = false } = options;
  const heed = await load({ threads });
  using index = await heed.TextIndex.load(path);
  using model = await openModel(options);
  await index.setEmbedder(path, embedderOf(model, { pooling, documentPrompt: index.documentPrompt }), dimensions);
  const hits = await index.search(query, { topK, hybrid, ...(prompt !== undefined && { prompt }) });
  return hits.map(({ text, score, id }) => ({ text, score, place: { id } }));
}

/** A text's location, as printed in tables of several files. */
const placeOf = ({ file, line, index }: Place): string =>
  `${file ?? '-'}${line === undefined ? `[${index}]` : `:${line}`}`;

async function searchFiles(query: string, files: string[], options: Options): Promise<Hit[]> {
  const { pooling, dimensions, prompt, top: topK = 10 } = options;
  const settings = { pooling, dimensions, prompt };
  const input = new Input(files, options);
  const heed = await load({ threads: options.threads });
  using model = await openModel(options, { input });
  using progress = new Progress('searching', 'texts');
  const form = { storage: 'float32' as const, similarity: similarityOf(model) };
  const vector = await embedTexts(model, query, { ...settings, role: 'query' });
  const found = inParallel(batches(input.entries()), Math.max(1, model.workers.count), async (entries) => {
    const texts = entries.map(({ text }) => text);
    using index = heed.TextIndex.of(texts, await embedTexts(model, texts, { ...settings, role: 'document' }), form);
    const hits = index.search(vector, { topK });
    return {
      count: texts.length,
      hits: hits.map(({ index: n, text, score }): Hit => ({ text, score, place: entries[n]!.place })),
    };
  });
  let best: Hit[] = [];
  let done = 0;
  for await (const { count, hits } of found) {
    // Keep only the best hits, so that memory does not grow with the number of texts.
    best = [...best, ...hits].sort((a, b) => b.score - a.score).slice(0, topK);
    done += count;
    progress.update(done, input.fraction);
  }
  return best;
}
