/**
 * Matryoshka representation learning (Kusupati et al. 2022, arXiv:2205.13147): vectors whose leading entries can be
 * used as shorter vectors.
 */
import { describe, invalid } from '../base/error.js';
import { minOf } from '../base/lists.js';
import { finite, listOf, optional, readOptions, type Schema, size } from '../base/options.js';
import { readTensor, type Tensor, type TensorInput } from '../base/tensor.js';
import { Loss } from './graph/loss.js';
import { operationsOf } from './graph/operations.js';
import type { Tape } from './graph/tape.js';

/** Options of `losses.matryoshka`. */
export interface MatryoshkaOptions {
  /**
   * The numbers of leading entries for which the loss is computed. Include the full width, which is otherwise not
   * trained.
   */
  dims: readonly number[];
  /** One factor per entry of `dims`. Default: ones. */
  weights?: readonly number[] | undefined;
}

/** The loss `matryoshka`. */
export interface MatryoshkaLosses {
  /**
   * The weighted sum of a loss over vectors [..., E] cut to each of `dims`. `loss` receives the cut vectors in the same
   * order. Cosine-based losses (`infoNCE`, `coSENT`) normalize them.
   *
   * @example
   * const cosines = (a, b) => heed.losses.cosineEmbedding(a, b, [1]);
   * heed.losses.matryoshka(cosines, [[[1, 0, 1, 0]], [[1, 1, 0, 0]]], { dims: [4, 2] }).item(); // 0.793
   * @throws HeedError INVALID_ARGUMENT for a dimension above the width, or if `weights` and `dims` differ in length
   */
  matryoshka(loss: (...vectors: Tensor[]) => Loss, vectors: readonly TensorInput[], options: MatryoshkaOptions): Loss;
}

const name = 'losses.matryoshka';
const names = { dims: `${name}.dims`, weights: `${name}.weights` };
const schema = {
  dims: listOf(size, 'an array of dimensions'),
  weights: optional(listOf(finite, 'an array of numbers'), null),
} satisfies Schema<MatryoshkaOptions>;

/** Checks the dimensions for vectors of a given width, and their weights. `names`: the names of both options, for messages. */
export function readDims(
  names: { readonly dims: string; readonly weights: string },
  { dims, weights }: { readonly dims: readonly number[]; readonly weights?: readonly number[] | null | undefined },
  width: number,
): [dim: number, weight: number][] {
  if (dims.length === 0) throw invalid(names.dims, 'at least one dimension', 'none');
  const wrong = dims.find((dim) => dim > width);
  if (wrong !== undefined) throw invalid(names.dims, `at most ${width}, the width of the vectors`, `${wrong}`);
  if (weights && weights.length !== dims.length)
    throw invalid(names.weights, `${dims.length} numbers, one for each of dims`, `${weights.length}`);
  return dims.map((dim, i) => [dim, weights?.[i] ?? 1]);
}

export function matryoshkaOf(tape: Tape): MatryoshkaLosses {
  const { add, multiply, slice } = operationsOf(tape);
  return {
    matryoshka(loss, vectors, options) {
      const read = readOptions(name, schema, options);
      if (typeof loss !== 'function') throw invalid(`${name}: loss`, 'a function of vectors', describe(loss));
      if (!Array.isArray(vectors) || vectors.length === 0)
        throw invalid(`${name}: vectors`, 'an array of tensors', describe(vectors));
      const widths = vectors.map((each, i) => readTensor(`${name}: vectors[${i}]`, each).shape.at(-1) ?? 0);
      let sum: Loss | null = null;
      for (const [dim, weight] of readDims(names, read, minOf(widths))) {
        const given = loss(...vectors.map((each) => slice(each, { axis: -1, end: dim })));
        if (!(given instanceof Loss)) throw invalid(`${name}: loss`, 'a function that returns a loss', describe(given));
        const part = multiply(given, weight);
        sum = sum ? add(sum, part) : part;
      }
      return sum!;
    },
  };
}
