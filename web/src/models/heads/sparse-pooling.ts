/** How the logits of a text's tokens become a sparse vector. */
import { invalidFile } from '../../base/error.js';
import type { RawTensor } from '../../base/wasm/core.js';
import type { SparseSettings, SparseVector } from './sparse.js';

/** The number of tokens whose vocabulary logits are in memory at a time. */
const TOKENS = 32;

/** Computes w_j = max_i f(logits_ij), or the sum over the tokens i, with f as in SparseSettings. */
export class SparsePooling {
  readonly #weights: Float32Array;
  readonly #sums: boolean;
  readonly #twice: boolean;

  constructor(vocabSize: number, { strategy, activation }: SparseSettings) {
    this.#weights = new Float32Array(vocabSize);
    this.#sums = strategy === 'sum';
    this.#twice = activation === 'log1p_relu';
  }

  /** f of a nonnegative logit. */
  #weight(logit: number): number {
    const weight = Math.log1p(logit);
    return this.#twice ? Math.log1p(weight) : weight;
  }

  /** Adds the logits of some tokens, [tokens, V], plus `bias` [V]. */
  add(logits: Float32Array, bias: Float32Array | undefined): void {
    const weights = this.#weights;
    for (let at = 0; at < logits.length; at += weights.length)
      for (let j = 0; j < weights.length; j++) {
        const logit = logits[at + j]! + (bias?.[j] ?? 0);
        // f is monotonic, so for the maximum it can be applied once at the end.
        if (this.#sums) weights[j]! += this.#weight(Math.max(0, logit));
        else if (!(logit <= weights[j]!)) weights[j] = logit; // also if NaN
      }
  }

  /**
   * Adds the hidden states of some tokens, [tokens, E]. `logitsOf` computes their logits; it is called for a few tokens
   * at a time, to limit memory.
   */
  addRows(
    hidden: Float32Array,
    embedDim: number,
    bias: Float32Array | undefined,
    logitsOf: (rows: RawTensor) => RawTensor,
  ): void {
    const vocabSize = this.#weights.length;
    for (let at = 0; at < hidden.length; at += TOKENS * embedDim) {
      const rows = hidden.slice(at, at + TOKENS * embedDim);
      const { data, shape } = logitsOf({ data: rows, shape: [rows.length / embedDim, embedDim] });
      if (shape[1] !== vocabSize)
        throw invalidFile('decoder', `${vocabSize} rows, the vocab_size of config.json`, `${shape[1]}`);
      this.add(data, bias);
    }
  }

  vector(): SparseVector {
    const weights = this.#sums ? this.#weights : this.#weights.map((logit) => this.#weight(logit));
    const indices = Int32Array.from(weights.keys()).filter((j) => weights[j] !== 0);
    return { indices, values: Float32Array.from(indices, (j) => weights[j]!) };
  }
}

/** The vector with the `count` entries of largest absolute value, and no zeros. */
export function largestEntries({ indices, values }: SparseVector, count: number): SparseVector {
  if (indices.length <= count) return { indices, values };
  const order = [...values.keys()].sort((a, b) => Math.abs(values[b]!) - Math.abs(values[a]!) || a - b);
  const kept = order.slice(0, count).sort((a, b) => a - b);
  return { indices: Int32Array.from(kept, (i) => indices[i]!), values: Float32Array.from(kept, (i) => values[i]!) };
}
