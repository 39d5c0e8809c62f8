/** Builds a search index with one vector per entry, computed from its text and its descriptions. */
import { basename, dirname, join } from 'node:path';
import { type EmbedOptions, type ModelInput, type PretrainedModel, Tensor, TextIndex } from '../index.js';
import { batches, invalid, makeFolderOf, readRange, requireWritable, statusOf, writeWhole } from '../node/index.js';
import type { Entry } from './records.js';

/** The entries' texts and ids, read before any entry is embedded, so that errors in the file are found early. */
export interface Listed {
  texts: string[];
  /** The entries' ids if all entries have one that an index can store; otherwise undefined. */
  ids: number[] | undefined;
}

export async function listed(entries: AsyncIterable<Entry>): Promise<Listed> {
  const texts: string[] = [];
  const ids = new Set<number>();
  for await (const { text, place } of entries) {
    texts.push(text);
    const id = typeof place.id === 'string' && /^\d{1,15}$/.test(place.id) ? Number(place.id) : place.id;
    if (typeof id === 'number' && Number.isSafeInteger(id) && id >= 0) ids.add(id);
  }
  return { texts, ids: ids.size === texts.length ? [...ids] : undefined };
}

export interface IndexOptions extends Pick<EmbedOptions, 'pooling' | 'dimensions' | 'prompt'> {
  /** Weight of the mean of the descriptions' vectors, relative to the text's own vector. */
  weight: number;
  /** Called with the number of entries done so far. */
  onProgress: (done: number) => void;
}

/**
 * Builds an index of the vectors u(text) + weight * mean(u(description)), where u is a vector scaled to unit norm. The
 * index normalizes the sums.
 */
export async function indexOf(
  model: PretrainedModel,
  { texts, ids }: Listed,
  entries: AsyncIterable<Entry>,
  { weight, onProgress, ...options }: IndexOptions,
): Promise<TextIndex> {
  let vectors = new Float32Array(0);
  let width = 0;
  let done = 0;
  for await (const group of batches(entries, ({ descriptions }) => 1 + descriptions.length)) {
    const parts = group.flatMap(({ text, descriptions }) => [text, ...descriptions]);
    const { data, shape } = await model.embed(parts, { ...options, normalize: true });
    if (done === 0) {
      width = shape[1]!;
      vectors = new Float32Array(texts.length * width);
    }
    let at = 0;
    for (const { descriptions } of group) {
      const sum = vectors.subarray(done * width, (done + 1) * width);
      for (let t = -1; t < descriptions.length; t++) {
        const factor = t < 0 ? 1 : weight / descriptions.length;
        for (let i = 0; i < width; i++) sum[i]! += factor * data[at++]!;
      }
      done++;
    }
    onProgress(done);
  }
  const { dimensions, prompt, pooling } = options;
  const given = { ...(dimensions && { dimensions }), ...(prompt !== undefined && { prompt }) };
  const index = TextIndex.of([], undefined, { embedder: embedderOf(model, { pooling }), ...given });
  await index.add(texts, new Tensor(vectors, [texts.length, width]), { ids });
  return index;
}

/**
 * The model with the settings of `heed index`, by which an index recognizes it. `prompt`: prompt of the index's texts.
 */
export function embedderOf(model: PretrainedModel, { pooling, prompt }: Pick<EmbedOptions, 'pooling' | 'prompt'>) {
  const { prompts } = model.config;
  const settings = { normalize: true, ...(pooling && { pooling }) };
  return {
    config: { ...model.config, prompts: { ...prompts, document: prompt ?? '' } },
    embedDocument: (texts: ModelInput, options?: EmbedOptions) =>
      model.embed(texts, { ...settings, ...(prompt && { prompt }), ...options }),
    embedQuery: (texts: ModelInput, options?: EmbedOptions) => model.embedQuery(texts, { ...settings, ...options }),
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
