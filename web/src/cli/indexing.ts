/** Builds a search index with one vector per entry, computed from its text and its descriptions. */
import { basename, dirname, join } from 'node:path';
import { describe } from '../base/error.js';
import { type EmbedOptions, type PretrainedModel, Tensor, TextIndex } from '../index.js';
import {
  batches,
  embedTexts,
  invalid,
  invalidFile,
  makeFolderOf,
  readRange,
  requireWritable,
  statusOf,
  writeWhole,
} from '../node/index.js';
import type { Entry } from './records.js';
import { notice } from './terminal.js';

/** The entries' texts and ids, read before any entry is embedded, so that errors in the file are found early. */
export interface Listed {
  texts: string[];
  /** The entries' ids, which --id names; without --id, if all entries have one that an index can store. */
  ids: number[] | undefined;
}

/** The id that an index stores; null if it cannot store this one. Cells of tables are texts. */
function storedId(id: string | number | undefined): number | null {
  const number = Number(id);
  return id !== undefined && Number.isSafeInteger(number) && number >= 0 && String(number) === String(id)
    ? number
    : null;
}

/**
 * Reads the entries. `key`: the key of the ids, if the caller named it.
 * @throws HeedError for an id under `key` that an index cannot store
 */
export async function listed(entries: AsyncIterable<Entry>, key: string | undefined): Promise<Listed> {
  const texts: string[] = [];
  const rows = new Map<number, string>();
  let hasIds = key !== undefined;
  let problem: { at: string; got: string } | undefined;
  for await (const { text, at, place } of entries) {
    texts.push(text);
    const id = storedId(place.id);
    hasIds ||= place.id !== undefined;
    const got =
      id === null
        ? place.id === undefined
          ? 'none'
          : describe(place.id)
        : rows.has(id)
          ? `${id}, the id of ${rows.get(id)}`
          : null;
    if (got !== null && key !== undefined)
      throw invalidFile(at, `an integer from 0 to 2^53 - 1 under '${key}', unique, as an index stores`, got);
    if (got !== null) problem ??= { at, got };
    else rows.set(id!, at);
  }
  if (!problem) return { texts, ids: [...rows.keys()] };
  if (hasIds)
    notice(
      `the ids of the texts are 0, 1, 2, ...: an index stores unique integers, and ${problem.at} has ${problem.got === 'none' ? 'no id' : `the id ${problem.got}`}`,
      'yellow',
    );
  return { texts, ids: undefined };
}

export interface IndexOptions extends Pick<EmbedOptions, 'pooling' | 'dimensions' | 'prompt'> {
  /** Weight of the mean of the descriptions' vectors, relative to the text's own vector. */
  weight: number;
  /** Called with the number of entries done so far. */
  onProgress: (done: number) => void;
}

/**
 * Builds an index of the vectors (u(text) + weight * mean(u(description))) / (1 + weight), or u(text) without
 * descriptions. u is a document's vector, scaled to unit norm if the similarity is the cosine.
 */
export async function indexOf(
  model: PretrainedModel,
  { texts, ids }: Listed,
  entries: AsyncIterable<Entry>,
  { weight, onProgress, ...options }: IndexOptions,
): Promise<TextIndex> {
  const similarity = similarityOf(model);
  let vectors = new Float32Array(0);
  let width = 0;
  let done = 0;
  for await (const group of batches(entries, ({ descriptions }) => 1 + descriptions.length)) {
    const parts = group.flatMap(({ text, descriptions }) => [text, ...descriptions]);
    const { data, shape } = await embedTexts(model, parts, {
      ...options,
      role: 'document',
      ...(similarity === 'cosine' && { normalize: true }),
    });
    if (done === 0) {
      width = shape[1]!;
      vectors = new Float32Array(texts.length * width);
    }
    let at = 0;
    for (const { descriptions } of group) {
      const sum = vectors.subarray(done * width, (done + 1) * width);
      for (let t = -1; t < descriptions.length; t++) {
        const factor = (t < 0 ? 1 : weight / descriptions.length) / (descriptions.length > 0 ? 1 + weight : 1);
        for (let i = 0; i < width; i++) sum[i]! += factor * data[at++]!;
      }
      done++;
    }
    onProgress(done);
  }
  const { dimensions, prompt, pooling } = options;
  const given = { similarity, ...(dimensions && { dimensions }), ...(prompt !== undefined && { prompt }) };
  const index = TextIndex.of([], undefined, { embedder: embedderOf(model, { pooling }), ...given });
  await index.add(texts, new Tensor(vectors, [texts.length, width]), { ids });
  return index;
}

/** The similarity of a search: that of the model if an index supports it, else the cosine. */
export const similarityOf = ({ config }: PretrainedModel): 'dot' | 'cosine' =>
  config.similarity === 'dot' ? 'dot' : 'cosine';

/**
 * The model as the embedder of an index. `documentPrompt`: the prompt of the index's texts, if it is not the model's.
 */
export function embedderOf(
  model: PretrainedModel,
  { pooling, documentPrompt }: Pick<EmbedOptions, 'pooling'> & { documentPrompt?: string },
): PretrainedModel {
  if (pooling === undefined && documentPrompt === undefined) return model;
  const { config } = model;
  const settings = { ...(pooling && { pooling }) };
  const ofDocuments = documentPrompt === undefined ? {} : { prompt: documentPrompt };
  return {
    config: {
      ...config,
      ...(documentPrompt !== undefined && { prompts: { ...config.prompts, document: documentPrompt } }),
    },
    embedDocument: (texts: string[], options?: EmbedOptions) =>
      embedTexts(model, texts, { ...settings, ...ofDocuments, ...options, role: 'document' }),
    embedQuery: (texts: string[], options?: EmbedOptions) =>
      embedTexts(model, texts, { ...settings, ...options, role: 'query' }),
  } as unknown as PretrainedModel;
}

/**
 * The file of an index: `out`, or `index.safetensors` in it if `out` is a folder or has no extension.
 *
 * @throws HeedError if the file cannot be written, or if it exists and `replace` is false
 */
export function indexFile(out: string, replace: boolean): string {
  const isFile = out.endsWith('.safetensors');
  const status = statusOf(out);
  if (isFile ? status?.isDirectory() : status?.isFile() || /\.\w+$/.test(basename(out)))
    throw invalid('--out', 'a folder, or a file that ends in .safetensors', `'${out}'`);
  const file = isFile ? out : join(out, 'index.safetensors');
  if (!replace && statusOf(file))
    throw invalid('--out', 'a new file', `'${file}', which exists. Replace it with --force`);
  if (statusOf(file) && !isIndex(file))
    throw invalid('--out', 'a new file, or an index to replace', `'${file}', which is no index of heed`);
  requireWritable(dirname(file));
  return file;
}

/** Writes the file of an index, creating its folder if needed. Returns the number of bytes. */
export async function writeIndex(file: string, index: TextIndex): Promise<number> {
  const bytes = await index.save();
  makeFolderOf(file);
  if (!writeWhole(file, bytes, isIndex))
    throw invalid('--out', 'a new file, or an index to replace', `'${file}', which was made during the run`);
  return bytes.length;
}

/** Whether a file is an index of heed, which says so in its metadata or, from earlier versions, has these tensors. */
function isIndex(file: string): boolean {
  const start = Buffer.from(readRange(file, 0, 8));
  if (start.length < 8) return false;
  try {
    const header = readRange(file, 8, Math.min(Number(start.readBigUInt64LE(0)), 1 << 24));
    const tensors = JSON.parse(Buffer.from(header).toString()) as Record<string, { heed_index?: string }>;
    return tensors.__metadata__?.heed_index !== undefined || ('vectors' in tensors && 'text_lengths' in tensors);
  } catch {
    return false;
  }
}
