/** From logits to scores, and the best of them. */
export interface Hit {
  /** The row of the corpus, or the index of the score. */
  index: number;
  /** The cosine, or the dot product if the vectors are compared by it. */
  score: number;
}

export function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}

export function softmax(row: Float32Array): Float32Array {
  const max = row.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = row.map((x) => Math.exp(x - max));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((p) => p / sum);
}

/** Keeps the `count` items with the largest scores; `order` breaks ties. */
export class Largest<T extends { readonly score: number }> {
  #found: T[] = [];
  /** Score that a further item must exceed to be among the largest. */
  least = -Infinity;
  readonly #count: number;
  readonly #order: (a: T, b: T) => number;

  constructor(count: number, order: (a: T, b: T) => number) {
    this.#count = count;
    this.#order = order;
  }

  push(one: T): void {
    // Sort only when there are twice as many as needed, so that the time per item is small.
    if (this.#found.push(one) >= 2 * this.#count) this.sorted();
  }

  /** The largest items so far, in descending order of their scores. */
  sorted(): T[] {
    this.#found.sort((a, b) => b.score - a.score || this.#order(a, b));
    if (this.#found.length >= this.#count) {
      this.#found.length = this.#count;
      this.least = this.#found.at(-1)?.score ?? Infinity;
    }
    return this.#found;
  }
}

/** A collection of the `count` hits with the largest scores; ties are in the order of their indices. */
export const largest = (count: number): Largest<Hit> => new Largest(count, (a, b) => a.index - b.index);

/** The `count` largest entries in descending order; ties in the order of their indices. */
export function best(scores: ArrayLike<number>, count: number): Hit[] {
  const found = largest(count);
  for (let index = 0; index < scores.length; index++) {
    const score = scores[index]!;
    if (index < count || score > found.least) found.push({ index, score });
  }
  return found.sorted();
}
