/**
 * Error feedback of GPTQ (Frantar et al. 2022, arXiv:2210.17323). For a matrix W [N, K] with inputs X [T, K], the error
 * of the outputs is tr(E H E^T) with E = W - Q and H = X^T X. With H = R R^T for an upper triangular R, it is the sum
 * over the columns k of R[k, k]^2 |E_k + sum_(i < k) E_i R[i, k] / R[k, k]|^2. The columns are quantized in order, each
 * with the target W_k + sum_(i < k) E_i R[i, k] / R[k, k].
 */
import type { Core } from '../base/wasm/core.js';

/** This much of the mean diagonal entry of H is added to its diagonal. */
const DAMPING = 0.01;

export class Feedback {
  /** The columns in the order in which they are quantized: those with the largest inputs first. */
  readonly order: readonly number[];
  readonly #width: number;
  /** R [K, K], rows and columns in this order. */
  readonly #factor: Float64Array;

  private constructor(order: readonly number[], factor: Float64Array) {
    this.order = order;
    this.#width = order.length;
    this.#factor = factor;
  }

  /** From X^T X [K, K]. null if all inputs are 0 or if they are not finite. */
  static of(core: Core, gram: Float32Array, width: number): Feedback | null {
    const diagonal = Array.from({ length: width }, (_, k) => gram[k * width + k]!);
    const mean = diagonal.reduce((sum, entry) => sum + entry, 0) / width;
    if (!(mean > 0 && mean < Infinity)) return null;
    const order = diagonal.map((_, k) => k).sort((a, b) => diagonal[b]! - diagonal[a]! || a - b);
    const sorted = new Float64Array(width * width);
    for (let i = 0; i < width; i++)
      for (let j = i; j < width; j++) sorted[i * width + j] = gram[order[i]! * width + order[j]!]! / mean;
    for (let k = 0; k < width; k++) sorted[k * width + k]! += DAMPING;
    const factor = core.triangularFactor(sorted, width);
    return factor && new Feedback(order, factor);
  }

  /** The factors of the errors of columns [begin, t) (in the order) for column t: R[i, t] / R[t, t]. */
  factors(t: number, begin = 0): Float64Array {
    const own = this.#factor[t * this.#width + t]!;
    const factors = new Float64Array(t - begin);
    for (let i = begin; i < t; i++) factors[i - begin] = this.#factor[i * this.#width + t]! / own;
    return factors;
  }
}
