/**
 * Texts and their vectors for semantic search, small enough for a web page: int8 with one scale per vector, or bits.
 *
 * As files: `index.safetensors` with `vectors` I8 [N,D] and `vectors_scale` F32 [N,1] (value = int8 * scale, rows of length 1) or, for bits, `vectors` U8 [N, D / 8], and
 * `words.txt` with one text per line.
 */
import { formatShape, guarded, invalid, invalidFile } from '../error.js';
import { readAll } from '../io/files.js';
import { readTensors, writeSafetensors } from '../io/safetensors.js';
import { type ModelSource, openFolder } from '../io/source.js';
import { readOptions } from '../options.js';
import { readTensor, Tensor, type TensorInput } from '../tensor.js';
import { bitsOf, quantized } from './quantized.js';
import {
  bestRows,
  type Corpus,
  nearestBits,
  normsOf,
  type Rows,
  readCorpus,
  type SearchOptions,
  searchSchema,
} from './tasks/similarity.js';
import { strings } from './tasks/task.js';

export interface TextHit {
  index: number;
  text: string;
  score: number;
}

/**
 * @example
 * const index = TextIndex.of(texts, await model.embed(texts));
 * index.search(await model.embed('a fox'), { topK: 3 }); // [{ index, text, score }, ...]
 */
export class TextIndex {
  /** D; to be given as `dimensions` when queries are embedded. */
  readonly dimensions: number;
  readonly texts: readonly string[];
  readonly #rows: Rows;
  /** The length of each row of integers; null for bits. */
  readonly #norms: Float64Array | null;
  /** The signs of all rows, once a search has needed them. */
  #signs: Uint8Array | null = null;

  private constructor(texts: readonly string[], rows: Rows) {
    this.texts = texts;
    this.#rows = rows;
    const { data, count, width, bits } = rows;
    this.dimensions = count === 0 ? 0 : bits ? 8 * width : width;
    this.#norms = bits ? null : normsOf(data, width);
    if (bits) this.#signs = data as Uint8Array;
  }

  /**
   * An index of texts and their vectors: fp32 [N,D], which are rounded to int8, or as `embed` returns them for the outputs 'int8' and 'binary' (D a multiple of 8), which are kept
   * as they are, in D bytes or D / 8 bytes per text.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * index.search([[1, 1e-3]], { topK: 1 })[0].text; // "east"
   * index.dimensions; // 2
   */
  static of(texts: readonly string[], vectors: Corpus): TextIndex {
    const lines = strings(texts, 'texts');
    const rows = readCorpus('vectors', vectors);
    const { data, count, width } = rows;
    const expected = `[${lines.length}, width], one row per text`;
    if (count !== lines.length)
      throw invalid('vectors', expected, `shape ${formatShape([count, width])}`, 'SHAPE_MISMATCH');
    const isFloat = data.BYTES_PER_ELEMENT === 4;
    rows.data = isFloat ? quantized(new Tensor(data as Float32Array, [count, width]), 'int8').data : data.slice();
    return new TextIndex(lines, rows);
  }

  /**
   * Loads an index from a folder (URL, path or files) with `index.safetensors` and `words.txt`.
   *
   * @example
   * const index = await TextIndex.load({ 'index.safetensors': bytes, 'words.txt': new TextEncoder().encode('north\neast\n') });
   * index.texts; // ["north", "east"]
   */
  static async load(source: ModelSource): Promise<TextIndex> {
    const folder = await openFolder(source);
    const open = (name: string) => folder.open(name, { required: true });
    const read = async () => {
      const file = await open('index.safetensors');
      return { name: file.name, tensors: await readTensors(file) };
    };
    const [words, { name, tensors }] = await Promise.all([open('words.txt').then((file) => readAll(file)), read()]);
    const texts = new TextDecoder().decode(words).split(/\r?\n/);
    if (texts.at(-1) === '') texts.pop();
    const count = texts.length;
    const vectors = tensors.get('vectors');
    const scales = tensors.get('vectors_scale');
    const bits = vectors?.dtype === 'U8';
    const fits =
      vectors?.shape.length === 2 &&
      vectors.shape[0] === count &&
      (bits || (vectors.dtype === 'I8' && scales?.dtype === 'F32' && scales.bytes.length === 4 * count));
    if (!fits) {
      const expected = `int8 'vectors' [${count}, width] with 'vectors_scale' [${count}, 1], one row for each line of words.txt`;
      const got = [vectors, scales].map((tensor) => (tensor ? `${tensor.dtype} ${formatShape(tensor.shape)}` : 'none'));
      throw invalidFile(name, expected, got.join(' and '));
    }
    const data = bits ? vectors.bytes : new Int8Array(vectors.bytes);
    return new TextIndex(texts, { data, count, width: vectors.shape[1]!, bits });
  }

  /**
   * The file `index.safetensors`.
   *
   * @example
   * const bytes = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).toSafetensors();
   * await writeFile('index.safetensors', bytes); // with the texts in words.txt, `load` reads it
   */
  toSafetensors(): Uint8Array<ArrayBuffer> {
    const { data, count, width, bits } = this.#rows;
    const shape = [count, width];
    if (bits) return writeSafetensors([{ name: 'vectors', dtype: 'U8', shape, data }]);
    return writeSafetensors([
      { name: 'vectors_scale', dtype: 'F32', shape: [count, 1], data: Float32Array.from(this.#norms!, inverse) },
      { name: 'vectors', dtype: 'I8', shape, data },
    ]);
  }

  /**
   * The `topK` (default 10) texts nearest to a vector [D] or [1,D], by cosine, best first. All int8 vectors are compared, or with `rescoreMultiplier` only those of `topK` times as many texts whose signs
   * differ least from the query's, which is faster and may miss some. An index of bits always selects by signs (`rescoreMultiplier` 4 by default).
   */
  search(query: TensorInput | Float32Array, options?: SearchOptions): TextHit[] {
    const { topK, rescoreMultiplier } = readOptions('search', searchSchema, options);
    const isVector = guarded('query', () => query instanceof Float32Array);
    const data = isVector ? (query as Float32Array) : readTensor('query', query as TensorInput).data;
    const width = this.dimensions;
    if (this.texts.length === 0) return [];
    if (data.length !== width)
      throw invalid('query', `${width} entries`, `${data.length}`, 'SHAPE_MISMATCH', {
        hint: `Embed it with { dimensions: ${width} }`,
      });
    const rows = this.#rows;
    const selects = rows.bits || rescoreMultiplier > 0;
    const candidates = selects ? nearestBits(data, this.#allSigns(), topK * (rescoreMultiplier || 4)) : null;
    return bestRows(data, rows, this.#norms, topK, candidates).map(({ index, score }) => ({
      index,
      text: this.texts[index]!,
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
    const { data, count, bits } = this.#rows;
    const width = this.dimensions;
    const bit = (i: number) => (data[i >> 3]! & (128 >> (i & 7)) ? 1 : -1) / Math.sqrt(width);
    const values = Float32Array.from({ length: count * width }, (_, i) =>
      bits ? bit(i) : data[i]! * inverse(this.#norms![Math.floor(i / width)]!),
    );
    return new Tensor(values, [count, width]);
  }

  #allSigns(): Uint8Array {
    const { data, count, width } = this.#rows;
    if (this.#signs) return this.#signs;
    const bytes = Math.ceil(width / 8);
    const signs = new Uint8Array(count * bytes);
    for (let n = 0; n < count; n++)
      signs.set(bitsOf(data.subarray(n * width, (n + 1) * width) as Int8Array), n * bytes);
    this.#signs = signs;
    return signs;
  }
}

const inverse = (norm: number) => Math.fround(1 / norm);
