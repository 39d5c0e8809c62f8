/**
 * Texts and their vectors for semantic search: int8 with one scale per vector, or bits. A search compares the query with all of them, so there is no graph to build or to keep
 * up to date. text-index-changes.ts loads, changes and saves an index; it is fetched when that is done.
 */
import { formatShape, importing, invalid } from '../error.js';
import { writeSafetensors } from '../io/safetensors.js';
import type { ModelSource } from '../io/source.js';
import { optional, readOptions, text } from '../options.js';
import { kindOf, readTensor, Tensor, type TensorInput } from '../tensor.js';
import {
  allSigns,
  type IndexState,
  inverse,
  quantized,
  type Rows,
  stateOf,
  vectorTensors,
  widthOf,
} from './quantized.js';
import {
  bestRows,
  type Corpus,
  nearestBits,
  readCorpus,
  type SearchOptions,
  searchSchema,
} from './tasks/similarity.js';
import { strings } from './tasks/task.js';
import type { AddOptions } from './text-index-changes.js';

export interface TextHit {
  /** The position of the text in `texts`, which changes when texts before it are removed. */
  index: number;
  /** The text's id, which stays. */
  id: number;
  text: string;
  score: number;
}

export interface TextIndexOptions {
  /** The name of the model whose vectors these are, to be saved with them, or as which they were saved. */
  model?: string;
}

const changes = () => importing(() => import('./text-index-changes.js'));
const ofSchema = { model: optional(text, null) };
const NO_ROWS = { data: new Int8Array(), shape: [0, 0] };

/**
 * @example
 * const index = TextIndex.of(texts, await model.embed(texts));
 * index.search(await model.embed('a fox'), { topK: 3 }); // [{ index, id, text, score }, ...]
 */
export class TextIndex {
  readonly #state: IndexState;

  private constructor(state: IndexState) {
    this.#state = state;
  }

  /** The texts in the order of their vectors. */
  get texts(): readonly string[] {
    return this.#state.texts;
  }

  /** The name of the model that `of` was given, or null. */
  get model(): string | null {
    return this.#state.model;
  }

  /** D; to be given as `dimensions` when queries are embedded. 0 for an index without texts. */
  get dimensions(): number {
    return widthOf(this.#state.rows);
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
  static of(texts: readonly string[] = [], vectors: Corpus = NO_ROWS, options?: TextIndexOptions): TextIndex {
    const { model } = readOptions('TextIndex.of', ofSchema, options);
    const lines = strings(texts, 'texts');
    const rows = readRowsOf(lines, vectors);
    const { data, count, width } = rows;
    const isFloat = data.BYTES_PER_ELEMENT === 4;
    rows.data = isFloat ? quantized(new Tensor(data as Float32Array, [count, width]), 'int8').data : data.slice();
    return new TextIndex(stateOf(lines, rows, model));
  }

  /**
   * Loads an index from a folder (URL, path or files) with `index.safetensors` and, unless the texts are in it, `words.txt`. With `model`, an index that was saved with another
   * model's name is refused.
   *
   * @example
   * const index = await TextIndex.load({ 'index.safetensors': bytes, 'words.txt': new TextEncoder().encode('north\neast\n') });
   * index.texts; // ["north", "east"]
   * @throws HeedError INVALID_FILE for files that are damaged, do not fit each other, or are of another model
   */
  static async load(source: ModelSource, options?: TextIndexOptions): Promise<TextIndex> {
    const { model } = readOptions('TextIndex.load', ofSchema, options);
    return new TextIndex(await (await changes()).readIndex(source, model));
  }

  /**
   * Adds texts and their vectors, in the forms that `of` takes, which are rounded as the index's are (int8 or bits). Resolves to the ids. After an error, the index is as before.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * await index.add(['south'], [[0, -1]]); // [2]
   * @throws HeedError SHAPE_MISMATCH for vectors of another width; INVALID_ARGUMENT for ids that are in use
   */
  async add(texts: readonly string[], vectors: Corpus, options?: AddOptions): Promise<number[]> {
    const lines = strings(texts, 'texts');
    const rows = readRowsOf(lines, vectors);
    return (await changes()).addTexts(this.#state, lines, rows, options);
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
    (await changes()).removeTexts(this.#state, ids);
  }

  /**
   * The file `index.safetensors` with the texts, their ids and the name of the model in it.
   *
   * @example
   * const bytes = await TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).save();
   * const index = await TextIndex.load({ 'index.safetensors': bytes });
   */
  async save(): Promise<Uint8Array<ArrayBuffer>> {
    return (await changes()).saveIndex(this.#state);
  }

  /**
   * The file `index.safetensors` of the vectors alone.
   *
   * @example
   * const bytes = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).toSafetensors();
   * await writeFile('index.safetensors', bytes); // with the texts in words.txt, `load` reads it
   */
  toSafetensors(): Uint8Array<ArrayBuffer> {
    return writeSafetensors(vectorTensors(this.#state));
  }

  /**
   * The `topK` (default 10) texts nearest to a vector [D] or [1,D], by cosine, best first. All int8 vectors are compared, or with `rescoreMultiplier` only those of `topK` times as many texts whose signs
   * differ least from the query's, which is faster and may miss some. An index of bits always selects by signs (`rescoreMultiplier` 4 by default).
   */
  search(query: TensorInput | Float32Array, options?: SearchOptions): TextHit[] {
    const { topK, rescoreMultiplier } = readOptions('search', searchSchema, options);
    const isVector = kindOf(query) === 'Float32Array';
    const data = isVector ? (query as Float32Array) : readTensor('query', query as TensorInput).data;
    const width = this.dimensions;
    if (width === 0) return [];
    if (data.length !== width)
      throw invalid('query', `${width} entries`, `${data.length}`, 'SHAPE_MISMATCH', {
        hint: `Embed it with { dimensions: ${width} }`,
      });
    requireFinite('query', data);
    const state = this.#state;
    const { rows, texts, ids } = state;
    const selects = rows.bits || rescoreMultiplier > 0;
    const candidates = selects ? nearestBits(data, allSigns(state), topK * (rescoreMultiplier || 4)) : null;
    return bestRows(data, rows, rows.bits ? null : state.norms, topK, candidates).map(({ index, score }) => ({
      index,
      id: ids?.[index] ?? index,
      text: texts[index]!,
      score,
    }));
  }

  /**
   * The vectors as they are stored, rounded and of length 1: [N,D].
   *
   * @example
   * TextIndex.of(['north', 'east'], [[0, 2], [1, 0]]).toTensor().toArray(); // [[0, 1], [1, 0]]
   */
  toTensor(): Tensor {
    const { rows, norms } = this.#state;
    const { data, count, bits } = rows;
    const width = this.dimensions;
    const bit = (i: number) => (data[i >> 3]! & (128 >> (i & 7)) ? 1 : -1) / Math.sqrt(width);
    const values = Float32Array.from({ length: count * width }, (_, i) =>
      bits ? bit(i) : data[i]! * inverse(norms[Math.floor(i / width)]!),
    );
    return new Tensor(values, [count, width]);
  }
}

/** The vectors of texts, checked. */
function readRowsOf(texts: string[], vectors: Corpus): Rows {
  const rows = readCorpus('vectors', vectors);
  const { data, count, width } = rows;
  if (count !== texts.length)
    throw invalid(
      'vectors',
      `[${texts.length}, width], one row per text`,
      `shape ${formatShape([count, width])}`,
      'SHAPE_MISMATCH',
    );
  requireFinite('vectors', data);
  return rows;
}

/** Refuses NaN and infinities: their product with 0 is NaN, that of every other number is 0. */
function requireFinite(name: string, data: Rows['data']): void {
  let sum = 0;
  for (let i = 0; i < data.length; i++) sum += data[i]! * 0;
  if (sum === 0) return;
  const at = data.findIndex((v) => !Number.isFinite(v));
  throw invalid(name, 'finite numbers', `${data[at]} at entry ${at}`);
}
