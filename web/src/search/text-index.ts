/**
 * Texts and their vectors for semantic search: int8 with one scale per vector, or bits. A search compares the query with all of them, so there is no graph to build or to keep
 * up to date. text-index-changes.ts loads, changes and saves an index; it is fetched when that is done.
 */

import { formatShape, guarded, importing, invalid } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import type { HubOptions } from '../base/hub-options.js';
import {
  finite,
  flag,
  listOf,
  natural,
  oneOf,
  optional,
  plainOptions,
  type Reader,
  readOptions,
  type Schema,
  signal,
  size,
  sizeOrInfinity,
  strings,
  text,
} from '../base/options.js';

import { dispose, inspected, type SignalLike } from '../base/platform.js';
import type { Hit } from '../base/scores.js';
import { kindOf, readRows, readTensor, Tensor, type TensorInput } from '../base/tensor.js';
import { writeSafetensors } from '../io/safetensors.js';
import type { PretrainedModel } from '../models/model.js';
import { normsOf, OUTPUTS, type Rows, type VectorOutput } from '../models/quantized.js';
import {
  type EmbedFunction,
  embedderOption,
  embedFor,
  type IndexEmbedder,
  type IndexState,
  isEmbedder,
  knownProbe,
  similarityOf,
  writtenProbe,
} from './index-model.js';
import { type Corpus, readCorpus, requireFinite, type SearchOptions, searchSchema } from './similarity.js';
import type { AddOptions, IndexSource, LoadIndexOptions } from './text-index-changes.js';
import {
  ArrayStore,
  dimensionsOf,
  inBlocks,
  inForm,
  requireLengths,
  SIMILARITIES,
  type StoreOptions,
  type VectorStore,
  vectorTensors,
} from './vector-store.js';

export interface TextHit {
  /** The position of the text in `texts`, which changes when texts before it are removed. */
  index: number;
  /** The text's id, which stays. */
  id: number;
  text: string;
  score: number;
}

export interface TextSearchOptions extends SearchOptions {
  /** The number of hits. Default 10; with `threshold`, all that reach it. */
  topK?: number;
  /** The least score of a hit. */
  threshold?: number;
  /** Only texts with these ids may be hits. */
  ids?: readonly number[] | ReadonlySet<number>;
  /**
   * true: all vectors are compared, also those of a large index, of which otherwise as many are compared as `rescoreMultiplier` says, or 256 for each hit if it has more than 200,000 texts.
   */
  exact?: boolean;
  /** Stops a search for a text while the model embeds it; the search rejects with the signal's reason. */
  signal?: SignalLike;
}

export interface TextIndexOptions extends Pick<LoadIndexOptions, 'model' | 'embedder' | 'dimensions'> {
  /**
   * How vectors are stored: in 4 D, D + 4 or D / 8 bytes per text. Default 'int8', or 'binary' if the first vectors are bits.
   */
  dtype?: VectorOutput;
  /** What scores are: 'cosine', or 'dot', the product of the vectors, for fp32 and int8 vectors of any length. Default: that of the index's model, else 'cosine'. */
  similarity?: 'cosine' | 'dot';
}

/** Of an index that embeds its texts. */
export interface EmbeddedIndexOptions extends Omit<TextIndexOptions, 'embedder'> {
  /** Stops the call; it rejects with the signal's reason. */
  signal?: SignalLike;
}

const changes = () => importing('text-index-changes', () => import('./text-index-changes.js'));
const ownSchema = {
  model: optional(text, null),
  embedder: optional(embedderOption, null),
  dimensions: optional(size, null),
};
const ofSchema = {
  ...ownSchema,
  dtype: optional(oneOf(OUTPUTS), null),
  similarity: optional(oneOf(SIMILARITIES), null),
};
const integers = listOf(natural, 'an array or a Set of integers');
const idsOf: Reader<Set<number>> = (value, name) => new Set(integers(value instanceof Set ? [...value] : value, name));
const textSearchSchema = {
  ...searchSchema,
  topK: optional(sizeOrInfinity, null),
  threshold: optional(finite, null),
  ids: optional(idsOf, null),
  exact: optional(flag, false),
  signal,
} satisfies Schema<TextSearchOptions>;
/** An index with more texts is searched in two steps by default, of which the first selects so many texts for each hit: of a million, as many of the nearest are found as if all were compared (docs/search.md). */
const LARGE = 200_000;
const LARGE_MULTIPLIER = 256;
const NO_ROWS = { data: new Int8Array(), shape: [0, 0] };

/**
 * @example
 * const index = TextIndex.of(texts, await model.embed(texts));
 * index.search(await model.embed('a fox'), { topK: 3 }); // [{ index, id, text, score }, ...]
 */
export class TextIndex {
  readonly #state: IndexState;
  /** Ends when all calls that change or save the index have. */
  #lastCall: Promise<unknown> = Promise.resolve();

  /** @internal */
  protected constructor(state: IndexState) {
    this.#state = state;
  }

  /** @internal Where the vectors of a new index are kept. */
  static newStore(options: StoreOptions): VectorStore {
    return new ArrayStore(options);
  }

  /** @internal Where `load` downloads from. */
  static get hub(): HubOptions {
    return {};
  }

  /** @internal */
  [inspected](): string {
    const { texts, store, model } = this.#state;
    const notes = [
      `${texts.length} texts`,
      `${this.dimensions} dimensions`,
      store.bits ? 'bits' : (store.options.dtype ?? 'int8'),
    ];
    return `TextIndex: ${[...notes, ...(model === null ? [] : [`of '${model}'`])].join(', ')}`;
  }

  /** The texts in the order of their vectors. */
  get texts(): readonly string[] {
    return this.#state.texts;
  }

  /** The name of the model that `of` was given, or null. */
  get model(): string | null {
    return this.#state.model;
  }

  /** @internal The text that was put before each text; '' if none was, or if it is not known. */
  get documentPrompt(): string {
    return this.#state.probe?.prompts?.document ?? '';
  }

  /** @internal Whether the index records what recognizes its model. */
  get knowsModel(): boolean {
    return this.#state.probe !== null;
  }

  /** @internal Gives an index that was read from `file` the model that embeds its texts; refuses another than that of its vectors. */
  async setEmbedder(file: string, embedder: IndexEmbedder, dimensions: number | null): Promise<void> {
    return (await changes()).setEmbedder(this.#state, file, embedder, dimensions);
  }

  /** D; to be given as `dimensions` when queries are embedded. 0 for an index without texts. */
  get dimensions(): number {
    return this.#state.store.count === 0 ? 0 : dimensionsOf(this.#state.store);
  }

  /**
   * An index of texts (default: none) and their vectors: fp32 [N,D], which are rounded to int8, or as `embed` returns them for the outputs 'int8' and 'binary' (D a multiple of 8), which are kept
   * as they are, in D + 4 or D / 8 bytes per text.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * index.search([[1, 1e-3]], { topK: 1 })[0].text; // "east"
   * index.dimensions; // 2
   * @throws HeedError SHAPE_MISMATCH unless there is one vector per text; INVALID_ARGUMENT for NaN and infinities
   */
  static of(texts?: readonly string[], vectors?: Corpus, options?: TextIndexOptions): TextIndex;
  /**
   * An index of texts that a model embeds, as documents (`embedDocument`). It embeds what is searched for, too, as queries. A function that embeds texts may take the place of the model.
   *
   * @example
   * const index = await TextIndex.of(model, ['the quick fox', 'a dog']);
   * const [best] = await index.search('a fox');
   */
  static of(
    model: PretrainedModel | EmbedFunction,
    texts: readonly string[],
    options?: EmbeddedIndexOptions,
  ): Promise<TextIndex>;
  static of(
    first: readonly string[] | IndexEmbedder = [],
    second: Corpus | readonly string[] = NO_ROWS,
    options?: TextIndexOptions | EmbeddedIndexOptions,
  ): TextIndex | Promise<TextIndex> {
    // biome-ignore-start lint/complexity/noThisInStatic: of a runtime's class, the store is in its core
    if (isEmbedder(first)) return TextIndex.#ofModel(this, first, second as readonly string[], options);
    const { model, embedder, dimensions, dtype, similarity } = readOptions('TextIndex.of', ofSchema, options);
    const form = { dtype, similarity: similarity ?? similarityOf(embedder) };
    const lines = strings(first, 'texts');
    const rows = readRowsOf(lines, second as Corpus);
    if (rows.count > 0 && dimensions !== null && dimensionsOf(rows) !== dimensions)
      throw invalid(
        'vectors',
        `${dimensions} entries per row, as \`dimensions\` says`,
        `${dimensionsOf(rows)}`,
        'SHAPE_MISMATCH',
      );
    const store = this.newStore(form);
    if (rows.count > 0) store.append(inForm(store, rows));
    const state = { texts: lines, store, ids: null, nextId: rows.count, model, embedder, dimensions, probe: null };
    return new this(state);
    // biome-ignore-end lint/complexity/noThisInStatic: as above
  }

  /** An index of the class `Index` whose texts are embedded. */
  static async #ofModel(
    Index: typeof TextIndex,
    embedder: IndexEmbedder,
    texts: readonly string[],
    given: object | undefined,
  ): Promise<TextIndex> {
    const { embedder: _, ...schema } = { ...ofSchema, signal };
    const { dimensions, signal: stop, model, dtype, similarity } = readOptions('TextIndex.of', schema, given);
    const lines = strings(texts, 'texts');
    const index = Index.of([], NO_ROWS, {
      embedder,
      ...(similarity && { similarity }),
      ...(dimensions !== null && { dimensions }),
      ...(model !== null && { model }),
      ...(dtype && { dtype }),
    });
    const state = index.#state;
    if (lines.length === 0) return index;
    await knownProbe(state, stop);
    const vectors = await embedFor(state, 'document', lines, stop);
    const rows = await inBlocks(vectors, (block, first) => inForm(state.store, block, first), makeYield(stop));
    state.store.append(rows);
    for (const line of lines) state.texts.push(line);
    state.nextId = rows.count;
    return index;
  }

  /**
   * Loads what `save` returned: its bytes, a Blob or File with them, the path or URL of such a file (its name ends in `.safetensors`), or a folder (URL, path or files) with
   * `index.safetensors`. Unless the texts are in the file, they are read from `words.txt` in its folder. With `model`, an index that was saved with another model's name is refused.
   *
   * @example
   * const bytes = await TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).save();
   * const index = await TextIndex.load(bytes);
   * index.texts; // ["north", "east"]
   * @throws HeedError INVALID_FILE for files that are damaged, do not fit each other, or are of another model
   */
  static async load(source: IndexSource, options?: LoadIndexOptions): Promise<TextIndex> {
    const given = plainOptions('TextIndex.load', options);
    // biome-ignore lint/complexity/noThisInStatic: as in `of`
    const { hub, newStore } = this;
    return new this(await (await changes()).readIndex(source, given, newStore, hub));
  }

  /**
   * Adds texts and their vectors, in the forms that `of` takes, which are stored as the index's are; without vectors, an index with a model embeds the texts. Resolves to the ids. After an error, the index is as before.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * await index.add(['south'], [[0, -1]]); // [2]
   * @throws HeedError SHAPE_MISMATCH for vectors of another width; INVALID_ARGUMENT for ids that are in use
   */
  async add(texts: readonly string[], vectors?: Corpus, options?: AddOptions): Promise<number[]> {
    const lines = strings(texts, 'texts');
    const isEmbedded = vectors === undefined && lines.length > 0;
    if (isEmbedded) this.#requireEmbedder('vectors', 'none');
    const rows = isEmbedded ? null : readRowsOf(lines, vectors ?? NO_ROWS);
    return this.#inTurn(({ addTexts }) => addTexts(this.#state, lines, rows, options));
  }

  /**
   * Removes the texts with these ids. It moves the rows after them, so remove many at once rather than one by one.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * await index.remove([0]);
   * index.texts; // ["east"]
   * @throws HeedError NOT_FOUND for an id that is not in the index, which is then as before
   */
  async remove(ids: readonly number[]): Promise<void> {
    return this.#inTurn(async ({ removeTexts }) => removeTexts(this.#state, ids));
  }

  /**
   * The file `index.safetensors` with the texts, their ids and the name of the model in it.
   *
   * @example
   * const bytes = await TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).save();
   * const index = await TextIndex.load(bytes);
   */
  async save(): Promise<Uint8Array<ArrayBuffer>> {
    return this.#inTurn(({ saveIndex }) => saveIndex(this.#state));
  }

  /** Runs `call` after the calls before it, as all of them wait for the event loop or a model meanwhile. */
  async #inTurn<T>(call: (module: Awaited<ReturnType<typeof changes>>) => Promise<T>): Promise<T> {
    const result = this.#lastCall.then(async () => call(await changes()));
    this.#lastCall = result.catch(() => {});
    return result;
  }

  /**
   * The file `index.safetensors` of the vectors, without the texts.
   *
   * @example
   * const bytes = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).toSafetensors();
   * await writeFile('index.safetensors', bytes); // with the texts in words.txt, `load` reads it
   */
  toSafetensors(): Uint8Array<ArrayBuffer> {
    const { store, probe } = this.#state;
    const written = probe && writtenProbe(probe);
    return writeSafetensors([...(written ? [written.tensor] : []), ...vectorTensors(store)], written?.metadata);
  }

  /**
   * The `topK` (default 10) texts nearest to a vector [D] or [1,D], by cosine, best first. All int8 vectors are compared, or with `rescoreMultiplier` only those of `topK` times as many texts whose signs
   * differ least from the query's, which is faster and may miss some; so by default if there are more than 200,000 texts. An index of bits always selects by signs (`rescoreMultiplier` 4 by default).
   * An index with a model takes a text in place of the vector, embeds it as a query (`embedQuery`), and returns a promise.
   *
   * @throws HeedError SHAPE_MISMATCH for a query of another width; INVALID_ARGUMENT for NaN, infinities, and options out of range
   */
  search(query: TensorInput | Float32Array, options?: TextSearchOptions): TextHit[];
  search(query: string, options?: TextSearchOptions): Promise<TextHit[]>;
  search(query: TensorInput | Float32Array | string, options?: TextSearchOptions): TextHit[] | Promise<TextHit[]> {
    if (typeof query === 'string') {
      this.#requireEmbedder('query', 'a text');
      return this.#embedded([query], options).then(([hits]) => hits!);
    }
    const isVector = kindOf(query) === 'Float32Array';
    const { data, shape } = isVector
      ? { data: query as Float32Array, shape: [] }
      : readTensor('query', query as TensorInput);
    if (shape.length > 1 && shape[0] !== 1) {
      const hint = 'Search with several vectors by searchAll';
      throw invalid('query', 'one vector, [D] or [1, D]', `shape ${formatShape(shape)}`, 'SHAPE_MISMATCH', { hint });
    }
    this.#requireWidth('query', data.length);
    return this.#search('query', data, options)[0] ?? [];
  }

  /**
   * The texts nearest to each of several vectors [N,D], as `search` finds them: the vectors of the index are read once for all of them.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * const [first, second] = index.searchAll([[0.1, 1], [1, 0.1]], { topK: 1 });
   * second[0].text; // "east"
   */
  searchAll(queries: TensorInput, options?: TextSearchOptions): TextHit[][];
  searchAll(queries: readonly string[], options?: TextSearchOptions): Promise<TextHit[][]>;
  searchAll(queries: TensorInput | readonly string[], options?: TextSearchOptions): TextHit[][] | Promise<TextHit[][]> {
    const isTexts = guarded('queries', () => Array.isArray(queries) && typeof queries[0] === 'string');
    if (isTexts) {
      this.#requireEmbedder('queries', 'texts');
      return this.#embedded(queries as readonly string[], options);
    }
    return this.#searchAll(queries as TensorInput, options);
  }

  /** The hits of texts. */
  async #embedded(queries: readonly string[], options: TextSearchOptions | undefined): Promise<TextHit[][]> {
    const { signal: stop } = readOptions('search', textSearchSchema, options);
    const { data, count, width } = await embedFor(this.#state, 'query', strings(queries, 'queries'), stop);
    return this.#searchAll({ data: Float32Array.from(data), shape: [count, width] }, options);
  }

  #requireEmbedder(name: string, got: string): void {
    if (this.#state.embedder) return;
    throw invalid(name, 'vectors, as this index has no model', got, 'INVALID_ARGUMENT', {
      hint: 'Make it with TextIndex.of(model, texts), or give of() or load() the option `embedder`',
    });
  }

  #searchAll(queries: TensorInput, options?: TextSearchOptions): TextHit[][] {
    const { data, shape } = readRows('queries', queries);
    this.#requireWidth('queries', shape[1]!);
    const found = this.#search('queries', data, options);
    return Array.from({ length: shape[0]! }, (_, n) => found[n] ?? []);
  }

  #requireWidth(name: string, got: number): void {
    const { dimensions: width, model } = this;
    if (width === 0 || got === width) return;
    const isWhole = got === this.#state.probe?.document.length;
    throw invalid(name, `${width} entries`, `${got}`, 'SHAPE_MISMATCH', {
      hint: isWhole
        ? `If this is a vector of the index's model, embed it with { dimensions: ${width} }`
        : `Embed it with the model of the index${model === null ? '' : `, '${model}'`}, in the same way as its texts`,
    });
  }

  #search(name: string, queries: Float32Array, options: TextSearchOptions | undefined): TextHit[][] {
    const { topK, rescoreMultiplier, threshold, ids: wanted, exact } = readOptions('search', textSearchSchema, options);
    const { store, texts, ids } = this.#state;
    if (store.count === 0) return [];
    requireFinite(name, queries);
    if (store.options.similarity === 'dot')
      requireLengths(name, normsOf(queries, this.dimensions), 'dot', 'INVALID_ARGUMENT');
    const count = topK ?? (threshold === null ? 10 : store.count);
    const isLarge = store.count > LARGE && Number.isFinite(count) && threshold === null;
    const multiplier = rescoreMultiplier || (store.bits ? 4 : isLarge ? LARGE_MULTIPLIER : 0);
    const selected = multiplier === 0 || (exact && !store.bits) ? 0 : count * multiplier; // not Infinity * 0
    const toHit = ({ index, score }: Hit) => ({ index, id: ids?.[index] ?? index, text: texts[index]!, score });
    const found = store.search(queries, {
      topK: count,
      threshold: threshold ?? -Infinity,
      // Signs are a shortcut for many rows.
      candidates: wanted && wanted.size <= Math.max(selected, 4096) ? 0 : selected,
      allowed: wanted && this.#rowsOf(wanted),
    });
    return found.map((hits) => hits.map(toHit));
  }

  /** A bit for each row: whether its text has one of these ids. */
  #rowsOf(wanted: Set<number>): Uint32Array {
    const { store, ids } = this.#state;
    const bits = new Uint32Array(Math.ceil(store.count / 32));
    for (let row = 0; row < store.count; row++) if (wanted.has(ids?.[row] ?? row)) bits[row >> 5]! |= 1 << (row & 31);
    return bits;
  }

  /**
   * Frees the vectors of an index that `heed.TextIndex` made; any use afterwards throws `DISPOSED`. The vectors of others are freed by the garbage collector.
   *
   * @example
   * const index = heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * index.dispose(); // or `using index = ...`
   */
  dispose(): void {
    this.#state.store.dispose();
  }

  [dispose](): void {
    this.dispose();
  }

  /**
   * The vectors as they are stored, rounded and, for the cosine, of length 1: [N,D].
   *
   * @example
   * TextIndex.of(['north', 'east'], [[0, 2], [1, 0]]).toTensor().toArray(); // [[0, 1], [1, 0]]
   */
  toTensor(): Tensor {
    const { store } = this.#state;
    const { count, bits } = store;
    const [data, factors, width] = [store.rows(), store.factors(), this.dimensions];
    const bit = (i: number) => (data[i >> 3]! & (128 >> (i & 7)) ? 1 : -1) / Math.sqrt(width);
    const values = Float32Array.from({ length: count * width }, (_, i) =>
      bits ? bit(i) : data[i]! * factors[Math.floor(i / width)]!,
    );
    return new Tensor(values, [count, width]);
  }
}

/** The vectors of texts, checked. */
function readRowsOf(texts: string[], vectors: Corpus): Rows {
  const rows = readCorpus('vectors', vectors);
  const scales = guarded('vectors', () => (vectors as { scales?: unknown }).scales);
  if (kindOf(scales) === 'Float32Array') rows.scales = scales as Float32Array;
  const { count, width } = rows;
  if (count !== texts.length)
    throw invalid(
      'vectors',
      `[${texts.length}, width], one row per text`,
      `shape ${formatShape([count, width])}`,
      'SHAPE_MISMATCH',
    );
  return rows;
}
