/**
 * Vectors as int8 or bits. Signs follow the conventions of sentence-transformers' `quantize_embeddings`; int8 has one
 * scale per vector, so that a vector does not depend on the other vectors of its call.
 */
import { Tensor } from '../base/tensor.js';

export const OUTPUTS = ['float32', 'int8', 'binary'] as const;
/** The type of the vectors that `embed` returns. */
export type VectorOutput = (typeof OUTPUTS)[number];

/**
 * Vectors [N,D] as integers in [-127, 127]: value = data * scales[row], where scales[row] is the row's maximum
 * magnitude / 127.
 */
export type Int8Vectors = Tensor<Int8Array> & { readonly scales: Float32Array };

/**
 * The signs of vectors as bits, [N, ceil(D / 8)]: 1 for positive entries, eight per byte, the first entry in the
 * highest bit, padded with zeros (`np.packbits`, sentence-transformers' precision 'ubinary'; its 'binary' is these
 * bytes minus 128).
 */
export type BinaryVectors = Tensor<Uint8Array>;

/** Token counts that `embed` returns with the vectors. */
export interface OfTexts {
  /** The number of tokens cut from each text because it exceeded the model's limit or `maxLength`. */
  readonly truncated: number[];
  /** The number of tokens of each text that were embedded, including special tokens and the prompt's. */
  readonly tokens: number[];
}

type Quantized<O extends VectorOutput> = O extends 'int8' ? Int8Vectors : O extends 'binary' ? BinaryVectors : Tensor;
/** The type that `embed` returns for an output. */
export type VectorsOf<O extends VectorOutput> = Quantized<O> & OfTexts;

/** Rounds a vector to int8. A zero vector has the scale 1 / 127. */
export function int8Of(vector: Float32Array): { values: Int8Array; scale: number } {
  const values = new Int8Array(vector.length);
  return { values, scale: writeInt8(vector, values, 0) };
}

/**
 * Writes a vector as int8 into `out` at index `at` and returns its scale. Plain loops, because callbacks take six times
 * as long.
 */
function writeInt8(vector: Float32Array, out: Int8Array, at: number): number {
  let largest = 0;
  for (let i = 0; i < vector.length; i++) largest = Math.max(largest, Math.abs(vector[i]!));
  largest ||= 1;
  for (let i = 0; i < vector.length; i++) out[at + i] = Math.round((vector[i]! / largest) * 127);
  return Math.fround(largest / 127);
}

/** Packs the signs of a vector into bits. */
export function bitsOf(vector: Float32Array | Int8Array): Uint8Array {
  const bits = new Uint8Array(Math.ceil(vector.length / 8));
  for (let i = 0; i < vector.length; i++) if (vector[i]! > 0) bits[i >> 3]! |= 128 >> (i & 7);
  return bits;
}

/** Converts fp32 vectors to the requested output type and attaches the token counts. */
export function vectorsOf<O extends VectorOutput>(
  vectors: Tensor,
  output: O,
  { truncated, tokens }: OfTexts,
): VectorsOf<O> {
  return Object.assign(quantized(vectors, output), { truncated, tokens }) as VectorsOf<O>;
}

/** Converts vectors [N,D] to the requested output type. */
export function quantized<O extends VectorOutput>(vectors: Tensor, output: O): Quantized<O> {
  const [count, width] = vectors.shape as [number, number];
  const row = (n: number) => vectors.data.subarray(n * width, (n + 1) * width);
  let result: Tensor | Int8Vectors | BinaryVectors = vectors;
  if (output === 'int8') {
    const scales = new Float32Array(count);
    const data = new Int8Array(count * width);
    for (let n = 0; n < count; n++) scales[n] = writeInt8(row(n), data, n * width);
    result = Object.assign(new Tensor(data, [count, width]), { scales });
  } else if (output === 'binary') {
    const bytes = Math.ceil(width / 8);
    const data = new Uint8Array(count * bytes);
    for (let n = 0; n < count; n++) data.set(bitsOf(row(n)), n * bytes);
    result = new Tensor(data, [count, bytes]);
  }
  return result as Quantized<O>;
}

/** Validated rows to search. */
export interface Rows {
  data: Float32Array | Int8Array | Uint8Array;
  count: number;
  /** The number of entries of `data` per row. */
  width: number;
  bits: boolean;
  /** For int8, if known: value = data * scales[row]. */
  scales?: Float32Array | undefined;
  /** For fp32 and int8 rows in the format of an index: the factor of each row in scores. */
  factors?: Float32Array | undefined;
}

/** The norm of each row; 1 for zero rows. */
export function normsOf(data: ArrayLike<number>, width: number): Float64Array {
  const norms = new Float64Array(data.length / width || 0);
  for (let i = 0; i < norms.length; i++) norms[i] = Math.sqrt(dot(data, i, data, i, width)) || 1;
  return norms;
}

/** The dot product of row i of `a` and row j of `b`. Four independent sums shorten the dependency chain. */
export function dot(a: ArrayLike<number>, i: number, b: ArrayLike<number>, j: number, width: number): number {
  const [first, second] = [i * width, j * width];
  const even = width - (width % 4);
  let p = 0;
  let q = 0;
  let r = 0;
  let s = 0;
  for (let k = 0; k < even; k += 4) {
    const x = first + k;
    const y = second + k;
    p += a[x]! * b[y]!;
    q += a[x + 1]! * b[y + 1]!;
    r += a[x + 2]! * b[y + 2]!;
    s += a[x + 3]! * b[y + 3]!;
  }
  for (let k = even; k < width; k++) p += a[first + k]! * b[second + k]!;
  return p + q + (r + s);
}

/** Divides a vector by its L2 norm, as torch.nn.functional.normalize; zero vectors stay zero. */
export function normalized(vector: Float32Array): Float32Array {
  const norm = Math.max(Math.sqrt(vector.reduce((sum, v) => sum + v * v, 0)), 1e-12);
  return vector.map((v) => v / norm);
}
