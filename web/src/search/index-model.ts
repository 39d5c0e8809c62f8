/**
 * The model of a TextIndex. It embeds the texts that are added and searched for. It is recognized by its vectors of a
 * fixed text, which the index stores (index-embedding.ts): names and paths do not matter, nor do other weights with nearly
 * the same vectors, such as an int8 version.
 */
import { describe, formatShape, guarded, invalid } from '../base/error.js';
import { abortable } from '../base/event-loop.js';
import type { Reader } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import type { TensorInput } from '../base/tensor.js';
import { concatenate } from '../io/files.js';
import type { PretrainedModel } from '../models/model.js';
import type { Role } from '../models/prompts.js';
import type { Rows } from '../models/quantized.js';
import { type Corpus, readCorpus, requireFinite } from './rows.js';
import { dimensionsOf, SIMILARITIES, type Similarity, type StoredVectors } from './stored-vectors.js';
import type { TextRows } from './text-rows.js';
import type { Answer, Store } from './vector-store.js';
import type { WordIndex } from './word-index.js';

/** The options with which an index calls a function that embeds its texts. */
export interface EmbedFunctionOptions {
  /** The requested width of the vectors. Present if the index has `dimensions`. */
  dimensions?: number | undefined;
  signal?: SignalLike | undefined;
  /** To be called with the number of texts done so far and in total. */
  onProgress?: ((progress: { done: number; total: number }) => void) | undefined;
}

/** A function that embeds texts, both documents and queries. Returns one vector per text, [N,D]. */
export type EmbedFunction = (
  texts: readonly string[],
  options: EmbedFunctionOptions,
) => TensorInput | Promise<TensorInput>;

/** The embedder of an index: a model that `fromPretrained` returned, or a function. */
export type IndexEmbedder = PretrainedModel | EmbedFunction;

/** The data that identify a model. */
export interface Probe {
  /** The vectors of `PROBE` as a document and as a query. */
  document: Float32Array;
  query: Float32Array;
  /** The prompts of the model for documents and queries; null if they are not known. */
  prompts: Record<Role, string> | null;
  /**
   * The number of bits per weight: 4, 8, or 16 for 16 and more. It limits how well the vectors agree with those of the
   * same model in another weight type.
   */
  bits: number;
}

/** The state of an index. */
export interface IndexState {
  /** The texts, one per row of the vectors. Rows whose text has been removed must not be hits. */
  readonly rows: TextRows;
  readonly store: Store;
  /** The text before each document; null: the document prompt of the model's folder. */
  prompt: string | null;
  /** The embedder of texts that are added or searched for. */
  embedder: IndexEmbedder | null;
  /** The width to request from the embedder; null: its own width. */
  dimensions: number | null;
  /** The data that identify the model of the vectors; null if not known yet. */
  probe: Probe | null;
  /** The words of the texts, once a hybrid search has needed them. */
  words?: WordIndex | undefined;
}

/** The order of the probe's vectors in a file. */
export const ROLES = ['document', 'query'] as const;

export const isEmbedder = (value: unknown): value is IndexEmbedder =>
  guarded(
    'embedder',
    () => typeof value === 'function' || typeof (value as PretrainedModel | null)?.embedDocument === 'function',
  );

export const embedderOption: Reader<IndexEmbedder> = (value, name) => {
  if (isEmbedder(value)) return value;
  throw invalid(name, 'a model that `fromPretrained` returned, or a function that embeds texts', describe(value));
};

/** The similarity for which a model's vectors are meant. The cosine if there is no model or it does not specify one. */
export function similarityOf(embedder: IndexEmbedder | null): Similarity {
  const named = (embedder as Partial<PretrainedModel> | null)?.config?.similarity ?? 'cosine';
  const known = SIMILARITIES.find((each) => each === named);
  if (known) return known;
  const expected = `one of ${SIMILARITIES.join(', ')}, as the model's vectors are compared by '${named}'`;
  throw invalid('TextIndex.of.similarity', expected, 'undefined', 'UNSUPPORTED');
}

/**
 * Embeds texts, one vector each. `prompt`: the text before each; null: the embedder's own. `truncation`: cut texts that
 * are too long for the model, whatever its default.
 */
export async function embedTexts(
  embedder: IndexEmbedder,
  role: Role,
  texts: readonly string[],
  prompt: string | null,
  { truncation, ...options }: EmbedFunctionOptions & { truncation?: boolean | undefined },
): Promise<Rows> {
  const settings = { ...options, ...(truncation && { truncation }), ...(prompt !== null && { prompt }) };
  const { signal } = options;
  signal?.throwIfAborted();
  const embedded = async (): Promise<Corpus> => {
    if (typeof embedder === 'function') return embedder(prompt ? texts.map((text) => prompt + text) : texts, options);
    return role === 'query' ? embedder.embedQuery(texts, settings) : embedder.embedDocument(texts, settings);
  };
  // A function may ignore the signal.
  const vectors = await abortable(embedded(), signal);
  signal?.throwIfAborted();
  const rows = readCorpus('embedder', vectors);
  const { data, count, width } = rows;
  if (count !== texts.length || width === 0)
    throw invalid(
      'embedder',
      `[${texts.length}, width], one vector per text`,
      formatShape([count, width]),
      'SHAPE_MISMATCH',
    );
  requireFinite('embedder', data);
  return rows;
}

/** Embeds texts for comparison with the vectors of an index. `prompt` is for queries; documents have the index's. */
export async function embedFor(
  { embedder, store, dimensions, prompt: documentPrompt }: IndexState,
  role: Role,
  texts: readonly string[],
  {
    signal,
    onProgress,
    prompt = null,
  }: Omit<EmbedFunctionOptions, 'dimensions'> & { prompt?: string | null | undefined },
): Promise<Rows> {
  const rows = await embedTexts(embedder!, role, texts, role === 'query' ? prompt : documentPrompt, {
    ...(dimensions !== null && { dimensions }),
    ...(signal && { signal }),
    ...(onProgress && { onProgress }),
  });
  requireOwnWidth(dimensionsOf(rows), dimensionsOf(store) || dimensions);
  return rows;
}

/** Rejects a model whose vectors differ in width from those of the index. */
export function requireOwnWidth(got: number, width: number | null): void {
  if (width === null || got === width) return;
  throw invalid('embedder', `vectors of ${width} entries, as the index has`, `${got}`, 'SHAPE_MISMATCH', {
    hint: 'Build the index again with this model, or open it with its own model. If it contains the first entries of the vectors of this model, give the option `dimensions`',
  });
}

/** The vectors of the texts in use. */
export function usedVectors({ rows, store }: IndexState): Answer<StoredVectors> {
  return store.inTurn(() => store.vectors(rows.usedRows()));
}

/** How the vectors are made and compared, as tensors and metadata to store in a file; see same-model.ts. */
export function writtenModel({ probe, prompt, store }: IndexState) {
  const metadata: Record<string, string> = { heed_index: '1', ...(prompt !== null && { prompt }) };
  if (store.options.similarity === 'dot') Object.assign(metadata, { heed_index: '2', similarity: 'dot' });
  if (!probe) return { tensors: [], metadata };
  const { document, query, prompts, bits } = probe;
  const isOne = document.length === query.length && document.every((v, i) => v === query[i]);
  const data: ArrayBufferView = isOne ? document : concatenate(Float32Array, [document, query]);
  metadata.probe_bits = `${bits}`;
  if (prompts) for (const role of ROLES) metadata[`${role}_prompt`] = prompts[role];
  return { tensors: [{ name: 'probe', dtype: 'F32', shape: [isOne ? 1 : 2, document.length], data }], metadata };
}
