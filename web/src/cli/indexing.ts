/** Builds a search index with one vector per entry, computed from its text and its descriptions. */
import { basename, dirname, join } from 'node:path';
import { describe } from '../base/error.js';
import { type EmbedOptions, load, type PretrainedModel, Tensor, type TextId, type TextIndex } from '../index.js';
import {
  batches,
  embedTexts,
  invalid,
  invalidFile,
  makeFolderOf,
  requireWritable,
  safetensorsHeader,
  statusOf,
  writeWhole,
} from '../node/index.js';
import type { Entry } from './records.js';
import { notice } from './terminal.js';

/** The entries' texts and ids, read before any entry is embedded, so that errors in the file are found early. */
export interface Listed {
  texts: string[];
  /** The entries' ids, which --id names; without --id, if all entries have one and no two have the same. */
  ids: TextId[] | undefined;
}

/** The integer that an id stands for; null if it is a name. Cells of tables are texts. */
function integerOf(id: string | number): number | null {
  const number = Number(id);
  return Number.isSafeInteger(number) && number >= 0 && String(number) === String(id) ? number : null;
}

/**
 * Reads the entries. `key`: the key of the ids, if the caller named it. Ids are integers if all of them are written as
 * integers, else texts and integers as the file has them.
 *
 * @throws HeedError for an id under `key` that an index cannot store
 */
export async function listed(entries: AsyncIterable<Entry>, key: string | undefined): Promise<Listed> {
  const texts: string[] = [];
  const given: { id: string | number | undefined; at: string }[] = [];
  for await (const { text, at, place } of entries) {
    texts.push(text);
    given.push({ id: place.id, at });
  }
  const areIntegers = given.every(({ id }) => id !== undefined && integerOf(id) !== null);
  const rows = new Map<TextId, string>();
  for (const { id, at } of given) {
    const stored = id !== undefined && areIntegers ? integerOf(id) : id;
    const isValid = typeof stored === 'string' ? stored !== '' : stored != null && integerOf(stored) !== null;
    const first = isValid ? rows.get(stored!) : undefined;
    if (isValid && first === undefined) {
      rows.set(stored!, at);
      continue;
    }
    const got = first !== undefined ? `${describe(stored)}, the id of ${first}` : describe(id);
    if (key !== undefined) throw invalidFile(at, `a text or an integer from 0 to 2^53 - 1 under '${key}', unique`, got);
    if (given.some((each) => each.id !== undefined))
      notice(
        `the ids of the texts are 0, 1, 2, ...: an index stores unique ids, and ${at} has ${id === undefined ? 'no id' : `the id ${got}`}`,
        'yellow',
      );
    return { texts, ids: undefined };
  }
  return { texts, ids: [...rows.keys()] };
}

export interface IndexOptions extends Pick<EmbedOptions, 'pooling' | 'dimensions' | 'prompt'> {
  /** Weight of the mean of the descriptions' vectors, relative to the text's own vector. */
  weight: number;
  onProgress: (progress: { done: number; total: number }) => void;
  /** The index that gets the texts. Default: a new one. */
  into?: TextIndex | null;
}

/**
 * Adds to an index the vectors (u(text) + weight * mean(u(description))) / (1 + weight), or u(text) without
 * descriptions. u is a document's vector, scaled to unit norm if the similarity is the cosine. A text whose id is in use
 * replaces the text with this id.
 */
export async function indexOf(
  model: PretrainedModel,
  { texts, ids }: Listed,
  entries: AsyncIterable<Entry>,
  { weight, onProgress, into = null, ...options }: IndexOptions,
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
    onProgress({ done, total: texts.length });
  }
  const index = into ?? (await newIndex(model, similarity, options));
  await index.add(texts, { vectors: new Tensor(vectors, [texts.length, width]), ids, replace: ids !== undefined });
  return index;
}

async function newIndex(
  model: PretrainedModel,
  similarity: 'dot' | 'cosine',
  { dimensions, prompt, pooling }: Pick<IndexOptions, 'dimensions' | 'prompt' | 'pooling'>,
): Promise<TextIndex> {
  const heed = await load();
  return heed.TextIndex.of([], undefined, {
    embedder: embedderOf(model, { pooling }),
    similarity,
    ...(dimensions && { dimensions }),
    ...(prompt !== undefined && { prompt }),
  });
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

/** Removes the texts with these ids, as they are given on the command line: names, or integers. */
export async function removeFrom(index: TextIndex, ids: readonly string[]): Promise<void> {
  const found = ids.map((id) => {
    const stored = index.has(id) ? id : integerOf(id);
    if (stored === null || !index.has(stored)) throw invalid('--remove', 'ids of texts in the index', describe(id));
    return stored;
  });
  await index.remove(found);
}

/**
 * The file of an index: `out`, or `index.safetensors` in it if `out` is a folder or has no extension.
 *
 * `change`: what becomes of an index that exists: 'none' (it is an error), 'replace' or 'update', which needs one.
 *
 * @throws HeedError if the file cannot be written, or for another file
 */
export function indexFile(out: string, change: 'none' | 'replace' | 'update'): string {
  const isFile = out.endsWith('.safetensors');
  const status = statusOf(out);
  if (isFile ? status?.isDirectory() : status?.isFile() || /\.\w+$/.test(basename(out)))
    throw invalid('--out', 'a folder, or a file that ends in .safetensors', `'${out}'`);
  const file = isFile ? out : join(out, 'index.safetensors');
  if (change === 'none' && statusOf(file))
    throw invalid(
      '--out',
      'a new file',
      `'${file}', which exists. Replace it with --force, or change it with --update`,
    );
  if (change === 'update' && !statusOf(file)) throw invalid('--out', 'an index that exists', `'${file}'`);
  if (statusOf(file) && !isIndex(file))
    throw invalid('--out', 'a new file, or an index to replace', `'${file}', which is no index of heed`);
  requireWritable(dirname(file));
  return file;
}

export async function writeIndex(file: string, index: TextIndex): Promise<number> {
  const bytes = await index.save();
  makeFolderOf(file);
  if (!writeWhole(file, bytes, isIndex))
    throw invalid('--out', 'a new file, or an index to replace', `'${file}', which was made during the run`);
  return bytes.length;
}

/** Whether a file is an index of heed, which says so in its metadata or, from earlier versions, has these tensors. */
function isIndex(file: string): boolean {
  try {
    const { header } = safetensorsHeader(file);
    return header.__metadata__?.heed_index !== undefined || ('vectors' in header && 'text_lengths' in header);
  } catch {
    return false;
  }
}
