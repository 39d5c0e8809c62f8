/** Recognizes bytes and Blobs of callers; not by `instanceof`, which is false for objects of another realm, such as a frame, Node's vm or Jest. */
import type { BlobLike } from '../base/platform.js';

const isBuffer = (value: unknown): value is ArrayBufferLike =>
  /^\[object (Shared)?ArrayBuffer\]$/.test(Object.prototype.toString.call(value));

/** The bytes of a buffer or of a view of one; null for other values. Shared bytes are copied: they may change while they are read, and TextDecoder rejects them. */
export function bytesOf(value: unknown): Uint8Array<ArrayBuffer> | null {
  if (!ArrayBuffer.isView(value) && !isBuffer(value)) return null;
  const { buffer, byteOffset, byteLength } = ArrayBuffer.isView(value) ? value : new Uint8Array(value);
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  const isShared = Object.prototype.toString.call(buffer) === '[object SharedArrayBuffer]';
  return (isShared ? bytes.slice() : bytes) as Uint8Array<ArrayBuffer>;
}

/** By its members, as polyfills and jsdom have Blobs of their own. */
export function isBlob(value: unknown): value is BlobLike {
  if (typeof value !== 'object' || value === null) return false;
  const { size, stream, arrayBuffer } = value as Record<string, unknown>;
  return typeof size === 'number' && typeof stream === 'function' && typeof arrayBuffer === 'function';
}
