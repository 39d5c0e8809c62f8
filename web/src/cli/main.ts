#!/usr/bin/env node
/** The command `heed`: embed, search, classify, index and inspect, on files or standard input. */
import { dirname } from 'node:path';
import { parseArgs } from 'node:util';
import { classify, HeedError, load, type PretrainedModel, semanticSearch, TextIndex } from '../index.js';
import { POOLINGS, type Pooling } from '../models/sentence-transformers.js';
import { version } from '../version.js';
import { indexFiles, indexOf, wordsOf, writeIndex } from './indexing.js';
import { openOutput } from './output.js';
import { ProgressLine } from './progress.js';
import { batches, FORMATS, type RecordOptions, readEntries, readTexts } from './records.js';

const HELP = `heed ${version}: transformer encoders without a Python

heed embed [files]             a vector for every text, as JSON lines or .npy
heed search QUERY [files]      the texts nearest to QUERY, from files or from an index (--index folder)
heed classify [files]          labels of every text, as JSON lines
heed index file                an int8 search index of a file's texts (--out folder/index.safetensors; words.txt beside it)
heed inspect [model]           what a checkpoint is: family, sizes, parameters

Files hold one text a line; .jsonl and .csv are read by --field. Without files, standard input.

--model FOLDER    a model's folder or URL (default: the model that comes with heed)
--dtype q8        int8 arithmetic: smaller and faster, nearly as exact (default fp32)
--format F        lines, jsonl or csv (default: by the file's ending)
--field NAME      the key or column with the text (default text)
--out FILE        .jsonl or .npy (default: JSON lines on standard output)
--resume          go on with an interrupted --out
--pooling P       mean, cls, last, max, mean_sqrt_len or weighted_mean, or several: cls+mean
                  (default: as the model's folder says)
--normalize       vectors of length 1 (--no-normalize: as they are; default: as the folder says)
--dimensions D    the first D entries only
--prompt TEXT     set before every text
--top K           how many results (default 10; classify: all)
--index FOLDER    search in an index made by heed index
--weight W        index: what the mean of an entry's descriptions counts beside its text (default 1). JSON lines have
                  them: {"text": "aunt", "descriptions": ["the sister of a parent", "an uncle's wife"]}
`;

const OPTIONS = {
  model: { type: 'string' },
  dtype: { type: 'string' },
  format: { type: 'string' },
  field: { type: 'string' },
  out: { type: 'string' },
  resume: { type: 'boolean' },
  pooling: { type: 'string' },
  normalize: { type: 'boolean' },
  'no-normalize': { type: 'boolean' },
  dimensions: { type: 'string' },
  prompt: { type: 'string' },
  top: { type: 'string' },
  index: { type: 'string' },
  weight: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'v' },
} as const;

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS; allowPositionals: true }>>['values'];

/** Texts in memory at a time, which bounds what a stream of any length takes. */
const BATCH = 256;

async function main(): Promise<void> {
  let parsed: { values: Values; positionals: string[] };
  try {
    parsed = parseArgs({ options: OPTIONS, allowPositionals: true });
  } catch (cause) {
    throw new HeedError('INVALID_ARGUMENT', `${(cause as Error).message}. heed --help lists the options`);
  }
  const { values, positionals } = parsed;
  const [command, ...rest] = positionals;
  if (values.version) process.stdout.write(`${version}\n`);
  else if (values.help || command === undefined) process.stdout.write(HELP);
  else if (command === 'embed') await embed(rest, values);
  else if (command === 'search') await search(rest, values);
  else if (command === 'classify') await classifyTexts(rest, values);
  else if (command === 'index') await makeIndex(rest, values);
  else if (command === 'inspect') await inspect(rest, values);
  else
    throw new HeedError(
      'INVALID_ARGUMENT',
      `command: got '${command}'; expected embed, search, classify, index or inspect`,
    );
}

/** Refuses what says the same as `first` in another way. */
function refuseBoth(first: string, second: string, given: boolean): void {
  if (given) throw new HeedError('INVALID_ARGUMENT', `${first}: got it beside ${second}; expected one of the two`);
}

async function openModel(values: Values, source = values.model): Promise<PretrainedModel> {
  const heed = await load();
  const line = new ProgressLine('loading, bytes');
  const dtype = oneOf('--dtype', values.dtype, ['fp32', 'q8'] as const);
  const model = await heed.fromPretrained(source, {
    ...(dtype && { dtype }),
    onProgress: ({ loaded }) => line.update(loaded),
  });
  line.end();
  return model;
}

function oneOf<const T extends string>(name: string, value: string | undefined, legal: readonly T[]): T | undefined {
  if (value === undefined || legal.includes(value as T)) return value as T | undefined;
  throw new HeedError('INVALID_ARGUMENT', `${name}: got '${value}'; expected ${legal.join(', ')}`);
}

function count(name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (/^[1-9]\d{0,8}$/.test(value)) return Number(value);
  throw new HeedError('INVALID_ARGUMENT', `${name}: got '${value}'; expected a whole number of at least 1`);
}

function embedOptions(values: Values): {
  pooling?: Pooling[];
  normalize?: boolean;
  dimensions?: number;
  prompt?: string;
} {
  refuseBoth('--normalize', '--no-normalize', Boolean(values.normalize && values['no-normalize']));
  const pooling = values.pooling?.split('+').map((name) => oneOf('--pooling', name, POOLINGS)!);
  const dimensions = count('--dimensions', values.dimensions);
  return {
    ...(pooling && { pooling }),
    ...(values.normalize && { normalize: true }),
    ...(values['no-normalize'] && { normalize: false }),
    ...(dimensions && { dimensions }),
    ...(values.prompt !== undefined && { prompt: values.prompt }),
  };
}

function recordOptions(values: Values): RecordOptions {
  const format = oneOf('--format', values.format, FORMATS);
  return { field: values.field ?? 'text', ...(format && { format }) };
}

function texts(files: string[], values: Values): AsyncGenerator<string> {
  return readTexts(files, recordOptions(values));
}

/** Batches of texts that an earlier run has not done. */
async function* pending(files: string[], values: Values, done: number): AsyncGenerator<string[]> {
  let skip = done;
  for await (const batch of batches(texts(files, values), BATCH)) {
    if (skip < batch.length) yield batch.slice(skip);
    skip = Math.max(0, skip - batch.length);
  }
}

async function embed(files: string[], values: Values): Promise<void> {
  const options = embedOptions(values);
  const output = openOutput(values.out, values.resume ?? false, 'vectors');
  using model = await openModel(values);
  const line = new ProgressLine('texts embedded');
  let done = output.done;
  try {
    for await (const batch of pending(files, values, output.done)) {
      const { data, shape } = await model.embed(batch, options);
      const width = shape[1]!;
      for (const [n, text] of batch.entries()) await output.write({ text }, data.subarray(n * width, (n + 1) * width));
      done += batch.length;
      line.update(done);
    }
  } finally {
    output.close();
    line.end();
  }
}

async function classifyTexts(files: string[], values: Values): Promise<void> {
  const topK = count('--top', values.top);
  const output = openOutput(values.out, values.resume ?? false, 'records');
  using model = await openModel(values);
  const line = new ProgressLine('texts classified');
  let done = output.done;
  try {
    for await (const batch of pending(files, values, output.done)) {
      const all = await classify(model, batch, { ...(topK && { topK }) });
      for (const [n, text] of batch.entries()) await output.write({ text, labels: all[n] });
      done += batch.length;
      line.update(done);
    }
  } finally {
    output.close();
    line.end();
  }
}

async function search([query, ...files]: string[], values: Values): Promise<void> {
  if (query === undefined)
    throw new HeedError('INVALID_ARGUMENT', 'query: got none; expected heed search "what you look for" [files]');
  const topK = count('--top', values.top) ?? 10;
  refuseBoth('--index', 'files', values.index !== undefined && files.length > 0);
  using model = await openModel(values);
  const options = { ...embedOptions(values), normalize: true };
  if (values.index !== undefined) {
    const index = await TextIndex.load(values.index.endsWith('.safetensors') ? dirname(values.index) : values.index);
    const hits = index.search(await model.embed(query, { ...options, dimensions: index.dimensions }), { topK });
    for (const { text, score } of hits) process.stdout.write(`${score.toFixed(3)}  ${text}\n`);
    return;
  }
  const wanted = await model.embed(query, options);
  const line = new ProgressLine('texts searched');
  let hits: { text: string; score: number }[] = [];
  let done = 0;
  for await (const batch of batches(texts(files, values), BATCH)) {
    const [found] = semanticSearch(wanted, await model.embed(batch, options), { topK });
    // Only the best are kept, so that a corpus of any length passes through.
    hits = [...hits, ...found!.map(({ index, score }) => ({ text: batch[index]!, score }))]
      .sort((a, b) => b.score - a.score)
      .slice(0, topK);
    done += batch.length;
    line.update(done);
  }
  line.end();
  for (const { text, score } of hits) process.stdout.write(`${score.toFixed(3)}  ${text}\n`);
}

async function makeIndex([file, ...others]: string[], values: Values): Promise<void> {
  if (file === undefined || file === '-' || others.length > 0)
    throw new HeedError(
      'INVALID_ARGUMENT',
      'index: expected one file of texts: heed index words.txt --out folder/index.safetensors',
    );
  const weight = Number(values.weight ?? 1);
  if (!(weight >= 0 && weight < Infinity) || values.weight === '')
    throw new HeedError('INVALID_ARGUMENT', `--weight: got '${values.weight}'; expected a number of at least 0`);
  const options = { ...embedOptions(values), weight };
  const entries = () => readEntries([file], { ...recordOptions(values), described: true });
  const words = await wordsOf(entries(), file);
  const files = indexFiles(values.out, words);
  using model = await openModel(values);
  const line = new ProgressLine('entries indexed', words.length);
  const index = await indexOf(model, words, entries(), { ...options, onProgress: (done) => line.update(done) });
  line.end();
  const bytes = writeIndex(files, index);
  process.stdout.write(
    `${files.vectors}: ${words.length} texts, ${index.dimensions} dimensions, ${bytes.toLocaleString('en')} bytes\n`,
  );
}

async function inspect([source]: string[], values: Values): Promise<void> {
  refuseBoth('--model', 'a model', values.model !== undefined && source !== undefined);
  using model = await openModel(values, source);
  const { config } = model;
  const rows: [string, unknown][] = [
    ['family', config.family],
    ['parameters', config.parameterCount.toLocaleString('en')],
    ['stored as', config.storage.join(', ')],
    ['layers', config.numLayers],
    ['heads', config.numHeads],
    ['width', config.embedDim],
    ['feed-forward', config.feedForwardDim],
    ['vocabulary', config.vocabSize.toLocaleString('en')],
    ['longest text', `${config.maxLength} tokens`],
    ['tokenizer', config.hasTokenizer ? 'yes' : 'none: token ids only'],
    ['vectors', `${config.pooling}${config.normalize ? ', normalized' : ''}`],
    ['prompts', Object.keys(config.prompts).join(', ') || 'none'],
    ['labels', config.labels.join(', ') || 'none'],
    ['unused tensors', config.unusedTensors.join(', ') || 'none'],
  ];
  for (const [name, value] of rows) process.stdout.write(`${name.padEnd(16)}${String(value)}\n`);
}

// A reader that has seen enough (`| head`) is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));

/** A mistake of the caller's or of the system's is a line; one of heed's own comes with its place. */
function messageOf(error: unknown): string {
  if (error instanceof HeedError || (error as NodeJS.ErrnoException).syscall) return (error as Error).message;
  return (error as Error).stack ?? String(error);
}

main().catch((error: unknown) => {
  process.stderr.write(`heed: ${messageOf(error)}\n`);
  process.exitCode = 1;
});
