/** Scores of late interaction (ColBERT: Khattab and Zaharia 2020, arXiv:2004.12832, eq. 3). */
import { invalid } from '../../base/error.js';
import { flag, listOf, optional, readOptions } from '../../base/options.js';
import { readRows, type TensorInput } from '../../base/tensor.js';
import { dot } from '../quantized.js';

/**
 * Scores documents against a query: the sum, over the query's vectors, of the maximum dot product with a vector of the
 * document. `query`: [Q, D]; `documents`: one tensor [tokens, D] per document. A document without vectors has the score
 * -Infinity. `lengthNormalize`: divide the score by Q, as sentence-transformers' MeanMaxSim.
 *
 * @example
 * maxSim([[1, 0]], [[[0.6, 0.8], [0, 1]], [[1, 0]]]); // [0.6, 1]
 * @throws HeedError SHAPE_MISMATCH if the widths differ
 */
export function maxSim(
  query: TensorInput,
  documents: readonly TensorInput[],
  options?: { lengthNormalize?: boolean | undefined },
): number[] {
  const { lengthNormalize } = readOptions('maxSim', { lengthNormalize: optional(flag, false) }, options);
  const { data, shape } = readRows('maxSim: query', query);
  const [count, width] = shape as [number, number];
  return listOf((value, name) => {
    const rows = readRows(name, value);
    if (rows.shape[1] !== width) throw invalid(name, `rows of ${width}`, `${rows.shape[1]}`, 'SHAPE_MISMATCH');
    let score = 0;
    for (let q = 0; q < count; q++) {
      let largest = -Infinity;
      for (let d = 0; d < rows.shape[0]!; d++) largest = Math.max(largest, dot(data, q, rows.data, d, width));
      score += largest;
    }
    return lengthNormalize ? score / count : score;
  }, 'an array of tensors')(documents, 'maxSim: documents');
}
