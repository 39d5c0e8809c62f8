/** The operations on tensors that `load()` returns, and their options. */
import type { MaskInput, Tensor, TensorInput } from '../../base/tensor.js';

/** A tensor, nested numbers, a parameter, or a number, which stands for a tensor without axes. */
export type Operand = TensorInput | number;

/** Options of `sum` and `max`. */
export interface ReductionOptions {
  /** The axis to reduce, or several; negative axes count from the end. Default: all axes. */
  axis?: number | readonly number[] | undefined;
  /** Whether reduced axes stay, with extent 1. Default false. */
  keepDims?: boolean | undefined;
}

/** Options of `mean`. */
export interface MeanOptions {
  /** The axis to reduce, or several; negative axes count from the end. Default -2, the tokens of [..., L, E]. */
  axis?: number | readonly number[] | undefined;
  /** Whether reduced axes stay, with extent 1. Default false. */
  keepDims?: boolean | undefined;
  /** A boolean mask of the tokens to include, [..., L], without `axis`. Default: all tokens. The mean of no tokens is 0. */
  mask?: MaskInput | undefined;
}

/** Options of `concatenate`. */
export interface ConcatenateOptions {
  /** The axis along which tensors are joined; negative axes count from the end. Default -1, the last axis. */
  axis?: number | undefined;
}

/** Options of `slice`. */
export interface SliceOptions {
  /** The axis to slice; negative axes count from the end. Default 0, the first axis. */
  axis?: number | undefined;
  /** The first position; negative positions count from the end. Default 0. */
  start?: number | undefined;
  /** The position after the last one; negative positions count from the end. Default: the end of the axis. */
  end?: number | undefined;
}

/**
 * Operations on tensors, whose result is a new tensor. In heed/train, results of layers in training and parameters have
 * gradients through them.
 *
 * Operands are tensors, nested arrays, parameters and, where two operands broadcast, numbers. Shapes broadcast from the
 * right, as in NumPy. Values follow IEEE arithmetic: division by 0, `log(0)` and square roots of negative numbers give
 * infinities and NaN. A result without axes is a tensor of shape [], in heed/train a `Loss`. Errors: `SHAPE_MISMATCH`,
 * `INVALID_ARGUMENT`.
 */
export interface Operations {
  /**
   * Adds a and b elementwise.
   *
   * @example
   * heed.add([[1, 2], [3, 4]], [10, 20]).toArray(); // [[11, 22], [13, 24]]
   */
  add(a: Operand, b: Operand): Tensor;
  /**
   * Subtracts b from a elementwise.
   *
   * @example
   * heed.subtract([[1, 2], [3, 4]], 1).toArray(); // [[0, 1], [2, 3]]
   */
  subtract(a: Operand, b: Operand): Tensor;
  /**
   * Multiplies a and b elementwise.
   *
   * @example
   * heed.multiply([[1, 2], [3, 4]], 2).toArray(); // [[2, 4], [6, 8]]
   */
  multiply(a: Operand, b: Operand): Tensor;
  /**
   * Divides a by b elementwise.
   *
   * @example
   * heed.divide([1, -1, 0], [2, 0, 0]).toArray(); // [0.5, -Infinity, NaN]
   */
  divide(a: Operand, b: Operand): Tensor;
  /**
   * The exponential e^x of each entry.
   *
   * @example
   * heed.exp([0, 1]).toArray(); // [1, 2.7183]
   */
  exp(x: Operand): Tensor;
  /**
   * The natural logarithm of each entry.
   *
   * @example
   * heed.log([1, 0, -1]).toArray(); // [0, -Infinity, NaN]
   */
  log(x: Operand): Tensor;
  /**
   * The absolute value of each entry. Its gradient at 0 is 0.
   *
   * @example
   * heed.abs([-2, 3]).toArray(); // [2, 3]
   */
  abs(x: Operand): Tensor;
  /**
   * The square root of each entry.
   *
   * @example
   * heed.sqrt([4, 9]).toArray(); // [2, 3]
   */
  sqrt(x: Operand): Tensor;
  /**
   * max(x, 0) of each entry. Its gradient at 0 is 0.
   *
   * @example
   * heed.relu([-2, 3]).toArray(); // [0, 3]
   */
  relu(x: Operand): Tensor;
  /**
   * The hyperbolic tangent of each entry.
   *
   * @example
   * heed.tanh([0, 1]).toArray(); // [0, 0.7616]
   */
  tanh(x: Operand): Tensor;
  /**
   * 1 / (1 + e^-x) of each entry.
   *
   * @example
   * heed.sigmoid([0, 2]).toArray(); // [0.5, 0.8808]
   */
  sigmoid(x: Operand): Tensor;
  /**
   * The sum of all entries, or of those along axes. The sum of no entries is 0.
   *
   * @example
   * heed.sum([[1, 2], [3, 4]]).toArray(); // 10
   * heed.sum([[1, 2], [3, 4]], { axis: 0 }).toArray(); // [4, 6]
   */
  sum(x: Operand, options?: ReductionOptions): Tensor;
  /**
   * The maximum of all entries, or of those along axes; NaN if one of them is NaN. Equal maxima share the gradient.
   *
   * @example
   * heed.max([[1, 5], [3, 4]], { axis: -1, keepDims: true }).toArray(); // [[5], [4]]
   * @throws HeedError `SHAPE_MISMATCH` for the maximum of no entries
   */
  max(x: Operand, options?: ReductionOptions): Tensor;
  /**
   * The mean along axes; without `axis`, over the tokens: x [..., L, E] -> [..., E].
   *
   * @example
   * heed.mean([[1, 2], [3, 4]]).toArray(); // [2, 3]
   * heed.mean([[1, 2], [3, 4]], { axis: -1 }).toArray(); // [1.5, 3.5]
   */
  mean(x: TensorInput, options?: MeanOptions): Tensor;
  /**
   * Joins tensors along an axis. All other axes must have the same extents.
   *
   * @example
   * heed.concatenate([[[1], [2]], [[3], [4]]]).toArray(); // [[1, 3], [2, 4]]
   * heed.concatenate([[[1], [2]], [[3], [4]]], { axis: 0 }).toArray(); // [[1], [2], [3], [4]]
   */
  concatenate(tensors: readonly TensorInput[], options?: ConcatenateOptions): Tensor;
  /**
   * Returns the entries [start, end) of an axis. `Tensor.slice` does the same along the first axis.
   *
   * @example
   * heed.slice([[1, 2, 3]], { axis: -1, start: 1 }).toArray(); // [[2, 3]]
   */
  slice(x: TensorInput, options?: SliceOptions): Tensor;
  /**
   * Returns the same entries in another shape. One extent may be -1: it follows from the number of entries.
   *
   * @example
   * heed.reshape([[1, 2], [3, 4]], [-1]).toArray(); // [1, 2, 3, 4]
   */
  reshape(x: Operand, shape: readonly number[]): Tensor;
  /**
   * A copy with two axes exchanged, as `torch.transpose`. Negative axes count from the end. Default: the last two, as
   * `mT` in PyTorch.
   *
   * @example
   * heed.transpose([[1, 2, 3], [4, 5, 6]]).toArray(); // [[1, 4], [2, 5], [3, 6]]
   * @throws HeedError `INVALID_ARGUMENT` for an axis that x does not have
   */
  transpose(x: TensorInput, axis0?: number, axis1?: number): Tensor;
  /**
   * The matrix product of the last two axes, as `torch.matmul`: [...,L,K] and [...,K,M] to [...,L,M]; the other axes
   * broadcast. A vector [K] counts as a row on the left and as a column on the right, and its axis of size 1 is removed
   * from the result.
   *
   * @example
   * heed.matmul([[1, 2], [3, 4]], [[1, 0], [1, 1]]).toArray(); // [[3, 2], [7, 4]]
   * heed.matmul([[1, 2], [3, 4]], [1, 1]).toArray(); // [3, 7]
   * @throws HeedError `SHAPE_MISMATCH` for inner extents that differ, leading axes that do not broadcast, and tensors
   * without axes
   */
  matmul(a: TensorInput, b: TensorInput): Tensor;
}
