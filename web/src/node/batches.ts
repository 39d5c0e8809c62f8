/** Groups a stream, so that streams of any length need the same memory. */

/** Texts in memory at a time. */
const BATCH = 256;

/** Groups neighbouring items until their sizes reach BATCH. By default each item has size 1. */
export async function* batches<T>(items: AsyncIterable<T> | Iterable<T>, sizeOf = (_: T) => 1): AsyncGenerator<T[]> {
  let batch: T[] = [];
  let filled = 0;
  for await (const item of items) {
    batch.push(item);
    filled += sizeOf(item);
    if (filled >= BATCH) {
      yield batch;
      batch = [];
      filled = 0;
    }
  }
  if (batch.length > 0) yield batch;
}
