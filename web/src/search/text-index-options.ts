/** The options of `TextIndex.of`, `load` and `add`. */
import {
  callback,
  flag,
  formerly,
  listOf,
  oneOf,
  optional,
  type Read,
  type Schema,
  signal,
  size,
  text,
} from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import type { ModelSource, RemoteOptions } from '../io/source.js';
import { OUTPUTS, type VectorOutput } from '../models/quantized.js';
import { type EmbedFunctionOptions, embedderOption, type IndexEmbedder } from './index-model.js';
import type { Corpus } from './rows.js';
import { SIMILARITIES } from './stored-vectors.js';
import { idOption, metadataOption, metadataValue, type TextId } from './text-rows.js';

/** Options of `TextIndex.load`. */
export interface LoadIndexOptions<Worker extends boolean = false> extends RemoteOptions {
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
  /**
   * For `load` only: true puts the vectors into the worker of the embedder, a model that was loaded with `worker: true`.
   * Searches, changes and `save` then leave this thread free. Default false. See docs/search.md.
   */
  worker?: Worker | undefined;
  /** For `load` only: stops the call, which rejects with the signal's reason. */
  signal?: SignalLike | undefined;
}

/** Options of `TextIndex.add`. */
export interface AddOptions<Metadata = unknown> {
  /** The vectors of the texts, as `of` takes them. Default: an index with a model embeds the texts. */
  vectors?: Corpus | undefined;
  /**
   * A unique id per text, for texts that are strings: an integer from 0 to 2^53 - 1, or a string. Default: successive
   * integers after the largest so far, starting at 0.
   */
  ids?: readonly TextId[] | undefined;
  /** Whether a text whose id is in use replaces the text with this id, instead of causing an error. Default false. */
  replace?: boolean | undefined;
  /** A value per text, for texts that are strings: anything that JSON can represent. Hits and filters receive it. */
  metadata?: readonly Metadata[] | undefined;
  /** Stops the call, which rejects with the signal's reason and leaves the index unchanged. */
  signal?: SignalLike | undefined;
}

/** A folder with an index, or its file: bytes, a Blob or File, or a path or URL ending in `.safetensors`. */
export type IndexSource = ModelSource;

/** Options of `TextIndex.of`. */
export interface TextIndexOptions<Metadata = unknown> extends Pick<LoadIndexOptions, 'embedder' | 'dimensions'> {
  /**
   * The storage type of the vectors: 'float32' (4 D bytes per text), 'int8' (D + 4) or 'binary' (D / 8). Default:
   * 'int8', or 'binary' if the first vectors are bits.
   */
  storage?: VectorOutput | undefined;
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
  metadata?: readonly Metadata[] | undefined;
}

const shared = {
  dimensions: optional(size, null),
  prompt: optional(text, null),
  storage: optional(oneOf(OUTPUTS), null),
  ...(formerly({ dtype: 'storage', output: 'storage' }) as object),
  similarity: optional(oneOf(SIMILARITIES), null),
  metadata: optional(metadataOption, null),
};

export const embeddedSchema = {
  into: (value) => value, // read by TextIndex.of
  ...shared,
  worker: optional(flag, null),
  onProgress: callback<NonNullable<EmbedFunctionOptions['onProgress']>>,
  signal,
} satisfies Schema<
  Omit<TextIndexOptions, 'embedder'> &
    Pick<EmbedFunctionOptions, 'onProgress' | 'signal'> & { into?: unknown; worker?: boolean | undefined }
>;

export const ofSchema = { ...shared, embedder: optional(embedderOption, null) } satisfies Schema<TextIndexOptions>;

export const readIds = listOf(idOption, 'an array of integers or strings');
export const addSchema = {
  vectors: (value) => value as Corpus | undefined, // read with the texts
  ids: optional(readIds, null),
  replace: optional(flag, false),
  metadata: optional(metadataOption, null),
  signal,
} satisfies Schema<AddOptions>;
/** What `update` changes. */
export interface UpdateOptions<Metadata = unknown> {
  /** The value to store with the text instead of the one before: anything that JSON can represent. */
  metadata: Metadata;
}
export const updateSchema = { metadata: metadataValue } satisfies Schema<UpdateOptions>;

/** Options of `TextIndex.of` with a model, after checking. */
export type CheckedEmbedding = Omit<Read<typeof embeddedSchema>, 'into' | 'metadata'>;
/** Options of `add`, after checking. */
export type CheckedAdd = Read<typeof addSchema>;
