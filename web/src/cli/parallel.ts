/** Keeps several workers busy with a stream of batches. */

/** `compute` of each item, in their order, while up to `count` of them are computed. */
export async function* inParallel<T, R>(
  items: AsyncIterable<T>,
  count: number,
  compute: (item: T) => Promise<R>,
): AsyncGenerator<R> {
  const pending: Promise<R>[] = [];
  for await (const item of items) {
    const result = compute(item);
    result.catch(() => {}); // reported when its turn comes
    pending.push(result);
    if (pending.length >= count) yield await pending.shift()!;
  }
  while (pending.length > 0) yield await pending.shift()!;
}
