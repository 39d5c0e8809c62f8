/** The options of `TextIndex.of`, `load` and `add`. */
import {
  callback,
  flag,
  listOf,
  natural,
  oneOf,
  optional,
  type Read,
  type Schema,
  signal,
  size,
  text,
} from '../base/options.js';
import type { BlobLike, SignalLike } from '../base/platform.js';
import type { ModelSource, RemoteOptions } from '../io/source.js';
import { OUTPUTS, type VectorOutput } from '../models/quantized.js';
import { type EmbedFunctionOptions, embedderOption, type IndexEmbedder } from './index-model.js';
import { type IndexedText, metadataOption, metadataValue } from './text-rows.js';
import { SIMILARITIES } from './vector-store.js';

export interface LoadIndexOptions extends RemoteOptions {
  /**
   * The model, or function, that embeds texts which are added or searched for. `load` rejects a model other than the
   * one the index was made with; the same model with another weight type or from another place is accepted.
   */
  embedder?: IndexEmbedder | undefined;
  /**
   * The width to request from the embedder, if the index stores only the leading entries of the model's vectors. `load`
   * needs it only for files that heed before 0.3.0 wrote.
   */
  dimensions?: number | undefined;
  /** For `load` only: stops the call, which rejects with the signal's reason. */
  signal?: SignalLike | undefined;
}

export interface AddOptions {
  /**
   * A unique integer from 0 to 2^53 - 1 per text. Default: successive integers after the largest id so far, starting at
   * 0.
   */
  ids?: readonly number[] | undefined;
  /** Whether a text whose id is in use replaces the text with this id, instead of causing an error. Default false. */
  replace?: boolean | undefined;
  /** A value per text to store with it: anything that JSON can represent. Hits and filters receive it. */
  metadata?: readonly unknown[] | undefined;
  /** Stops the call, which rejects with the signal's reason and leaves the index unchanged. */
  signal?: SignalLike | undefined;
}

/** A folder with an index, or its file: bytes, a Blob or File, or a path or URL ending in `.safetensors`. */
export type IndexSource = ModelSource | ArrayBufferLike | ArrayBufferView | BlobLike;

export interface TextIndexOptions extends Pick<LoadIndexOptions, 'embedder' | 'dimensions'> {
  /**
   * The storage type of the vectors: 'float32' (4 D bytes per text), 'int8' (D + 4) or 'binary' (D / 8). Default:
   * 'int8', or 'binary' if the first vectors are bits.
   */
  output?: VectorOutput | undefined;
  /**
   * The score: 'cosine', or 'dot', the dot product, for fp32 and int8 vectors of any norm. Default: that of the index's
   * model, else 'cosine'.
   */
  similarity?: 'cosine' | 'dot' | undefined;
  /**
   * A text to put before each text, instead of the document prompt of the model's folder. It is saved with the index and
   * applied to texts that are added later.
   */
  prompt?: string | undefined;
  /** A value per text to store with it: anything that JSON can represent. Hits and filters receive it. */
  metadata?: readonly unknown[] | undefined;
}

/** Options of an index that embeds its texts. */
export interface EmbeddedIndexOptions extends Omit<TextIndexOptions, 'embedder'> {
  /** Called with the number of texts done so far and in total. */
  onProgress?: EmbedFunctionOptions['onProgress'] | undefined;
  /** Stops the call, which rejects with the signal's reason. */
  signal?: SignalLike | undefined;
}

export const embeddedSchema = {
  dimensions: optional(size, null),
  prompt: optional(text, null),
  output: optional(oneOf(OUTPUTS), null),
  similarity: optional(oneOf(SIMILARITIES), null),
  metadata: optional(metadataOption, null),
  onProgress: callback<NonNullable<EmbeddedIndexOptions['onProgress']>>,
  signal,
} satisfies Schema<EmbeddedIndexOptions>;

const { onProgress: _, signal: __, ...shared } = embeddedSchema;
export const ofSchema = { ...shared, embedder: optional(embedderOption, null) } satisfies Schema<TextIndexOptions>;

export const readIds = listOf(natural, 'an array of integers');
export const addSchema = {
  ids: optional(readIds, null),
  replace: optional(flag, false),
  metadata: optional(metadataOption, null),
  signal,
} satisfies Schema<AddOptions>;
/** What `update` changes. */
export interface UpdateOptions {
  /** The value to store with the text instead of the one before: anything that JSON can represent. */
  metadata: unknown;
}
export const updateSchema = { metadata: metadataValue } satisfies Schema<UpdateOptions>;

/** A function that chooses texts. */
export type TextFilter = (text: IndexedText) => boolean;
/** Options of `add`, after checking. */
export type CheckedAdd = Read<typeof addSchema>;
