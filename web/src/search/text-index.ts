/**
 * Texts and their vectors for semantic search, stored as fp32, int8 with one scale per vector, or bits. A search
 * compares the query with the vectors directly, so there is no graph to build or to keep up to date.
 * text-index-changes.ts, which loads, changes and saves an index, is imported on demand.
 */
import { formatShape, guarded, importing, invalid } from '../base/error.js';
import type { HubOptions } from '../base/hub-options.js';
import { natural, plainOptions, readOptions, strings } from '../base/options.js';
import { heldByCalls } from '../base/pending.js';
import { dispose, inspected } from '../base/platform.js';
import { kindOf, readTensor, type Tensor, type TensorInput } from '../base/tensor.js';
import { Unproxied } from '../base/unproxied.js';
import { writeSafetensors } from '../io/safetensors.js';
import type { PretrainedModel } from '../models/model.js';
import {
  type EmbedFunction,
  embedFor,
  embedRows,
  type IndexEmbedder,
  type IndexState,
  isEmbedder,
  similarityOf,
  usedVectors,
  writtenModel,
} from './index-model.js';
import {
  type CheckedSearch,
  indexText,
  readVectorSearch,
  searchIndex,
  type TextHit,
  type TextSearchOptions,
  textSearchSchema,
  widthOf,
} from './index-search.js';
import { searchLatest } from './search-latest.js';
import { type Corpus, readFloatRows } from './similarity.js';
import {
  type AddOptions,
  addSchema,
  type EmbeddedIndexOptions,
  embeddedSchema,
  type IndexSource,
  type LoadIndexOptions,
  ofSchema,
  readIds,
  type TextFilter,
  type TextIndexOptions,
  type UpdateOptions,
  updateSchema,
} from './text-index-options.js';
import { type IndexEntry, type IndexedText, requireMetadata, TextRows } from './text-rows.js';
import {
  ArrayStore,
  copiedRows,
  dimensionsOf,
  eachEntry,
  inForm,
  readVectors,
  type StoreOptions,
  type VectorStore,
  vectorTensor,
  vectorTensors,
} from './vector-store.js';

const changes = () => importing('text-index-changes', () => import('./text-index-changes.js'));
type WithoutEmbedder<Options> = Options & { embedder?: undefined };

const NO_ROWS = { data: new Int8Array(), shape: [0, 0] };

/**
 * @example
 * const index = TextIndex.of(texts, await model.embed(texts));
 * index.search(await model.embed('a fox'), { topK: 3 }); // [{ index, id, text, score }, ...]
 *
 * @typeParam E Whether the index embeds texts itself, so that `search` accepts texts.
 */
export class TextIndex<E extends boolean = boolean> extends Unproxied {
  /** @internal For messages and consoles, as minification renames classes. */
  static override readonly name: string = 'TextIndex';

  readonly #state: IndexState;
  /** Settles after all calls so far that change or save the index. */
  #lastCall: Promise<unknown> = Promise.resolve();

  /** @internal */
  protected constructor(state: IndexState) {
    super();
    const isMade = guarded('TextIndex', () => (state as IndexState | undefined)?.rows instanceof TextRows);
    if (!isMade)
      throw invalid('TextIndex', '`TextIndex.of` or `TextIndex.load`, which return an index', '`new TextIndex`');
    this.#state = state;
  }

  /** @internal Creates the store for the vectors of a new index. */
  static newStore(options: StoreOptions): VectorStore {
    return new ArrayStore(options);
  }

  /** @internal The download options of `load`. */
  static get hub(): HubOptions {
    return {};
  }

  /** @internal */
  [inspected](): string {
    return indexText(this.#state);
  }

  /** The number of texts. */
  get size(): number {
    return this.#state.rows.size;
  }

  /**
   * Whether a text has this id.
   *
   * @example
   * TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).has(1); // true
   */
  has(id: number): boolean {
    return this.#state.rows.rowOf(natural(id, 'id')) >= 0;
  }

  /**
   * Returns the text with this id and what was stored with it; undefined if no text has this id.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * index.get(1); // { index: 1, id: 1, text: "east" }
   */
  get(id: number): IndexedText | undefined {
    const { rows } = this.#state;
    const row = rows.rowOf(natural(id, 'id'));
    return row < 0 ? undefined : rows.at(row);
  }

  /**
   * Iterates over the texts in their order, with their ids, metadata and vectors as they are stored. The entries are
   * those at the time of the call; later changes of the index do not affect them.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 2], [1, 0]]);
   * const [first] = index.entries();
   * first.text; // "north"
   * [...first.vector]; // [0, 1]
   */
  entries(): IterableIterator<IndexEntry> {
    const { rows } = this.#state;
    const used = rows.usedRows();
    const texts = Array.from({ length: rows.size }, (_, n) => rows.at(used?.[n] ?? n));
    const vectors = usedVectors(this.#state);
    // Copies, because removing texts moves the rows of a store.
    return eachEntry(texts, { ...vectors, data: vectors.data.slice(), factors: vectors.factors.slice() });
  }

  /** The texts, in the order of their vectors. A frozen copy, which later changes of the index do not affect. */
  get texts(): readonly string[] {
    return this.#state.rows.texts;
  }

  /** @internal The prompt before each text; '' if there was none or it is not known. */
  get documentPrompt(): string {
    return this.#state.prompt ?? this.#state.probe?.prompts?.document ?? '';
  }

  /**
   * @internal Attaches the model that embeds texts to an index that was read from `file`. Rejects a model that differs
   * from that of the vectors.
   */
  async setEmbedder(file: string, embedder: IndexEmbedder, dimensions: number | null): Promise<void> {
    return this.#inTurn((module) => module.setEmbedder(this.#state, file, embedder, dimensions));
  }

  /** The width D of the vectors; 0 for an index without texts. Pass it as `dimensions` to embed queries. */
  get dimensions(): number {
    return widthOf(this.#state);
  }

  /**
   * Creates an index of texts (default: none) and their vectors: fp32 [N,D], which are rounded to int8 by default, or
   * the int8 or binary (D a multiple of 8) vectors that `embed` returns, which are stored as they are.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * index.search([[1, 1e-3]], { topK: 1 })[0].text; // "east"
   * index.dimensions; // 2
   * @throws HeedError SHAPE_MISMATCH unless there is one vector per text; INVALID_ARGUMENT for NaN and infinities
   */
  static of(
    texts: readonly string[],
    vectors: Corpus | undefined,
    options: TextIndexOptions & { embedder: IndexEmbedder },
  ): TextIndex<true>;
  static of(texts?: readonly string[], vectors?: Corpus, options?: WithoutEmbedder<TextIndexOptions>): TextIndex<false>;
  static of(texts?: readonly string[], vectors?: Corpus, options?: TextIndexOptions): TextIndex;
  /**
   * Creates an index of texts that a model embeds as documents (`embedDocument`). The model also embeds queries.
   * Instead of a model, a function that embeds texts can be given.
   *
   * @example
   * const index = await TextIndex.of(model, ['the quick fox', 'a dog']);
   * const [best] = await index.search('a fox');
   */
  static of(
    model: PretrainedModel | EmbedFunction,
    texts: readonly string[],
    options?: EmbeddedIndexOptions,
  ): Promise<TextIndex<true>>;
  static of(
    first: readonly string[] | IndexEmbedder = [],
    second: Corpus | readonly string[] = NO_ROWS,
    options?: TextIndexOptions | EmbeddedIndexOptions,
  ): TextIndex | Promise<TextIndex> {
    // biome-ignore-start lint/complexity/noThisInStatic: subclasses of a runtime override `newStore`
    if (isEmbedder(first)) return TextIndex.#ofModel(this, first, second as readonly string[], options);
    const read = readOptions('TextIndex.of', ofSchema, options);
    const { embedder, dimensions, prompt, output, similarity } = read;
    const form = { output, similarity: similarity ?? similarityOf(embedder) };
    const lines = strings(first, 'texts');
    const rows = readVectors(lines, second as Corpus);
    requireMetadata(read.metadata, lines.length);
    if (rows.count > 0 && dimensions !== null && dimensionsOf(rows) !== dimensions)
      throw invalid(
        'vectors',
        `${dimensions} entries per row, as \`dimensions\` says`,
        `${dimensionsOf(rows)}`,
        'SHAPE_MISMATCH',
      );
    const store = this.newStore(form);
    if (rows.count > 0) store.append(inForm(store, rows));
    const texts = new TextRows(lines, null, read.metadata);
    return new this({ rows: texts, store, embedder, dimensions, prompt, probe: null });
    // biome-ignore-end lint/complexity/noThisInStatic: see the start
  }

  /** Creates an index of the class `Index` and embeds its texts. */
  static async #ofModel(
    Index: typeof TextIndex,
    embedder: IndexEmbedder,
    texts: readonly string[],
    given: object | undefined,
  ): Promise<TextIndex> {
    const read = readOptions('TextIndex.of', embeddedSchema, given);
    const { dimensions, prompt, output, similarity } = read;
    const lines = strings(texts, 'texts');
    const index = Index.of([], NO_ROWS, {
      embedder,
      ...(similarity && { similarity }),
      ...(dimensions !== null && { dimensions }),
      ...(prompt !== null && { prompt }),
      ...(output && { output }),
    });
    const state = index.#state;
    requireMetadata(read.metadata, lines.length);
    if (lines.length === 0) return index;
    state.store.append(await embedRows(state, lines, read));
    state.rows.append(lines, [...lines.keys()], read.metadata);
    return index;
  }

  /**
   * Loads an index that `save` returned: its bytes, a Blob or File, the path or URL of the file (ending in
   * `.safetensors`), or a folder (URL, path or files) with `index.safetensors`. If the file does not contain the texts,
   * they are read from `words.txt` in its folder. An `embedder` other than the model of the index is rejected.
   *
   * @example
   * const bytes = await TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).save();
   * const index = await TextIndex.load(bytes);
   * index.texts; // ["north", "east"]
   * @throws HeedError INVALID_FILE for files that are damaged, do not match each other, or belong to another model
   */
  static load(source: IndexSource, options: LoadIndexOptions & { embedder: IndexEmbedder }): Promise<TextIndex<true>>;
  static load(source: IndexSource, options?: WithoutEmbedder<LoadIndexOptions>): Promise<TextIndex<false>>;
  static load(source: IndexSource, options?: LoadIndexOptions): Promise<TextIndex>;
  static async load(source: IndexSource, options?: LoadIndexOptions): Promise<TextIndex> {
    const given = plainOptions('TextIndex.load', options);
    // biome-ignore lint/complexity/noThisInStatic: subclasses of a runtime override `hub` and `newStore`
    const { hub, newStore } = this;
    return new this(await (await changes()).readIndex(source, given, newStore, hub));
  }

  /**
   * Adds texts and their vectors, which are converted to the index's storage type; `of` lists the accepted types.
   * Without vectors, an index with a model embeds the texts. Resolves to the ids. After an error, the index is
   * unchanged. A text that replaces another is the last of `texts`.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * await index.add(['south'], [[0, -1]]); // [2]
   * @throws HeedError SHAPE_MISMATCH for vectors of another width; INVALID_ARGUMENT for ids that are in use
   */
  async add(texts: readonly string[], vectors?: Corpus, options?: AddOptions): Promise<number[]> {
    const lines = strings(texts, 'texts');
    const call = readOptions('add', addSchema, options);
    const isEmbedded = vectors === undefined && lines.length > 0;
    if (isEmbedded) this.#requireEmbedder('vectors', 'none');
    // A copy, because the caller may reuse the buffer before this call's turn.
    const rows = isEmbedded ? null : copiedRows(readVectors(lines, vectors ?? NO_ROWS));
    return this.#inTurn(({ addTexts }) => addTexts(this.#state, lines, rows, call));
  }

  /**
   * Removes the texts with these ids, or those for which a function returns true.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * await index.remove([0]);
   * index.texts; // ["east"]
   * await index.remove(({ text }) => text.startsWith('e'));
   * index.size; // 0
   * @throws HeedError NOT_FOUND for an id that is not in the index, which is then unchanged
   */
  async remove(ids: readonly number[] | TextFilter): Promise<void> {
    const read = typeof ids === 'function' ? ids : readIds(ids, 'ids');
    return this.#inTurn(({ removeTexts }) => removeTexts(this.#state, read));
  }

  /**
   * Replaces what is stored with a text. The text and its vector stay, so nothing is embedded.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]], { metadata: [{ page: 1 }, { page: 2 }] });
   * await index.update(1, { metadata: { page: 3 } });
   * index.get(1).metadata; // { page: 3 }
   * @throws HeedError NOT_FOUND for an id that is not in the index
   */
  async update(id: number, options: UpdateOptions): Promise<void> {
    const known = natural(id, 'id');
    const { metadata } = readOptions('update', updateSchema, options);
    return this.#inTurn(async ({ requireRow }) => {
      const { rows } = this.#state;
      rows.setMetadata(requireRow(rows, known), metadata);
    });
  }

  /**
   * Returns the file `index.safetensors` with the vectors, the texts, their ids and the data that identify the model.
   *
   * @example
   * const bytes = await TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).save();
   * const index = await TextIndex.load(bytes);
   */
  async save(): Promise<Uint8Array<ArrayBuffer>> {
    return this.#inTurn(({ saveIndex }) => saveIndex(this.#state));
  }

  /** @internal The file of `save` and the vectors in it, as `toTensor` returns them. */
  async snapshot(): Promise<{ file: Uint8Array<ArrayBuffer>; vectors: Tensor }> {
    return this.#inTurn(async ({ saveIndex }) => ({ file: await saveIndex(this.#state), vectors: this.toTensor() }));
  }

  /** Runs `call` after all earlier calls, which may still wait for the event loop or a model. */
  async #inTurn<T>(call: (module: Awaited<ReturnType<typeof changes>>) => Promise<T>): Promise<T> {
    const result = this.#lastCall.then(async () => call(await changes()));
    this.#lastCall = result.catch(() => {});
    return result;
  }

  /**
   * Returns the file `index.safetensors` with the vectors only, without the texts.
   *
   * @example
   * const bytes = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).toSafetensors();
   * await writeFile('index.safetensors', bytes); // with the texts in words.txt, `load` reads it
   */
  toSafetensors(): Uint8Array<ArrayBuffer> {
    const { tensors, metadata } = writtenModel(this.#state);
    return writeSafetensors([...tensors, ...vectorTensors(usedVectors(this.#state))], metadata);
  }

  /**
   * Returns the `topK` (default 10) texts nearest to a vector [D] or [1,D], best first. By default, all vectors are
   * compared; in an index of bits with more than 4096 texts, with `rescoreMultiplier`, or (without `threshold`) in an
   * index of more than 200,000 texts, only the texts nearest by Hamming distance of the signs: `rescoreMultiplier * topK`,
   * where the multiplier defaults to 4 for bits and 256 otherwise. This is faster and may miss some texts.
   * An index with a model also accepts a text, embeds it as a query (`embedQuery`), and returns a promise, which rejects
   * with every error.
   *
   * @throws HeedError SHAPE_MISMATCH for a query of another width; INVALID_ARGUMENT for NaN, infinities, and options out of range
   */
  search(query: TensorInput | Float32Array, options?: TextSearchOptions): TextHit[];
  search(query: E extends false ? never : string, options?: TextSearchOptions): Promise<TextHit[]>;
  search(query: TensorInput | Float32Array | string, options?: TextSearchOptions): TextHit[] | Promise<TextHit[]> {
    if (typeof query === 'string') return this.#embedded('query', [query], options).then(([hits]) => hits!);
    const isVector = kindOf(query) === 'Float32Array';
    const { data, shape } = isVector
      ? { data: query as Float32Array, shape: [] }
      : readTensor('query', query as TensorInput);
    if (shape.length > 1 && shape[0] !== 1) {
      const hint = 'Search with several vectors by searchAll';
      throw invalid('query', 'one vector, [D] or [1, D]', `shape ${formatShape(shape)}`, 'SHAPE_MISMATCH', { hint });
    }
    const row = { data, shape: [1, data.length] };
    return searchIndex(this.#state, 'query', row, readVectorSearch(options))[0]!;
  }

  /**
   * Returns a function to call with the text of a search field whenever it changes. The function calls `onHits` with the
   * hits and the text of the latest call only: a call stops the search of the call before, whose promise then resolves
   * without hits. An empty text has no hits and is not embedded. `options` are those of `search`.
   *
   * @example
   * const index = await TextIndex.of(model, ['the quick fox', 'a dog']);
   * const onInput = index.searchLatest((hits) => console.log(hits[0]?.text), { topK: 3 });
   * await onInput('a fo');
   * @throws HeedError as `search`; INVALID_ARGUMENT if the index has no model
   */
  searchLatest(
    onHits: (hits: TextHit[], text: string) => void,
    options?: Omit<TextSearchOptions, 'signal'>,
  ): (text: string) => Promise<void> {
    this.#requireEmbedder('searchLatest', 'an index without a model');
    const { signal: _, ...schema } = textSearchSchema;
    const call = readOptions('searchLatest', schema, options);
    return searchLatest((query, signal) => this.#found('query', [query], { ...call, signal }), onHits);
  }

  /**
   * Searches for several vectors [N,D] or texts at once, as `search` does for one. Reads the vectors of the index only
   * once. For an empty array, an index with a model returns a promise.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * const [first, second] = index.searchAll([[0.1, 1], [1, 0.1]], { topK: 1 });
   * second[0].text; // "east"
   */
  searchAll(queries: TensorInput, options?: TextSearchOptions): TextHit[][];
  searchAll(queries: E extends false ? never : readonly string[], options?: TextSearchOptions): Promise<TextHit[][]>;
  searchAll(queries: TensorInput | readonly string[], options?: TextSearchOptions): TextHit[][] | Promise<TextHit[][]> {
    const first = guarded('queries', () => (Array.isArray(queries) ? (queries[0] as unknown) : null));
    if (typeof first === 'string' || (first === undefined && this.#state.embedder))
      return this.#embedded('queries', queries as readonly string[], options);
    const { data, count, width } = readFloatRows('queries', queries);
    return searchIndex(this.#state, 'queries', { data, shape: [count, width] }, readVectorSearch(options));
  }

  /** Embeds the queries and searches for them. `name`: the argument that has them. */
  async #embedded(name: string, queries: readonly string[], options?: TextSearchOptions): Promise<TextHit[][]> {
    this.#requireEmbedder(name, name === 'query' ? 'a text' : 'texts');
    return this.#found(name, strings(queries, name), readOptions('search', textSearchSchema, options));
  }

  async #found(name: string, queries: readonly string[], call: CheckedSearch): Promise<TextHit[][]> {
    if (queries.length === 0) return [];
    const { data, count, width } = await embedFor(this.#state, 'query', queries, call);
    return searchIndex(this.#state, name, { data: Float32Array.from(data), shape: [count, width] }, call);
  }

  #requireEmbedder(name: string, got: string): void {
    if (this.#state.embedder) return;
    throw invalid(name, 'vectors, as this index has no model', got, 'INVALID_ARGUMENT', {
      hint: 'Make it with TextIndex.of(model, texts), or give of() or load() the option `embedder`',
    });
  }

  /**
   * Frees the vectors of an index that `heed.TextIndex` made; any use afterwards throws `DISPOSED`. The vectors of
   * other indexes are garbage-collected.
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
   * Returns the vectors [N,D] as stored: rounded and, for the cosine, scaled to unit norm.
   *
   * @example
   * TextIndex.of(['north', 'east'], [[0, 2], [1, 0]]).toTensor().toArray(); // [[0, 1], [1, 0]]
   */
  toTensor(): Tensor {
    return vectorTensor(usedVectors(this.#state));
  }
}

heldByCalls(TextIndex.prototype);
