/**
 * Batches for losses that compare the examples of a batch with each other. Each batch needs examples that differ;
 * otherwise nothing is learned from it.
 */
import { append } from '../base/lists.js';

/** What a loss compares. */
export interface Contrast {
  /** The group, label or score of each example. Only examples with different keys are compared with each other. */
  readonly keys: readonly unknown[];
  /** Whether a batch also needs two examples with the same key. */
  readonly needsPair?: boolean | undefined;
}

/** Whether the loss of these examples is constant, whatever the model computes. */
export function isConstant(indices: readonly number[], { keys, needsPair = false }: Contrast): boolean {
  const kinds = new Set(indices.map((i) => keys[i])).size;
  return needsPair ? indices.length < 3 || kinds === indices.length : kinds < 2;
}

/** A batch: its own examples, and examples of other batches with which these are compared. */
export interface ContrastBatch {
  readonly own: readonly number[];
  readonly added: readonly number[];
}

/**
 * Splits examples, given in order, into batches. If the last batch is too small to compare anything, the last two
 * batches share their examples equally. A batch that still has nothing to compare also gets examples of other batches:
 * the first ones in order that differ (or match, if pairs are needed).
 */
export function contrastBatches(
  order: readonly number[],
  batchSize: number,
  contrast: Contrast | null,
): ContrastBatch[] {
  const batches: number[][] = [];
  for (let first = 0; first < order.length; first += batchSize) batches.push(order.slice(first, first + batchSize));
  if (!contrast) return batches.map((own) => ({ own, added: [] }));
  const least = contrast.needsPair ? 3 : 2;
  if (batches.length > 1 && batches.at(-1)!.length < least) {
    const last = batches.splice(-2).flat();
    const half = Math.ceil(last.length / 2);
    batches.push(last.slice(0, half), last.slice(half));
  }
  const missing = missingExamples(order, contrast);
  return batches.map((own) => ({ own, added: missing(own) }));
}

/** The examples of each batch of `contrastBatches`. */
export const batchesWithin = (...args: Parameters<typeof contrastBatches>): number[][] =>
  contrastBatches(...args).map(({ own, added }) => [...own, ...added]);

/**
 * Returns a function for the examples that a batch lacks, as far as they exist. `order` is searched once for all
 * batches.
 */
function missingExamples(
  order: readonly number[],
  { keys, needsPair = false }: Contrast,
): (batch: readonly number[]) => number[] {
  /** The positions in `order` of the first two examples of each key. */
  const firstTwo = new Map<unknown, number[]>();
  for (const [position, i] of order.entries()) {
    const positions = firstTwo.get(keys[i]);
    if (!positions) firstTwo.set(keys[i], [position]);
    else if (positions.length < 2) positions.push(position);
  }
  /** The first example, and the first one with another key. */
  const [one, other] = [...firstTwo.values()].slice(0, 2).map(([position]) => order[position!]!);
  let firstPair: number[] = [];
  let end = Infinity;
  for (const [position, next = Infinity] of firstTwo.values())
    if (next < end) [firstPair, end] = [[order[position!]!, order[next]!], next];

  return (batch) => {
    const own = new Set(batch);
    const kinds = new Set(batch.map((i) => keys[i]));
    const missing: number[] = [];
    if (needsPair && kinds.size === batch.length) {
      // Each key of the batch has one example in it, so one of the first two of its key is another.
      let match = Infinity;
      for (const kind of kinds)
        for (const position of firstTwo.get(kind)!)
          if (position < match && !own.has(order[position]!)) match = position;
      append(missing, match < Infinity ? [order[match]!] : firstPair);
    }
    for (const i of missing) kinds.add(keys[i]);
    if (kinds.size > 1) return missing;
    for (const i of missing) own.add(i);
    const different = [one, other].find((i) => i !== undefined && !kinds.has(keys[i]));
    const isSmall = needsPair && own.size < 3; // two examples of the only label
    const added = different ?? (isSmall ? order.find((i) => !own.has(i)) : undefined);
    return added === undefined ? missing : [...missing, added];
  };
}
