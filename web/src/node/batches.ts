/** Groups a stream into batches, so that memory does not depend on the stream's length. */

/** Size at which a batch is complete. */
const BATCH = 256;

/** Groups consecutive items until the sum of their sizes reaches BATCH. By default, each item has size 1. */
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
