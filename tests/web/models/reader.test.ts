/** ByteReader over a file that reuses a chunk's memory as soon as the chunk is released. */
import { expect, test } from 'vitest';
import type { OpenFile } from '../../../web/src/io/files.js';
import { ByteReader } from '../../../web/src/io/reader.js';

/** Bytes 0, 1, 2, ... in chunks of 10; `reused` counts the chunks whose memory was overwritten. */
function countingFile(size: number) {
  const counts = { chunks: 0, reused: 0 };
  async function* chunks(): AsyncGenerator<Uint8Array, void, boolean | undefined> {
    for (let at = 0; at < size; at += 10) {
      const chunk = Uint8Array.from({ length: Math.min(10, size - at) }, (_, i) => at + i);
      counts.chunks++;
      if (yield chunk) {
        chunk.fill(255);
        counts.reused++;
      }
    }
  }
  const file: OpenFile = { name: 'file', size, chunks };
  return { counts, file };
}

const range = (begin: number, end: number) => Array.from({ length: end - begin }, (_, i) => begin + i);

test('passes rows on before their memory is used again', async () => {
  const { counts, file } = countingFile(100);
  const reader = new ByteReader(file);
  const seen: number[] = [];
  await reader.rows(3, 30, (bytes, row) => {
    expect(row * 3).toBe(seen.length);
    seen.push(...bytes);
  });
  await reader.skip(10);
  await reader.expectEnd();
  expect(seen).toEqual(range(0, 90));
  expect(counts).toEqual({ chunks: 10, reused: 10 });
});

test('keeps what is taken, whole chunks and parts of several', async () => {
  const { counts, file } = countingFile(100);
  const reader = new ByteReader(file);
  const sizes = [4, 6, 25, 10, 1];
  const taken: Uint8Array[] = [];
  for (const size of sizes) taken.push(await reader.take(size));
  await reader.skip(44);
  const last = await reader.take(10);
  await reader.expectEnd();
  expect(taken.flatMap((bytes) => [...bytes])).toEqual(range(0, 46));
  expect([...last]).toEqual(range(90, 100));
  expect(counts.reused).toBe(4); // only the skipped chunks were released
});

test('lends bytes until it reads on', async () => {
  const { counts, file } = countingFile(60);
  const reader = new ByteReader(file);
  const seen: number[] = [];
  for (const size of [3, 7, 15, 25]) seen.push(...(await reader.take(size, undefined, true)));
  const kept = await reader.take(5);
  for await (const chunk of reader.rest()) seen.push(...chunk);
  expect(seen).toEqual([...range(0, 50), ...range(55, 60)]);
  expect([...kept]).toEqual(range(50, 55));
  expect(counts.reused).toBe(5);
});
