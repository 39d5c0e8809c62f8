/**
 * Error feedback of GPTQ (Frantar et al. 2022, arXiv:2210.17323). For a matrix W [N, K] with inputs X [T, K], the error
 * of the outputs is tr(E H E^T) with E = W - Q and H = X^T X. With H = R R^T for an upper triangular R, it is the sum
 * over the columns k of R[k, k]^2 |E_k + sum_(i < k) E_i R[i, k] / R[k, k]|^2. The columns are quantized in order, each
 * with the target W_k + sum_(i < k) E_i R[i, k] / R[k, k].
 */

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
  static of(gram: Float32Array, width: number): Feedback | null {
    const diagonal = Array.from({ length: width }, (_, k) => gram[k * width + k]!);
    const mean = diagonal.reduce((sum, entry) => sum + entry, 0) / width;
    if (!(mean > 0 && mean < Infinity)) return null;
    const order = diagonal.map((_, k) => k).sort((a, b) => diagonal[b]! - diagonal[a]! || a - b);
    const factor = new Float64Array(width * width);
    for (let i = 0; i < width; i++)
      for (let j = i; j < width; j++) factor[i * width + j] = gram[order[i]! * width + order[j]!]! / mean;
    for (let k = 0; k < width; k++) factor[k * width + k]! += DAMPING;
    return factorize(factor, width) ? new Feedback(order, factor) : null;
  }

  /** The factors of the errors of the t columns before column t (in the order): R[i, t] / R[t, t]. */
  factors(t: number): Float64Array {
    const own = this.#factor[t * this.#width + t]!;
    return Float64Array.from({ length: t }, (_, i) => this.#factor[i * this.#width + t]! / own);
  }
}

/** Replaces the upper triangle of H by R. Returns false if H is not positive definite. */
function factorize(h: Float64Array, width: number): boolean {
  for (let j = width - 1; j >= 0; j--) {
    const rowJ = h.subarray(j * width, (j + 1) * width);
    let rest = rowJ[j]!;
    for (let k = j + 1; k < width; k++) rest -= rowJ[k]! ** 2;
    if (!(rest > 0)) return false;
    const own = Math.sqrt(rest);
    rowJ[j] = own;
    for (let i = 0; i < j; i++) {
      const rowI = h.subarray(i * width, (i + 1) * width);
      let sum = rowI[j]!;
      for (let k = j + 1; k < width; k++) sum -= rowI[k]! * rowJ[k]!;
      rowI[j] = sum / own;
    }
  }
  return true;
}
