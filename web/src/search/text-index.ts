/**
 * Texts and their vectors for semantic search, stored as fp32, int8 with one scale per vector, or bits. A search
 * compares the query with the vectors directly, so there is no graph to build or to keep up to date.
 * text-index-changes.ts, which loads, changes and saves an index, and index-embedding.ts, which embeds its texts, are imported
 * on demand.
 */
import { describe, formatShape, guarded, importing, invalid } from '../base/error.js';
import { plainOptions, type Read, readOptions, strings, text } from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import { heldByCalls } from '../base/pending.js';
import { dispose, inspected, type SignalLike } from '../base/platform.js';
import { kindOf, readTensor, type Tensor, type TensorInput } from '../base/tensor.js';
import { Unproxied } from '../base/unproxied.js';
import type { PretrainedModel } from '../models/model.js';
import {
  type EmbedFunction,
  type EmbedFunctionOptions,
  embedFor,
  type IndexEmbedder,
  type IndexState,
  isEmbedder,
  similarityOf,
  usedVectors,
  writtenModel,
} from './index-model.js';
import {
  type CheckedSearch,
  searchIndex,
  type TextHit,
  type TextHits,
  type TextSearchOptions,
  textSearchSchema,
} from './index-search.js';
import type { Matrix } from './pair-products.js';
import { type Corpus, readFloatRows } from './rows.js';
import {
  copiedRows,
  dimensionsOf,
  inForm,
  readVectors,
  type StoredVectors,
  type StoreOptions,
  vectorTensor,
} from './stored-vectors.js';
import {
  type AddOptions,
  addSchema,
  embeddedSchema,
  type IndexSource,
  type LoadIndexOptions,
  ofSchema,
  readIds,
  type TextIndexOptions,
  type UpdateOptions,
  updateSchema,
} from './text-index-options.js';
import {
  type IndexEntry,
  type IndexedText,
  type Items,
  idOption,
  readItems,
  type TextFilter,
  type TextId,
  type TextItem,
  TextRows,
} from './text-rows.js';
import { type Answer, after, type Store, VectorStore } from './vector-store.js';

/** Options of an index that embeds its texts. */
export interface EmbeddedIndexOptions<Metadata = unknown, Worker extends boolean = false>
  extends Omit<TextIndexOptions<Metadata>, 'embedder'> {
  /**
   * true: puts the vectors into the worker of the model, which was loaded with `worker: true`. Searches, changes and
   * `save` then leave this thread free. Default false. See docs/search.md.
   */
  worker?: Worker | undefined;
  /**
   * The index that gets the texts, in batches, instead of a new one. It can be searched and saved after each batch. A
   * text that it has, by its id (default: its position in the list) and with the same words, is not embedded again, so
   * that an interrupted call can be repeated with a saved index; a text with an id that is in use replaces the one
   * before. `dimensions`, `prompt`, `storage`, `similarity` and `worker` are those of the index.
   */
  into?: TextIndex<Metadata, Worker> | undefined;
  /** Called with the number of texts done so far and in total. */
  onProgress?: EmbedFunctionOptions['onProgress'] | undefined;
  /** Stops the call, which rejects with the signal's reason. */
  signal?: SignalLike | undefined;
}

const changes = () => importing('text-index-changes', () => import('./text-index-changes.js'));

const embedding = () => importing('index-embedding', () => import('./index-embedding.js'));

const hybrid = () => importing('hybrid-search', () => import('./hybrid-search.js'));

/** What a method of an index returns: a promise if the vectors are in a worker. */
export type FromIndex<Worker extends boolean, T> = Worker extends true ? Promise<T> : T;

const NO_ROWS = { data: new Int8Array(), shape: [0, 0] };

/**
 * Texts with their vectors, which finds the texts that are nearest to a vector or, with a model, to a text. `heed.TextIndex` of
 * `const heed = await load()` makes one; the class that the package exports is for types and `instanceof`.
 *
 * @example
 * const index = heed.TextIndex.of(texts, await model.embed(texts));
 * index.search(await model.embed('a fox'), { topK: 3 }); // [{ index, id, text, score }, ...]
 *
 * @typeParam Metadata The type of what is stored with texts.
 * @typeParam Worker Whether the vectors are in a worker. If so, methods that read vectors return promises.
 */
export class TextIndex<Metadata = unknown, Worker extends boolean = false> extends Unproxied {
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

  /** @internal The runtime whose memory has the vectors. `heed.TextIndex` is a subclass that has one. */
  static get runtime(): Runtime {
    const expected = '`heed.TextIndex` of `const heed = await load()`, in whose memory vectors are';
    throw invalid('TextIndex', expected, "the class that 'heed' exports for types", 'UNSUPPORTED');
  }

  /** @internal Creates the store for the vectors of a new index. */
  static newStore(options: StoreOptions): VectorStore {
    // biome-ignore lint/complexity/noThisInStatic: subclasses override `runtime`
    return new VectorStore(this.runtime, options);
  }

  /** @internal */
  [inspected](): string {
    const { store } = this.#state;
    const place = store.isRemote ? ', in a worker' : '';
    const form = store.bits ? 'binary' : (store.options.storage ?? 'int8');
    return `TextIndex: ${this.size} texts, ${this.dimensions} dimensions, ${form}${place}`;
  }

  /** The number of texts. */
  get size(): number {
    return this.#state.rows.size;
  }

  /**
   * Whether a text has this id.
   *
   * @example
   * heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).has(1); // true
   */
  has(id: TextId): boolean {
    return this.#state.rows.rowOf(idOption(id, 'id')) >= 0;
  }

  /**
   * Returns the text with this id and what was stored with it; undefined if no text has this id.
   *
   * @example
   * const index = heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * index.get(1); // { index: 1, id: 1, text: "east" }
   */
  get(id: TextId): IndexedText<Metadata> | undefined {
    const { rows } = this.#state;
    const row = rows.rowOf(idOption(id, 'id'));
    return row < 0 ? undefined : (rows.at(row) as IndexedText<Metadata>);
  }

  /**
   * Iterates over the texts in their order, with their ids, metadata and vectors as they are stored. The entries are
   * those at the time of the call; later changes of the index do not affect them. With `worker: true`, returns a promise.
   *
   * @example
   * const index = heed.TextIndex.of(['north', 'east'], [[0, 2], [1, 0]]);
   * const [first] = index.entries();
   * first.text; // "north"
   * [...first.vector]; // [0, 1]
   */
  entries(): FromIndex<Worker, IterableIterator<IndexEntry<Metadata>>> {
    const { rows, store } = this.#state;
    return this.#answer(() =>
      store.inTurn(() => {
        const used = rows.usedRows();
        const texts = Array.from({ length: rows.size }, (_, n) => rows.at(used?.[n] ?? n));
        return after(store.vectors(used), (vectors) => eachEntry(texts as IndexedText<Metadata>[], vectors));
      }),
    );
  }

  /** The answer of `body`; if the vectors are in a worker, a promise, which also rejects with what `body` throws. */
  #answer<T>(body: () => Answer<T>): FromIndex<Worker, T> {
    return (this.#state.store.isRemote ? (async () => body())() : body()) as FromIndex<Worker, T>;
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
    return dimensionsOf(this.#state.store);
  }

  /**
   * Creates an index of texts (default: none) and their vectors: fp32 [N,D], which are rounded to int8 by default, or
   * the int8 or binary (D a multiple of 8) vectors that `embed` returns, which are stored as they are.
   *
   * @example
   * const index = heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * index.search([[1, 1e-3]], { topK: 1 })[0].text; // "east"
   * index.dimensions; // 2
   * @throws HeedError SHAPE_MISMATCH unless there is one vector per text; INVALID_ARGUMENT for NaN and infinities
   */
  static of<Metadata = unknown>(
    texts?: readonly (string | TextItem<Metadata>)[],
    vectors?: Corpus,
    options?: TextIndexOptions<Metadata>,
  ): TextIndex<Metadata>;
  /**
   * Creates an index of texts that a model embeds as documents (`embedDocument`). The model also embeds queries.
   * Instead of a model, a function that embeds texts can be given. With `into`, the texts are added to an index that
   * exists, which is returned.
   *
   * @example
   * const index = await heed.TextIndex.of(model, ['the quick fox', 'a dog']);
   * const [best] = await index.search('a fox');
   */
  static of<Metadata = unknown>(
    model: PretrainedModel | EmbedFunction,
    texts: readonly (string | TextItem<Metadata>)[],
    options?: EmbeddedIndexOptions<Metadata>,
  ): Promise<TextIndex<Metadata>>;
  /** The same for an index with its vectors in the worker of a model, which was loaded with `worker: true`. */
  static of<Metadata = unknown>(
    model: PretrainedModel | EmbedFunction,
    texts: readonly (string | TextItem<Metadata>)[],
    options: EmbeddedIndexOptions<Metadata, true>,
  ): Promise<TextIndex<Metadata, true>>;
  static of(
    first: readonly unknown[] | IndexEmbedder = [],
    second: Corpus | readonly unknown[] = NO_ROWS,
    options?: TextIndexOptions | EmbeddedIndexOptions<unknown, boolean>,
  ): TextIndex | Promise<TextIndex<unknown, boolean>> {
    // biome-ignore-start lint/complexity/noThisInStatic: subclasses override `runtime`
    if (isEmbedder(first)) return TextIndex.#ofModel(this, first, second, options);
    const { metadata, ...form } = readOptions('TextIndex.of', ofSchema, options);
    const items = readItems(first, { metadata });
    const rows = readVectors(items.texts, second as Corpus);
    const { dimensions } = form;
    if (rows.count > 0 && dimensions !== null && dimensionsOf(rows) !== dimensions)
      throw invalid(
        'vectors',
        `${dimensions} entries per row, as \`dimensions\` says`,
        `${dimensionsOf(rows)}`,
        'SHAPE_MISMATCH',
      );
    const store = this.newStore(storeOptions(form));
    if (rows.count > 0) store.append(inForm(store, rows));
    return new this(newState(store, items, form));
    // biome-ignore-end lint/complexity/noThisInStatic: see the start
  }

  static #isOne(value: unknown): value is TextIndex<unknown, boolean> {
    return guarded('into', () => #state in Object(value));
  }

  /** Creates an index of the class `Index` and embeds its texts. */
  static async #ofModel(
    Index: typeof TextIndex,
    embedder: IndexEmbedder,
    texts: unknown,
    given: object | undefined,
  ): Promise<TextIndex<unknown, boolean>> {
    const { into, metadata, ...read } = readOptions('TextIndex.of', embeddedSchema, given);
    const items = readItems(texts, { metadata });
    if (into !== undefined) {
      if (!TextIndex.#isOne(into))
        throw invalid('TextIndex.of.into', 'an index that `TextIndex.of` or `load` returned', describe(into));
      await (await changes()).fillIndex(into.#state, embedder, items, read, (call) => into.#inTurn(call));
      return into;
    }
    const form = { embedder, ...read };
    const options = storeOptions(form);
    const store = read.worker
      ? await (await changes()).workerStores(embedder, 'TextIndex.of.worker')(options)
      : Index.newStore(options);
    try {
      const state = newState(store, items, form);
      if (items.texts.length > 0) await (await (await embedding()).embedRows(state, items.texts, read))();
      return new Index(state);
    } catch (error) {
      store.dispose();
      throw error;
    }
  }

  /**
   * Loads an index that `save` returned: its bytes, a Blob or File, the path or URL of the file (ending in
   * `.safetensors`), or a folder (URL, path or files) with `index.safetensors`. If the file does not contain the texts,
   * they are read from `words.txt` in its folder. An `embedder` other than the model of the index is rejected.
   *
   * @example
   * const bytes = await heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).save();
   * const index = await heed.TextIndex.load(bytes);
   * index.texts; // ["north", "east"]
   * @throws HeedError INVALID_FILE for files that are damaged, do not match each other, or belong to another model
   */
  static async load<Metadata = unknown>(source: IndexSource, options?: LoadIndexOptions): Promise<TextIndex<Metadata>>;
  /** The same with the vectors in the worker of the embedder, a model that was loaded with `worker: true`. */
  static async load<Metadata = unknown>(
    source: IndexSource,
    options: LoadIndexOptions<true>,
  ): Promise<TextIndex<Metadata, true>>;
  static async load(source: IndexSource, options?: LoadIndexOptions<boolean>): Promise<TextIndex<unknown, boolean>> {
    const given = plainOptions('TextIndex.load', options);
    // biome-ignore lint/complexity/noThisInStatic: subclasses override `runtime`
    const { runtime } = this;
    return new this(await (await changes()).readIndex(source, given, runtime));
  }

  /**
   * Adds texts and their vectors, which are converted to the index's storage type; `of` lists the accepted types.
   * Without vectors, an index with a model embeds the texts. Resolves to the ids. After an error, the index is
   * unchanged. A text that replaces another is the last of `texts`.
   *
   * @example
   * const index = heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * await index.add(['south'], { vectors: [[0, -1]] }); // [2]
   * @throws HeedError SHAPE_MISMATCH for vectors of another width; INVALID_ARGUMENT for ids that are in use
   */
  async add(texts: readonly (string | TextItem<Metadata>)[], options?: AddOptions<Metadata>): Promise<TextId[]>;
  /** @deprecated Pass `vectors` as an option. */
  async add(
    texts: readonly (string | TextItem<Metadata>)[],
    vectors: Corpus | undefined,
    options?: AddOptions<Metadata>,
  ): Promise<TextId[]>;
  async add(texts: readonly unknown[], second?: Corpus | AddOptions, third?: AddOptions): Promise<TextId[]> {
    const isCorpus =
      third !== undefined ||
      guarded('vectors', () => Array.isArray(second) || ArrayBuffer.isView(second) || 'data' in Object(second));
    const given = isCorpus ? { ...plainOptions('add', third), ...(second && { vectors: second as Corpus }) } : second;
    const { vectors, ids, metadata, ...call } = readOptions('add', addSchema, given);
    const items = readItems(texts, { ids, metadata });
    const isEmbedded = vectors === undefined && items.texts.length > 0;
    if (isEmbedded) this.#requireEmbedder('vectors', 'none');
    // A copy, because the caller may reuse the buffer before this call's turn.
    const rows = isEmbedded ? null : copiedRows(readVectors(items.texts, vectors ?? NO_ROWS));
    return this.#inTurn(({ addTexts }) => addTexts(this.#state, items, rows, call));
  }

  /**
   * Removes the texts with these ids, or those for which a function returns true.
   *
   * @example
   * const index = heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * await index.remove([0]);
   * index.texts; // ["east"]
   * await index.remove(({ text }) => text.startsWith('e'));
   * index.size; // 0
   * @throws HeedError NOT_FOUND for an id that is not in the index, which is then unchanged
   */
  async remove(ids: readonly TextId[] | TextFilter<Metadata>): Promise<void> {
    const read = typeof ids === 'function' ? (ids as TextFilter) : readIds(ids, 'ids');
    return this.#inTurn(({ removeTexts }) => removeTexts(this.#state, read));
  }

  /**
   * Replaces what is stored with a text. The text and its vector stay, so nothing is embedded.
   *
   * @example
   * const index = heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]], { metadata: [{ page: 1 }, { page: 2 }] });
   * await index.update(1, { metadata: { page: 3 } });
   * index.get(1).metadata; // { page: 3 }
   * @throws HeedError NOT_FOUND for an id that is not in the index
   */
  async update(id: TextId, options: UpdateOptions<Metadata>): Promise<void> {
    const known = idOption(id, 'id');
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
   * const bytes = await heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).save();
   * const index = await heed.TextIndex.load(bytes);
   */
  async save(): Promise<Uint8Array<ArrayBuffer>> {
    return this.#inTurn(({ saveIndex }) => saveIndex(this.#state));
  }

  /** @internal The file of `save` and the vectors in it, as `toTensor` returns them. */
  async snapshot(): Promise<{ file: Uint8Array<ArrayBuffer>; vectors: Tensor }> {
    return this.#inTurn(async ({ saveIndex }) => ({
      file: await saveIndex(this.#state),
      vectors: await this.toTensor(),
    }));
  }

  /** Runs `call` after all earlier calls, which may still wait for the event loop or a model. */
  async #inTurn<T>(call: (module: Awaited<ReturnType<typeof changes>>) => Promise<T>): Promise<T> {
    const result = this.#lastCall.then(async () => call(await changes()));
    this.#lastCall = result.catch(() => {});
    return result;
  }

  /**
   * Returns the file `index.safetensors` with the vectors only, without the texts. With `worker: true`, returns a promise.
   *
   * @example
   * const bytes = heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).toSafetensors();
   * await writeFile('index.safetensors', bytes); // with the texts in words.txt, `load` reads it
   */
  toSafetensors(): FromIndex<Worker, Uint8Array<ArrayBuffer>> {
    const { rows, store } = this.#state;
    const { tensors, metadata } = writtenModel(this.#state);
    return this.#answer(() => store.inTurn(() => store.write(rows.usedRows(), tensors, [], metadata)));
  }

  /**
   * Returns the `topK` (default 10) texts nearest to a vector [D] or [1,D], best first. By default, all vectors are
   * compared; in an index of bits with more than 4096 texts, with `candidates`, or (without `threshold`) in an
   * index of more than 200,000 texts, only the texts nearest by Hamming distance of the signs: `candidates * topK`,
   * where the multiplier defaults to 4 for bits and 256 otherwise. This is faster and may miss some texts.
   * An index with a model also accepts a text, embeds it as a query (`embedQuery`), and returns a promise, which rejects
   * with every error. Its hits have `coverage`, which tells queries in a language that the model does not know. An empty
   * text has no hits. With `hybrid`, texts are also found by the words of the query. An index with `worker: true` always
   * returns a promise.
   *
   * @throws HeedError SHAPE_MISMATCH for a query of another width; INVALID_ARGUMENT for NaN, infinities, and options out of range
   */
  search(
    query: TensorInput | Float32Array,
    options?: TextSearchOptions<Metadata>,
  ): FromIndex<Worker, TextHit<Metadata>[]>;
  /** The same for a text, which the index's model embeds as a query. */
  search(query: string, options?: TextSearchOptions<Metadata>): Promise<TextHits<Metadata>>;
  search(
    query: TensorInput | Float32Array | string,
    options?: TextSearchOptions<Metadata>,
  ): FromIndex<Worker, TextHit<Metadata>[]> | Promise<TextHits<Metadata>> {
    if (typeof query === 'string') return this.#embedded('query', [query], options).then(([hits]) => hits!);
    return this.#answer(() => {
      const isVector = kindOf(query) === 'Float32Array';
      const { data, shape } = isVector
        ? { data: query as Float32Array, shape: [] }
        : readTensor('query', query as TensorInput);
      if (shape.length > 1 && shape[0] !== 1) {
        const hint = 'Search with several vectors by searchAll';
        throw invalid('query', 'one vector, [D] or [1, D]', `shape ${formatShape(shape)}`, 'SHAPE_MISMATCH', { hint });
      }
      const row = { data, count: 1, width: data.length };
      return after(this.#ofVectors('query', row, options), ([hits]) => hits!);
    });
  }

  /**
   * Returns a function to call with the text of a search field whenever it changes. The function calls `onHits` with the
   * hits and the text of the latest call only: a call stops the search of the call before, whose promise then resolves
   * without hits. An empty text has no hits and is not embedded. `options` are those of `search`.
   *
   * @example
   * const index = await heed.TextIndex.of(model, ['the quick fox', 'a dog']);
   * const onInput = index.searchLatest((hits) => console.log(hits[0]?.text), { topK: 3 });
   * await onInput('a fo');
   * @throws HeedError as `search`; INVALID_ARGUMENT if the index has no model
   */
  searchLatest(
    onHits: (hits: TextHits<Metadata>, text: string) => void,
    options?: Omit<TextSearchOptions<Metadata>, 'signal'>,
  ): (text: string) => Promise<void> {
    this.#requireEmbedder('searchLatest', 'an index without a model');
    const { signal: _, ...schema } = textSearchSchema;
    const call = readOptions('searchLatest', schema, options);
    if (typeof onHits !== 'function') throw invalid('searchLatest.onHits', 'a function', describe(onHits));
    let latest = new AbortController();
    return async (given) => {
      const query = text(given, 'text');
      latest.abort();
      latest = new AbortController();
      const { signal } = latest;
      try {
        const [hits] = await this.#found('query', [query], { ...call, signal });
        if (!signal.aborted) onHits(hits!, query);
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    };
  }

  /**
   * Searches for several vectors [N,D] or texts at once, as `search` does for one. Reads the vectors of the index only
   * once. For an empty array, an index with a model returns a promise, and an index with `worker: true` always does.
   *
   * @example
   * const index = heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * const [first, second] = index.searchAll([[0.1, 1], [1, 0.1]], { topK: 1 });
   * second[0].text; // "east"
   */
  searchAll(queries: TensorInput, options?: TextSearchOptions<Metadata>): FromIndex<Worker, TextHit<Metadata>[][]>;
  /** The same for texts, which the index's model embeds as queries. */
  searchAll(queries: readonly string[], options?: TextSearchOptions<Metadata>): Promise<TextHits<Metadata>[]>;
  searchAll(
    queries: TensorInput | readonly string[],
    options?: TextSearchOptions<Metadata>,
  ): FromIndex<Worker, TextHit<Metadata>[][]> | Promise<TextHits<Metadata>[]> {
    const first = guarded('queries', () => (Array.isArray(queries) ? (queries[0] as unknown) : null));
    if (typeof first === 'string' || (first === undefined && this.#state.embedder))
      return this.#embedded('queries', queries as readonly string[], options);
    return this.#answer(() => this.#ofVectors('queries', readFloatRows('queries', queries), options));
  }

  /** Embeds the queries and searches for them. `name`: the argument that has them. */
  async #embedded(
    name: string,
    queries: readonly string[],
    options: object | undefined,
  ): Promise<TextHits<Metadata>[]> {
    this.#requireEmbedder(name, name === 'query' ? 'a text' : 'texts');
    return this.#found(name, strings(queries, name), readOptions('search', textSearchSchema, options));
  }

  async #found(name: string, queries: readonly string[], call: CheckedSearch): Promise<TextHits<Metadata>[]> {
    const asked = queries.filter((query) => query.trim() !== '');
    if (asked.length === 0) return queries.map(() => []);
    const [rows, coverage] = await Promise.all([
      embedFor(this.#state, 'query', asked, call),
      embedding().then(({ coverageOfQueries }) => coverageOfQueries(this.#state.embedder!, asked, call.signal)),
    ]);
    const vectors = { ...rows, data: Float32Array.from(rows.data) };
    const found = call.hybrid
      ? await (await hybrid()).hybridSearch(this.#state, name, asked, vectors, call)
      : await searchIndex(this.#state, name, vectors, call);
    for (const [i, hits] of found.entries())
      if (coverage?.[i]) Object.defineProperty(hits, 'coverage', { value: coverage[i] });
    let n = 0;
    return queries.map((query) => (query.trim() === '' ? [] : found[n++]!)) as TextHits<Metadata>[];
  }

  #ofVectors(name: string, { data, count, width }: Matrix, options: object | undefined): Answer<TextHit<Metadata>[][]> {
    const call = readOptions('search', textSearchSchema, options);
    const forTexts = call.hybrid ? 'hybrid' : call.prompt !== null ? 'prompt' : null;
    if (forTexts) throw invalid(`search.${forTexts}`, 'a query that is a text', 'a query that is a vector');
    // A copy, because the caller may reuse the buffer before this call's turn.
    const queries = { data: data.slice(), count, width };
    return searchIndex(this.#state, name, queries, call) as Answer<TextHit<Metadata>[][]>;
  }

  #requireEmbedder(name: string, got: string): void {
    if (this.#state.embedder) return;
    throw invalid(name, 'vectors, as this index has no model', got, 'INVALID_ARGUMENT', {
      hint: 'Make it with TextIndex.of(model, texts), or give of() or load() the option `embedder`',
    });
  }

  /**
   * Frees the vectors of an index that `heed.TextIndex` made, also those in a worker; any use afterwards throws
   * `DISPOSED`. The vectors of other indexes are garbage-collected.
   *
   * @example
   * const index = heed.TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * index.dispose(); // or `using index = ...`
   */
  dispose(): void {
    this.#state.store.dispose();
  }

  /** Calls `dispose`, for `using`. */
  [dispose](): void {
    this.dispose();
  }

  /**
   * Returns the vectors [N,D] as stored: rounded and, for the cosine, scaled to unit norm. With `worker: true`, returns a
   * promise.
   *
   * @example
   * heed.TextIndex.of(['north', 'east'], [[0, 2], [1, 0]]).toTensor().toArray(); // [[0, 1], [1, 0]]
   */
  toTensor(): FromIndex<Worker, Tensor> {
    return this.#answer(() => after(usedVectors(this.#state), vectorTensor));
  }
}

/** Joins texts with their vectors. */
function* eachEntry<Metadata>(
  texts: readonly IndexedText<Metadata>[],
  stored: StoredVectors,
): Generator<IndexEntry<Metadata>, void> {
  const { width, bits } = stored;
  for (let n = 0; n < texts.length; n++) {
    const data = stored.data.subarray(n * width, (n + 1) * width);
    const factors = bits ? stored.factors : stored.factors.subarray(n, n + 1);
    yield { ...texts[n]!, vector: vectorTensor({ ...stored, data, count: 1, factors }).data };
  }
}

type Form = Omit<Read<typeof ofSchema>, 'metadata'>;

const storeOptions = ({ embedder, storage, similarity }: Form): StoreOptions => ({
  storage,
  similarity: similarity ?? similarityOf(embedder),
});

/** The state of a new index. */
function newState(store: Store, { texts, ids, metadata }: Items, { embedder, dimensions, prompt }: Form): IndexState {
  const rows = new TextRows(
    texts,
    ids && new TextRows().idsFor(ids, texts.length, false),
    metadata,
    ids ? 0 : undefined,
  );
  return { rows, store, embedder, dimensions, prompt, probe: null };
}

heldByCalls(TextIndex.prototype);
