/**
 * Recognizes bytes and Blobs from callers. `instanceof` is not used, because it is false for objects of another realm:
 * a frame, Node's vm, Jest.
 */
import type { BlobLike } from '../base/platform.js';

const isBuffer = (value: unknown): value is ArrayBufferLike =>
  /^\[object (Shared)?ArrayBuffer\]$/.test(Object.prototype.toString.call(value));

/**
 * The bytes of a buffer or a view; null for other values. Shared memory is copied, because it may change while it is
 * read and TextDecoder rejects it.
 */
export function bytesOf(value: unknown): Uint8Array<ArrayBuffer> | null {
  if (!ArrayBuffer.isView(value) && !isBuffer(value)) return null;
  const { buffer, byteOffset, byteLength } = ArrayBuffer.isView(value) ? value : new Uint8Array(value);
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  const isShared = Object.prototype.toString.call(buffer) === '[object SharedArrayBuffer]';
  return (isShared ? bytes.slice() : bytes) as Uint8Array<ArrayBuffer>;
}

/** The bytes of a view, without copying. */
export const viewBytes = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** Recognizes a Blob by its members, because polyfills and jsdom have classes of their own. */
export function isBlob(value: unknown): value is BlobLike {
  if (typeof value !== 'object' || value === null) return false;
  const { size, stream, arrayBuffer } = value as Record<string, unknown>;
  return typeof size === 'number' && typeof stream === 'function' && typeof arrayBuffer === 'function';
}
