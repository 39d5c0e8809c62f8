/** Files in memory: bytes, text, Blobs and Files. */
import { describe, HeedError, invalid, invalidFile } from '../base/error.js';
import type { BlobLike } from '../base/platform.js';
import { bytesOf, isBlob } from './bytes.js';
import { fromStream, type OpenFile, unreadable } from './files.js';

const CHUNK_BYTES = 1 << 20;

export function memoryFile(name: string, content: unknown): OpenFile {
  if (isBlob(content)) return { name, size: content.size, chunks: () => blobChunks(name, content) };
  const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : bytesOf(content);
  if (!bytes) throw invalid(`source['${name}']`, 'a Uint8Array, an ArrayBuffer or a Blob', describe(content));
  return {
    name,
    size: bytes.length,
    async *chunks() {
      for (let at = 0; at < bytes.length; at += CHUNK_BYTES) yield bytes.subarray(at, at + CHUNK_BYTES);
    },
  };
}

async function* blobChunks(name: string, blob: BlobLike): AsyncIterable<Uint8Array> {
  try {
    for await (const chunk of fromStream(blob.stream() as ReadableStream<unknown>)) {
      const bytes = bytesOf(chunk);
      if (!bytes) throw invalidFile(name, 'a Blob whose stream has bytes', describe(chunk));
      yield bytes;
    }
  } catch (cause) {
    throw cause instanceof HeedError ? cause : unreadable(name, cause);
  }
}
