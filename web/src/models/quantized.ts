/**
 * Vectors in fewer bytes, with the conventions of sentence-transformers' `quantize_embeddings` for signs; int8 has a scale of its own per vector, so that a vector does not depend
 * on the others of its call.
 */
import { Tensor } from '../tensor.js';

export const OUTPUTS = ['float32', 'int8', 'binary'] as const;
export type VectorOutput = (typeof OUTPUTS)[number];

/** Vectors [N,D] as integers in -127..127: value = data * scales[row], where scales[row] is the row's largest magnitude / 127. */
export type Int8Vectors = Tensor<Int8Array> & { readonly scales: Float32Array };

/**
 * The signs of vectors as bits, [N, ceil(D / 8)]: 1 where an entry is positive, eight to a byte, the first entry in the highest bit, zeros after the last (`np.packbits`, the
 * precision 'ubinary' of sentence-transformers; its 'binary' is these bytes minus 128).
 */
export type BinaryVectors = Tensor<Uint8Array>;

/** What `embed` returns for an output. */
export type VectorsOf<O extends VectorOutput> = O extends 'int8'
  ? Int8Vectors
  : O extends 'binary'
    ? BinaryVectors
    : Tensor;

/** One vector as int8. A vector of zeros has the scale 1 / 127. */
export function int8Of(vector: Float32Array): { values: Int8Array; scale: number } {
  const largest = vector.reduce((max, v) => Math.max(max, Math.abs(v)), 0) || 1;
  return { values: Int8Array.from(vector, (v) => Math.round((v / largest) * 127)), scale: Math.fround(largest / 127) };
}

/** The signs of one vector. */
export function bitsOf(vector: Float32Array | Int8Array): Uint8Array {
  const bits = new Uint8Array(Math.ceil(vector.length / 8));
  for (let i = 0; i < vector.length; i++) if (vector[i]! > 0) bits[i >> 3]! |= 128 >> (i & 7);
  return bits;
}

/** Vectors [N,D] in the requested form. */
export function quantized<O extends VectorOutput>(vectors: Tensor, output: O): VectorsOf<O> {
  const [count, width] = vectors.shape as [number, number];
  const row = (n: number) => vectors.data.subarray(n * width, (n + 1) * width);
  let result: Tensor | Int8Vectors | BinaryVectors = vectors;
  if (output === 'int8') {
    const scales = new Float32Array(count);
    const data = new Int8Array(count * width);
    for (let n = 0; n < count; n++) {
      const { values, scale } = int8Of(row(n));
      data.set(values, n * width);
      scales[n] = scale;
    }
    result = Object.assign(new Tensor(data, [count, width]), { scales });
  } else if (output === 'binary') {
    const bytes = Math.ceil(width / 8);
    const data = new Uint8Array(count * bytes);
    for (let n = 0; n < count; n++) data.set(bitsOf(row(n)), n * bytes);
    result = new Tensor(data, [count, bytes]);
  }
  return result as VectorsOf<O>;
}
