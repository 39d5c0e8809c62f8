/** From logits to scores, and the best of them. */
export interface Hit {
  /** The row of the corpus, or the index of the score. */
  index: number;
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

/** The `count` largest entries in descending order; ties in the order of their indices. */
export function best(scores: ArrayLike<number>, count: number): Hit[] {
  const found: number[] = [];
  let least = -Infinity;
  const cut = () => {
    found.sort((a, b) => scores[b]! - scores[a]! || a - b);
    if (found.length < count) return;
    found.length = count;
    least = scores[found[count - 1]!]!;
  };
  for (let index = 0; index < scores.length; index++) {
    if (found.length >= count && !(scores[index]! > least)) continue;
    // Collect twice as many as needed before sorting, so that sorting takes little time per entry.
    if (found.push(index) >= 2 * count) cut();
  }
  cut();
  return found.map((index) => ({ index, score: scores[index]! }));
}
