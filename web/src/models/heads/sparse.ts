/** Sparse vectors of masked language models (SPLADE: Formal et al. 2021, arXiv:2107.05720). */
import { guarded, invalid } from '../../base/error.js';

/** A vector over the vocabulary, with only its positive entries, in ascending order of token ids. */
export interface SparseVector {
  /** The token ids of the entries, ascending. */
  indices: Int32Array;
  /** Their values. */
  values: Float32Array;
}

/** The settings of sentence-transformers' SpladePooling. */
export interface SparseSettings {
  /** How the tokens of a text are combined. */
  strategy: 'max' | 'sum';
  /** 'relu': f(x) = log(1 + relu(x)). 'log1p_relu': f(x) = log(1 + log(1 + relu(x))) (Shen et al. 2025, arXiv:2504.14839). */
  activation: 'relu' | 'log1p_relu';
}

/**
 * The dot product of two sparse vectors, which scores a document for a query.
 *
 * @example
 * const [query, document] = await maskedModel.embedSparse(['a fox', 'the quick fox']);
 * sparseDot(query, document);
 */
export function sparseDot(a: SparseVector, b: SparseVector): number {
  const read = (name: string, vector: SparseVector) =>
    guarded(name, () => {
      const { indices, values } = vector;
      if (indices.length === values.length) return { indices, values };
      throw invalid(name, 'as many values as indices', `${values.length} and ${indices.length}`, 'SHAPE_MISMATCH');
    });
  const [x, y] = [read('sparseDot: a', a), read('sparseDot: b', b)];
  let sum = 0;
  for (let i = 0, j = 0; i < x.indices.length && j < y.indices.length; ) {
    const difference = x.indices[i]! - y.indices[j]!;
    if (difference === 0) sum += x.values[i]! * y.values[j]!;
    if (difference <= 0) i++;
    if (difference >= 0) j++;
  }
  return sum;
}
