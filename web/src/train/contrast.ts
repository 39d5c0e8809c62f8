/**
 * Batches for losses that compare the examples of a batch with each other. Each batch needs examples that differ;
 * otherwise nothing is learned from it.
 */

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

/**
 * Splits examples, given in order, into batches. If the last batch is too small to compare anything, the last two
 * batches share their examples equally. A batch that still has nothing to compare also gets examples of other batches:
 * the first ones in order that differ (or match, if pairs are needed).
 */
export function batchesWithin(order: readonly number[], batchSize: number, contrast: Contrast | null): number[][] {
  const batches: number[][] = [];
  for (let first = 0; first < order.length; first += batchSize) batches.push(order.slice(first, first + batchSize));
  if (!contrast) return batches;
  const least = contrast.needsPair ? 3 : 2;
  if (batches.length > 1 && batches.at(-1)!.length < least) {
    const last = batches.splice(-2).flat();
    const half = Math.ceil(last.length / 2);
    batches.push(last.slice(0, half), last.slice(half));
  }
  return batches.map((batch) => [...batch, ...missingIn(batch, order, contrast)]);
}

/** The examples that a batch lacks, as far as they exist. */
function missingIn(
  batch: readonly number[],
  order: readonly number[],
  { keys, needsPair = false }: Contrast,
): number[] {
  const own = new Set(batch);
  const kinds = new Set(batch.map((i) => keys[i]));
  const missing: number[] = [];
  if (needsPair && kinds.size === batch.length) {
    const match = order.find((i) => !own.has(i) && kinds.has(keys[i]));
    missing.push(...(match === undefined ? firstPair(order, keys) : [match]));
  }
  for (const i of missing) kinds.add(keys[i]);
  if (kinds.size > 1) return missing;
  for (const i of missing) own.add(i);
  const isSmall = needsPair && own.size < 3; // two examples of the only label
  const other = order.find((i) => !kinds.has(keys[i])) ?? (isSmall ? order.find((i) => !own.has(i)) : undefined);
  return other === undefined ? missing : [...missing, other];
}

/** The first two examples with the same key; empty if there are none. */
function firstPair(order: readonly number[], keys: readonly unknown[]): number[] {
  const seen = new Map<unknown, number>();
  for (const i of order) {
    const before = seen.get(keys[i]);
    if (before !== undefined) return [before, i];
    seen.set(keys[i], i);
  }
  return [];
}
