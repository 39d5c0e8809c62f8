/**
 * Texts and their vectors for semantic search: small enough for a web page (int8, one scale per vector), and exact, as every vector is compared.
 *
 * As files: `index.safetensors` with `vectors` I8 [N,D] and `vectors_scale` F32 [N,1] (value = int8 * scale, rows of length 1), and `words.txt` with one text per line.
 */
import { formatShape, guarded, invalid, invalidFile } from '../error.js';
import { readAll } from '../io/files.js';
import { readTensors, widen, writeSafetensors } from '../io/safetensors.js';
import { type ModelSource, openFolder } from '../io/source.js';
import { readOptions } from '../options.js';
import { readTensor, Tensor, type TensorInput } from '../tensor.js';
import { best, readRows, searchSchema } from './tasks/similarity.js';
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
  readonly #vectors: Int8Array;
  readonly #scales: Float32Array;

  private constructor(texts: readonly string[], vectors: Int8Array, scales: Float32Array) {
    this.texts = texts;
    this.#vectors = vectors;
    this.#scales = scales;
    this.dimensions = texts.length === 0 ? 0 : vectors.length / texts.length;
  }

  /**
   * An index of texts and their vectors [N,D], which are normalized and rounded to int8.
   *
   * @example
   * const index = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]);
   * index.search([[1, 1e-3]], { topK: 1 })[0].text; // "east"
   * index.dimensions; // 2
   */
  static of(texts: readonly string[], vectors: TensorInput): TextIndex {
    const lines = strings(texts, 'texts');
    const { data, shape } = readRows('vectors', vectors);
    const [count, width] = shape as [number, number];
    const expected = `[${lines.length}, width], one row per text`;
    if (count !== lines.length) throw invalid('vectors', expected, `shape ${formatShape(shape)}`, 'SHAPE_MISMATCH');
    const rounded = new Int8Array(count * width);
    const scales = new Float32Array(count);
    for (let n = 0; n < count; n++) {
      const row = data.subarray(n * width, (n + 1) * width);
      const largest = row.reduce((max, v) => Math.max(max, Math.abs(v)), 0) || 1;
      let squares = 0;
      for (let i = 0; i < width; i++) {
        const v = Math.round((row[i]! / largest) * 127);
        rounded[n * width + i] = v;
        squares += v * v;
      }
      scales[n] = squares > 0 ? 1 / Math.sqrt(squares) : 0; // of length 1 after rounding
    }
    return new TextIndex(lines, rounded, scales);
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
    const fits =
      vectors?.dtype === 'I8' &&
      vectors.shape.length === 2 &&
      vectors.shape[0] === count &&
      scales?.dtype === 'F32' &&
      scales.bytes.length === 4 * count;
    if (!fits) {
      const expected = `int8 'vectors' [${count}, width] with 'vectors_scale' [${count}, 1], one row for each line of words.txt`;
      const got = [vectors, scales].map((tensor) => (tensor ? `${tensor.dtype} ${formatShape(tensor.shape)}` : 'none'));
      throw invalidFile(name, expected, got.join(' and '));
    }
    return new TextIndex(texts, new Int8Array(vectors.bytes), widen(scales.bytes, 'F32'));
  }

  /**
   * The file `index.safetensors`.
   *
   * @example
   * const bytes = TextIndex.of(['north', 'east'], [[0, 1], [1, 0]]).toSafetensors();
   * await writeFile('index.safetensors', bytes); // with the texts in words.txt, `load` reads it
   */
  toSafetensors(): Uint8Array<ArrayBuffer> {
    const count = this.texts.length;
    return writeSafetensors([
      { name: 'vectors_scale', dtype: 'F32', shape: [count, 1], data: this.#scales },
      { name: 'vectors', dtype: 'I8', shape: [count, this.dimensions], data: this.#vectors },
    ]);
  }

  /** The `topK` texts nearest to a vector [D] or [1,D], by cosine, best first. */
  search(query: TensorInput | Float32Array, options?: { topK?: number }): TextHit[] {
    const { topK } = readOptions('search', searchSchema, options);
    const isVector = guarded('query', () => query instanceof Float32Array);
    const data = isVector ? (query as Float32Array) : readTensor('query', query as TensorInput).data;
    const width = this.dimensions;
    if (data.length !== width && this.texts.length > 0)
      throw invalid('query', `${width} entries`, `${data.length}`, 'SHAPE_MISMATCH', {
        hint: `Embed it with { dimensions: ${width} }`,
      });
    const norm = Math.sqrt(data.reduce((sum, v) => sum + v * v, 0)) || 1;
    const vectors = this.#vectors;
    const scales = this.#scales;
    const scores = new Float32Array(this.texts.length);
    for (let n = 0, at = 0; n < scores.length; n++) {
      let sum = 0;
      for (let i = 0; i < width; i++, at++) sum += vectors[at]! * data[i]!;
      scores[n] = (sum * scales[n]!) / norm;
    }
    return best(scores, topK).map(({ index, score }) => ({ index, text: this.texts[index]!, score }));
  }

  /**
   * The vectors as they are stored, rounded: [N,D].
   *
   * @example
   * TextIndex.of(['north', 'east'], [[0, 2], [1, 0]]).toTensor().toArray(); // [[0, 1], [1, 0]]
   */
  toTensor(): Tensor {
    const width = this.dimensions;
    return new Tensor(
      Float32Array.from(this.#vectors, (v, i) => v * this.#scales[Math.floor(i / width)]!),
      [this.texts.length, width],
    );
  }
}
