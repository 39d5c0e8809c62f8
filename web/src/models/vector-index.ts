/**
 * Vectors of many texts in one file, for exact search: int8 with one scale a row, a quarter of fp32's bytes. The file is a safetensors with
 *
 *     vectors        I8  [N, D]   each row of length 1 before it was rounded
 *     vectors_scale  F32 [N, 1]   value = scale * int8
 *     texts          U8  [bytes]  the N texts in UTF-8, a line feed after each
 */
import { HeedError, invalid } from '../error.js';
import { Tensor, type TensorLike } from '../tensor.js';
import { headerLength, parseHeader } from './safetensors.js';
import { best, type Hit } from './tasks.js';

export interface IndexHit extends Hit {
  text: string;
}

/** Texts and their vectors, held for search. */
export class VectorIndex {
  readonly texts: readonly string[];
  /** D */
  readonly dimensions: number;
  readonly #vectors: Int8Array;
  readonly #scales: Float32Array;

  private constructor(texts: readonly string[], dimensions: number, vectors: Int8Array, scales: Float32Array) {
    this.texts = texts;
    this.dimensions = dimensions;
    this.#vectors = vectors;
    this.#scales = scales;
  }

  /** From vectors [N, D] and their N texts. Rows are brought to length 1 and rounded to int8. */
  static of(texts: readonly string[], vectors: TensorLike): VectorIndex {
    const [rows, dimensions] = vectors.shape as [number, number];
    if (vectors.shape.length !== 2 || rows !== texts.length) {
      throw new HeedError('SHAPE_MISMATCH', `vectors: got shape [${vectors.shape.join(', ')}]; expected [${texts.length}, D], a row for each text`);
    }
    const quantized = new Int8Array(rows * dimensions);
    const scales = new Float32Array(rows);
    for (let i = 0; i < rows; i++) {
      const row = vectors.data.subarray(i * dimensions, (i + 1) * dimensions);
      const length = Math.hypot(...row) || 1;
      const largest = row.reduce((most, x) => Math.max(most, Math.abs(x)), 0) || 1;
      scales[i] = largest / length / 127;
      for (let k = 0; k < dimensions; k++) quantized[i * dimensions + k] = Math.round((row[k]! / largest) * 127);
    }
    return new VectorIndex([...texts], dimensions, quantized, scales);
  }

  /** Reads the file's bytes. Throws `INVALID_FILE` where they are not such a file. */
  static parse(bytes: Uint8Array, name = 'index'): VectorIndex {
    const end = 8 + headerLength(bytes, name, bytes.length);
    const entries = new Map(parseHeader(bytes.subarray(8, end), name, bytes.length).map((entry) => [entry.name, entry]));
    const take = (key: string, dtype: string) => {
      const entry = entries.get(key);
      if (entry?.dtype !== dtype) throw new HeedError('INVALID_FILE', `${name}: got ${entry ? `'${key}' as ${entry.dtype}` : `no '${key}'`}; expected it as ${dtype}`);
      return { shape: entry.shape, data: bytes.slice(end + entry.begin, end + entry.end) };
    };
    const vectors = take('vectors', 'I8');
    const scales = take('vectors_scale', 'F32');
    const texts = new TextDecoder().decode(take('texts', 'U8').data).split('\n').slice(0, -1);
    const [rows, dimensions] = vectors.shape as [number, number];
    if (vectors.shape.length !== 2 || scales.data.length !== 4 * rows || texts.length !== rows) {
      throw new HeedError('INVALID_FILE', `${name}: got vectors [${vectors.shape.join(', ')}], scales [${scales.shape.join(', ')}] and ${texts.length} texts; expected one of each a row`);
    }
    return new VectorIndex(texts, dimensions, new Int8Array(vectors.data.buffer), new Float32Array(scales.data.buffer));
  }

  /** The file's bytes. */
  serialize(): Uint8Array {
    if (this.texts.some((text) => text.includes('\n'))) throw invalid('texts', 'a text of several lines', 'one line each');
    const parts = {
      vectors: { dtype: 'I8', shape: [this.texts.length, this.dimensions], bytes: new Uint8Array(this.#vectors.buffer) },
      vectors_scale: { dtype: 'F32', shape: [this.texts.length, 1], bytes: new Uint8Array(this.#scales.buffer) },
      texts: { dtype: 'U8', shape: [0], bytes: new TextEncoder().encode(this.texts.map((text) => `${text}\n`).join('')) },
    };
    parts.texts.shape = [parts.texts.bytes.length];
    const header: Record<string, unknown> = {};
    let at = 0;
    for (const [key, { dtype, shape, bytes }] of Object.entries(parts)) {
      header[key] = { dtype, shape, data_offsets: [at, at + bytes.length] };
      at += bytes.length;
    }
    const json = new TextEncoder().encode(JSON.stringify(header));
    const padded = json.length + (-json.length & 7); // tensors start at a multiple of 8, as the format asks
    const file = new Uint8Array(8 + padded + at).fill(0x20, 8, 8 + padded);
    new DataView(file.buffer).setUint32(0, padded, true);
    file.set(json, 8);
    let offset = 8 + padded;
    for (const { bytes } of Object.values(parts)) {
      file.set(bytes, offset);
      offset += bytes.length;
    }
    return file;
  }

  /** Row `i` as fp32. */
  vector(i: number): Float32Array {
    const row = this.#vectors.subarray(i * this.dimensions, (i + 1) * this.dimensions);
    return Float32Array.from(row, (x) => x * this.#scales[i]!);
  }

  /** For each query [N, D] (or one, [D]) the `topK` texts of largest cosine, exactly, best first. */
  search(queries: TensorLike, { topK = 10 }: { topK?: number } = {}): IndexHit[][] {
    const width = queries.shape.at(-1);
    if (width !== this.dimensions || queries.shape.length > 2) {
      throw new HeedError('SHAPE_MISMATCH', `queries: got shape [${queries.shape.join(', ')}]; expected [N, ${this.dimensions}]: embed them with the index's dimensions`);
    }
    const results: IndexHit[][] = [];
    const scores = new Float32Array(this.texts.length);
    for (let q = 0; q < queries.data.length / width; q++) {
      const query = queries.data.subarray(q * width, (q + 1) * width);
      const length = Math.hypot(...query) || 1;
      for (let i = 0, at = 0; i < scores.length; i++) {
        let sum = 0;
        for (let k = 0; k < width; k++) sum += query[k]! * this.#vectors[at++]!;
        scores[i] = (sum * this.#scales[i]!) / length;
      }
      results.push(best(scores, topK).map((hit) => ({ ...hit, text: this.texts[hit.index]! })));
    }
    return results;
  }

  /** All vectors, [N, D]. */
  vectors(): Tensor {
    const all = new Float32Array(this.#vectors.length);
    for (let i = 0; i < this.texts.length; i++) all.set(this.vector(i), i * this.dimensions);
    return new Tensor(all, [this.texts.length, this.dimensions]);
  }
}
