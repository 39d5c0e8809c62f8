/**
 * Texts and their vectors, to be searched by meaning: small enough for a page (int8, one scale per vector), exact in that every vector is looked at.
 *
 * As files: `index.safetensors` with `vectors` I8 [N,D] and `vectors_scale` F32 [N,1] (value = int8 * scale, rows of length 1), and `words.txt` with the texts, one a line.
 */
import { guarded, HeedError } from '../error.js';
import { type ModelFolder, readAll } from '../io/files.js';
import { listOf, readOptions, text } from '../options.js';
import { readTensor, Tensor, type TensorInput } from '../tensor.js';
import { headerLength, parseHeader, writeSafetensors } from './safetensors.js';
import { type ModelSource, openFolder } from './source.js';
import { best, readRows, searchSchema } from './tasks.js';

export interface TextHit {
  index: number;
  text: string;
  score: number;
}

export class TextIndex {
  /** D, to be given as `dimensions` where queries are embedded. */
  readonly dimensions: number;

  private constructor(
    readonly texts: readonly string[],
    private readonly vectors: Int8Array,
    private readonly scales: Float32Array,
  ) {
    this.dimensions = texts.length === 0 ? 0 : vectors.length / texts.length;
  }

  /** From texts and their vectors [N,D], which are brought to length 1 and rounded to int8. */
  static of(texts: readonly string[], vectors: TensorInput): TextIndex {
    const lines = listOf(text, 'an array of strings')(texts, 'texts');
    const { data, shape } = readRows('vectors', vectors);
    const [count, width] = shape as [number, number];
    if (count !== lines.length) {
      throw new HeedError(
        'SHAPE_MISMATCH',
        `vectors: got shape [${shape.join(', ')}]; expected [${lines.length}, width], one row a text`,
      );
    }
    const rounded = new Int8Array(count * width);
    const scales = new Float32Array(count);
    for (let n = 0; n < count; n++) {
      const row = data.subarray(n * width, (n + 1) * width);
      const most = row.reduce((max, v) => Math.max(max, Math.abs(v)), 0) || 1;
      let squares = 0;
      for (let i = 0; i < width; i++) {
        const v = Math.round((row[i]! / most) * 127);
        rounded[n * width + i] = v;
        squares += v * v;
      }
      scales[n] = squares > 0 ? 1 / Math.sqrt(squares) : 0; // of length 1 as they are rounded
    }
    return new TextIndex(lines, rounded, scales);
  }

  /** From a folder (URL, path or files) that holds `index.safetensors` and `words.txt`. */
  static async load(source: ModelSource): Promise<TextIndex> {
    const folder = await openFolder(source);
    const [words, file] = await Promise.all([readFile(folder, 'words.txt'), readFile(folder, 'index.safetensors')]);
    const texts = new TextDecoder().decode(words.bytes).split(/\r?\n/);
    if (texts.at(-1) === '') texts.pop();
    const start = 8 + headerLength(file.bytes, file.name, file.bytes.length);
    const entries = new Map(
      parseHeader(file.bytes.subarray(8, start), file.name, file.bytes.length).map((entry) => [entry.name, entry]),
    );
    const [vectors, scales] = [entries.get('vectors'), entries.get('vectors_scale')];
    const fits =
      vectors?.dtype === 'I8' &&
      vectors.shape.length === 2 &&
      vectors.shape[0] === texts.length &&
      scales?.dtype === 'F32' &&
      scales.end - scales.begin === 4 * texts.length;
    if (!fits)
      throw new HeedError(
        'INVALID_FILE',
        `${file.name}: got no int8 'vectors' [${texts.length}, width] with 'vectors_scale' [${texts.length}, 1]; expected one row for each line of words.txt`,
      );
    const bytes = (entry: { begin: number; end: number }) =>
      file.bytes.slice(start + entry.begin, start + entry.end).buffer;
    return new TextIndex(texts, new Int8Array(bytes(vectors)), new Float32Array(bytes(scales!)));
  }

  /** The file `index.safetensors`. */
  toSafetensors(): Uint8Array<ArrayBuffer> {
    const count = this.texts.length;
    return writeSafetensors([
      { name: 'vectors_scale', dtype: 'F32', shape: [count, 1], data: this.scales },
      { name: 'vectors', dtype: 'I8', shape: [count, this.dimensions], data: this.vectors },
    ]);
  }

  /** The `topK` texts nearest to a vector [D] or [1,D], by cosine, best first. */
  search(query: TensorInput | Float32Array, options?: { topK?: number }): TextHit[] {
    const { topK } = readOptions('search', searchSchema, options);
    const isVector = guarded('query', () => query instanceof Float32Array);
    const data = isVector ? (query as Float32Array) : readTensor('query', query as TensorInput).data;
    const width = this.dimensions;
    if (data.length !== width && this.texts.length > 0) {
      throw new HeedError(
        'SHAPE_MISMATCH',
        `query: got ${data.length} entries; expected ${width}: embed it with { dimensions: ${width} }`,
      );
    }
    const norm = Math.sqrt(data.reduce((sum, v) => sum + v * v, 0)) || 1;
    const { vectors, scales } = this;
    const scores = new Float32Array(this.texts.length);
    for (let n = 0, at = 0; n < scores.length; n++) {
      let sum = 0;
      for (let i = 0; i < width; i++, at++) sum += vectors[at]! * data[i]!;
      scores[n] = (sum * scales[n]!) / norm;
    }
    return best(scores, topK).map(({ index, score }) => ({ index, text: this.texts[index]!, score }));
  }

  /** The vectors, as they are searched: [N,D]. */
  toTensor(): Tensor {
    const width = this.dimensions;
    return new Tensor(
      Float32Array.from(this.vectors, (v, i) => v * this.scales[Math.floor(i / width)]!),
      [this.texts.length, width],
    );
  }
}

async function readFile(folder: ModelFolder, name: string): Promise<{ bytes: Uint8Array; name: string }> {
  const file = await folder.open(name, { required: true });
  return { bytes: await readAll(file), name: file.name };
}
