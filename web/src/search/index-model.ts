/**
 * The model of a TextIndex: it embeds the texts that are added and searched for, and is recognized by its vectors of a fixed text, which an index keeps. Names and paths do not matter
 * for that, nor do other weights that give nearly the same vectors, such as the same in int8.
 */
import { describe, formatShape, guarded, invalid } from '../base/error.js';
import type { Reader } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import type { TensorInput } from '../base/tensor.js';
import { concatenate } from '../io/files.js';
import type { ModelConfig, PretrainedModel } from '../models/model.js';
import { promptText, type Role, withPrompt } from '../models/prompts.js';
import type { Rows } from '../models/quantized.js';
import { type Corpus, readCorpus, requireFinite } from './similarity.js';
import { dimensionsOf, SIMILARITIES, type Similarity, type VectorStore } from './vector-store.js';

/** What an index asks of a function that embeds its texts. */
export interface EmbedFunctionOptions {
  /** The width of the vectors, if the index has `dimensions`. */
  dimensions?: number;
  signal?: SignalLike;
}

/** A function that embeds texts, as documents and as queries: a vector for each text, [N,D]. */
export type EmbedFunction = (
  texts: readonly string[],
  options: EmbedFunctionOptions,
) => TensorInput | Promise<TensorInput>;

/** What embeds the texts of an index: a model that `fromPretrained` returned, or a function. */
export type IndexEmbedder = PretrainedModel | EmbedFunction;

/**
 * The text by whose vectors models are compared. It is short, so that a prompt before it changes the vector much, and has letters, a digit and a sign of Chinese and Japanese, so that every tokenizer
 * knows some of it. Another text would make all saved indexes those of other models.
 */
export const PROBE = 'a bee, 2 人';

/** By what a model is recognized. */
export interface Probe {
  /** The vectors of `PROBE` as a document and as a query. */
  document: Float32Array;
  query: Float32Array;
  /** What the model puts before documents and queries; null if it does not say. */
  prompts: Record<Role, string> | null;
  /** Bits of a weight, which limit how well the vectors agree with those of the same model in another form: 4, 8, or 16 for more. */
  bits: number;
}

/** What an index is made of. */
export interface IndexState {
  readonly texts: string[];
  readonly store: VectorStore;
  /** Null while they are the numbers of the rows. May have room for more. */
  ids: Float64Array | null;
  /** Larger than any id so far. */
  nextId: number;
  model: string | null;
  /** Embeds texts that are added or searched for. */
  embedder: IndexEmbedder | null;
  /** The width for which the embedder is asked; null: that of its vectors. */
  dimensions: number | null;
  /** By what the model of the vectors is recognized; null while it is not known. */
  probe: Probe | null;
}

/** In the order of the vectors in a file. */
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

/** By what the vectors of a model are compared; the cosine, if there is no model or it does not say. */
export function similarityOf(embedder: IndexEmbedder | null): Similarity {
  const named = (embedder as Partial<PretrainedModel> | null)?.config?.similarity ?? 'cosine';
  const known = SIMILARITIES.find((each) => each === named);
  if (known) return known;
  const expected = `one of ${SIMILARITIES.join(', ')}, as the model's vectors are compared by '${named}'`;
  throw invalid('TextIndex.of.similarity', expected, 'none', 'UNSUPPORTED');
}

/** The vectors of texts, one for each. `truncation`: texts that are too long for the model are cut, whatever it does with others. */
async function embedTexts(
  embedder: IndexEmbedder,
  role: Role,
  texts: readonly string[],
  options: EmbedFunctionOptions & { truncation?: boolean },
): Promise<Rows> {
  let vectors: Corpus;
  if (typeof embedder === 'function') {
    const { truncation: _, ...rest } = options;
    vectors = await embedder(texts, rest);
  } else
    vectors = await (role === 'query' ? embedder.embedQuery(texts, options) : embedder.embedDocument(texts, options));
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

/** The vectors of texts that an index is to compare with its own. */
export async function embedFor(
  { embedder, store, dimensions }: IndexState,
  role: Role,
  texts: readonly string[],
  signal: SignalLike | undefined,
): Promise<Rows> {
  const rows = await embedTexts(embedder!, role, texts, {
    ...(dimensions !== null && { dimensions }),
    ...(signal && { signal }),
  });
  requireWidth(dimensionsOf(rows), dimensionsOf(store) || dimensions);
  return rows;
}

/** Refuses a model whose vectors have another width than those of the index. */
export function requireWidth(got: number, width: number | null): void {
  if (width === null || got === width) return;
  throw invalid('embedder', `vectors of ${width} entries, as the index has`, `${got}`, 'SHAPE_MISMATCH', {
    hint: 'Make the index anew with this model or open it with its own; if it was made with the first entries of the vectors of this model, give the option `dimensions`',
  });
}

/** By what a model will be recognized. */
export async function probeOf(embedder: IndexEmbedder, signal?: SignalLike): Promise<Probe> {
  const vectorOf = async (role: Role) => {
    const { data } = await embedTexts(embedder, role, [PROBE], { truncation: true, ...(signal && { signal }) });
    return Float32Array.from(data);
  };
  const config = typeof embedder === 'function' ? undefined : (embedder.config as Partial<ModelConfig> | undefined);
  const named = config?.prompts;
  const promptOf = (role: Role) => promptText(named!, withPrompt(named!, role, {}));
  return {
    document: await vectorOf('document'),
    query: await vectorOf('query'),
    prompts: named ? { document: promptOf('document'), query: promptOf('query') } : null,
    bits: bitsOf(config ?? {}),
  };
}

/**
 * By what the model of an index is recognized, if it can be known: of an index that was made from vectors, its embedder is asked now.
 */
export async function knownProbe(state: IndexState, signal?: SignalLike): Promise<Probe | null> {
  const { embedder, store, dimensions } = state;
  if (state.probe || !embedder || ('disposed' in embedder && embedder.disposed)) return state.probe;
  const probe = await probeOf(embedder, signal);
  const width = dimensionsOf(store) || dimensions;
  if (dimensions === null && width !== null && width !== probe.document.length) return null;
  state.probe = probe;
  return probe;
}

/** Of a model that says nothing, 8. */
function bitsOf({ storage, dtype }: Partial<ModelConfig>): number {
  if (!storage || dtype === 'q8') return storage?.includes('U8') ? 4 : 8;
  return storage.includes('U8') ? 4 : storage.includes('I8') ? 8 : 16;
}

/** The tensor and the metadata of a file, see same-model.ts. */
export function writtenProbe({ document, query, prompts, bits }: Probe) {
  const isOne = document.length === query.length && document.every((v, i) => v === query[i]);
  const data = isOne ? document : concatenate(Float32Array, [document, query]);
  const tensor = {
    name: 'probe',
    dtype: 'F32',
    shape: [isOne ? 1 : 2, document.length],
    data: data as ArrayBufferView,
  };
  const metadata: Record<string, string> = { probe_bits: `${bits}` };
  if (prompts) for (const role of ROLES) metadata[`${role}_prompt`] = prompts[role];
  return { tensor, metadata };
}
