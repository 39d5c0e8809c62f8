/** Keeps several workers busy with a stream of batches. */

/** Yields `compute(item)` for each item, in order, running up to `count` computations concurrently. */
export async function* inParallel<T, R>(
  items: AsyncIterable<T>,
  count: number,
  compute: (item: T) => Promise<R>,
): AsyncGenerator<R> {
  const pending: Promise<R>[] = [];
  for await (const item of items) {
    const result = compute(item);
    result.catch(() => {}); // an error is thrown below, when this result is due
    pending.push(result);
    if (pending.length >= count) yield await pending.shift()!;
  }
  while (pending.length > 0) yield await pending.shift()!;
}
