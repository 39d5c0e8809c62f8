/** Derives the labels that a classifier predicts from its logits. */
import { indexOfMax } from '../../base/lists.js';

/**
 * The indices of the labels predicted by each row of logits [N, C]: that of the maximum or, with several labels per
 * text, those of the positive logits.
 */
export function predictedLabels(
  { data, shape }: { data: Float32Array; shape: readonly number[] },
  isMultiLabel: boolean,
): number[][] {
  const [count, width] = shape as [number, number];
  return Array.from({ length: count }, (_, n) => {
    const row = data.subarray(n * width, (n + 1) * width);
    if (isMultiLabel) return [...row.keys()].filter((i) => row[i]! > 0);
    return [indexOfMax(row)];
  });
}
