/** Files in memory: bytes, text, Blobs and Files. */
import { describe, invalid } from '../error.js';
import { type OpenFile, streamChunks } from './files.js';

const CHUNK_BYTES = 1 << 20;

export function memoryFile(name: string, content: unknown): OpenFile {
  if (content instanceof Blob) return { name, size: content.size, chunks: () => streamChunks(name, content.stream()) };
  let bytes: Uint8Array;
  if (typeof content === 'string') bytes = new TextEncoder().encode(content);
  else if (ArrayBuffer.isView(content)) bytes = new Uint8Array(content.buffer, content.byteOffset, content.byteLength);
  else if (
    content instanceof ArrayBuffer ||
    (typeof SharedArrayBuffer !== 'undefined' && content instanceof SharedArrayBuffer)
  )
    bytes = new Uint8Array(content);
  else throw invalid(`source['${name}']`, 'a Uint8Array, an ArrayBuffer or a Blob', describe(content));
  // TextDecoder rejects shared memory, which moreover may change while it is read.
  if (!(bytes.buffer instanceof ArrayBuffer)) bytes = bytes.slice();
  return {
    name,
    size: bytes.length,
    async *chunks() {
      for (let at = 0; at < bytes.length; at += CHUNK_BYTES) yield bytes.subarray(at, at + CHUNK_BYTES);
    },
  };
}
