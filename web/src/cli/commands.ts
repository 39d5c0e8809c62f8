/** What each subcommand of `heed` does. */
import { dirname } from 'node:path';
import { classify, type EmbedOptions, load, type PretrainedModel, semanticSearch, TextIndex } from '../index.js';
import { batches } from '../scale/batches.js';
import { indexFiles, indexOf, wordsOf, writeIndex } from './indexing.js';
import { openOutput } from './output.js';
import { ProgressLine } from './progress.js';
import { type RecordOptions, readEntries, readTexts } from './records.js';

// Options as commander gives them: camelCase, undefined if not given.
interface ModelOptions {
  model?: string;
  dtype?: 'fp32' | 'q8';
}
interface OutputOptions {
  out?: string;
  resume?: boolean;
}
type EmbeddingOptions = Pick<EmbedOptions, 'pooling' | 'dimensions' | 'prompt'>;

async function openModel({ model: source, dtype }: ModelOptions): Promise<PretrainedModel> {
  const heed = await load();
  const progress = new ProgressLine('loading, bytes');
  const model = await heed.fromPretrained(source, { dtype, onProgress: ({ loaded }) => progress.update(loaded) });
  progress.end();
  return model;
}

/** Writes one record, and for embeddings its vector, for each text that `--out` does not have yet. */
async function writeRecords(
  files: string[],
  options: ModelOptions & OutputOptions & RecordOptions,
  kind: 'vectors' | 'records',
  label: string,
  compute: (model: PretrainedModel, texts: string[]) => Promise<[record: object, vector?: Float32Array][]>,
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

export function embed(
  files: string[],
  options: ModelOptions & OutputOptions & RecordOptions & EmbeddingOptions & { normalize?: boolean },
): Promise<void> {
  const { pooling, dimensions, prompt, normalize } = options;
  return writeRecords(files, options, 'vectors', 'texts embedded', async (model, texts) => {
    const { data, shape } = await model.embed(texts, { pooling, dimensions, prompt, normalize });
    const width = shape[1]!;
    return texts.map((text, n) => [{ text }, data.subarray(n * width, (n + 1) * width)]);
  });
}

export function classifyTexts(
  files: string[],
  options: ModelOptions & OutputOptions & RecordOptions & { top?: number },
): Promise<void> {
  return writeRecords(files, options, 'records', 'texts classified', async (model, texts) => {
    const labels = await classify(model, texts, { topK: options.top });
    return texts.map((text, n) => [{ text, labels: labels[n] }]);
  });
}

export async function search(
  query: string,
  files: string[],
  options: ModelOptions & RecordOptions & EmbeddingOptions & { top?: number; index?: string },
): Promise<void> {
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

export async function makeIndex(
  file: string,
  options: ModelOptions & RecordOptions & EmbeddingOptions & { out: string; weight?: number },
): Promise<void> {
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

export async function inspect(options: ModelOptions): Promise<void> {
  using model = await openModel(options);
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
