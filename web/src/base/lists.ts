/**
 * Lists of any length. Engines limit the number of arguments of a call to some 100,000, so `Math.max(...list)` and
 * `list.push(...more)` throw a RangeError for longer lists; and a list that is copied for each of its entries takes
 * quadratic time. tests/tools/growth-patterns.test.ts rejects both.
 */

/** The index of the largest number, the first one of equal numbers; -1 if there are none. NaN counts as the largest. */
export function indexOfMax(values: ArrayLike<number>): number {
  let best = values.length > 0 ? 0 : -1;
  for (let i = 1; i < values.length && !Number.isNaN(values[best]); i++) {
    const value = values[i]!;
    if (value > values[best]! || Number.isNaN(value)) best = i;
  }
  return best;
}

/** The largest number; -Infinity if there are none. */
export function maxOf(values: Iterable<number>): number {
  let most = -Infinity;
  for (const value of values) most = Math.max(most, value);
  return most;
}

/** The smallest number; Infinity if there are none. */
export function minOf(values: Iterable<number>): number {
  let least = Infinity;
  for (const value of values) least = Math.min(least, value);
  return least;
}

/** Adds the entries of `more` to the end of `list`. */
export function append<T>(list: T[], more: Iterable<T>): void {
  for (const entry of more) list.push(entry);
}

/** The values by their keys: keys in the order of their first values, the values of each key in order. */
export function groupBy<K, V>(values: Iterable<V>, keyOf: (value: V) => K): Map<K, V[]> {
  const groups = new Map<K, V[]>();
  for (const value of values) {
    const key = keyOf(value);
    const group = groups.get(key);
    if (group) group.push(value);
    else groups.set(key, [value]);
  }
  return groups;
}

/** The index of each value; of equal values, that of the first. */
export function indicesOf<T>(values: Iterable<T>): Map<T, number> {
  const indices = new Map<T, number>();
  for (const value of values) if (!indices.has(value)) indices.set(value, indices.size);
  return indices;
}
