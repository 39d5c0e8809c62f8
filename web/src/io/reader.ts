/** Reads pieces of requested sizes from a file's stream of chunks. */
import { allocating, invalidFile } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import type { OpenFile } from './files.js';

export class ByteReader {
  readonly file: OpenFile;
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #onBytes: ((count: number) => void) | undefined;
  #chunk = new Uint8Array();
  /**
   * Whether bytes of the current chunk are still in use after the next chunk has been read, so that it cannot be
   * released.
   */
  #kept = false;
  /** The memory of each result of `copy`, and the largest one that has been released. */
  readonly #copies = new WeakMap<Uint8Array, Uint8Array<ArrayBuffer>>();
  #spare: Uint8Array<ArrayBuffer> | null = null;

  /** `onBytes` is called with each chunk's length. */
  constructor(file: OpenFile, onBytes?: (count: number) => void) {
    this.file = file;
    this.#chunks = file.chunks()[Symbol.asyncIterator]();
    this.#onBytes = onBytes;
  }

  /** Reads the next chunk if the current one is used up. Returns false at the end of the file. */
  async #fill(): Promise<boolean> {
    while (this.#chunk.length === 0) {
      const next = await this.#chunks.next(!this.#kept);
      this.#kept = false;
      if (next.done) return false;
      this.#onBytes?.(next.value.length);
      this.#chunk = next.value as Uint8Array<ArrayBuffer>;
    }
    return true;
  }

  /** Takes 1 to `size` bytes of the current chunk. `size` > 0. */
  async #some(size: number): Promise<Uint8Array> {
    if (!(await this.#fill())) {
      const expected = `${size} more bytes of a tensor or of the header`;
      throw invalidFile(this.file.name, expected, 'the end of the file', 'The file is truncated');
    }
    const part = this.#chunk.subarray(0, size);
    this.#chunk = this.#chunk.subarray(part.length);
    return part;
  }

  /**
   * Reads the next `size` bytes. `tensor`: the tensor that they belong to, for the error message if memory runs out.
   * `borrowed`: the caller does not use them after the next read, so the chunk's memory can be reused.
   */
  async take(size: number, tensor?: { name: string; shape: number[] }, borrowed = false): Promise<Uint8Array> {
    // Allocate only after all bytes have arrived, so that a header with wrong sizes does not cost memory.
    const parts: Uint8Array[] = [];
    for (let left = size; left > 0; ) {
      const part = await this.#some(left);
      left -= part.length;
      this.#kept ||= !borrowed;
      parts.push(borrowed && left > 0 ? part.slice() : part);
    }
    if (parts.length === 1) return parts[0]!;
    const whole = allocating(tensor?.name ?? this.file.name, tensor?.shape ?? [size], size, () => new Uint8Array(size));
    const pause = makeYield(undefined);
    let at = 0;
    for (const part of parts) {
      await pause();
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }

  /**
   * Reads the next `size` bytes as a copy, so that the memory of chunks can be reused. The file's size, where it is
   * known, bounds what a header can claim, so the memory is then allocated at once.
   */
  async copy(size: number): Promise<Uint8Array> {
    if (!(size <= (this.file.size ?? -1))) return (await this.take(size, undefined, true)).slice();
    const isEnough = this.#spare !== null && this.#spare.length >= size;
    const memory = isEnough ? this.#spare! : allocating(this.file.name, [size], size, () => new Uint8Array(size));
    if (isEnough) this.#spare = null;
    const out = memory.subarray(0, size);
    this.#copies.set(out, memory);
    for (let at = 0; at < size; ) {
      const part = await this.#some(size - at);
      out.set(part, at);
      at += part.length;
    }
    return out;
  }

  /** Lets later copies reuse the memory of `bytes`, if it is a result of `copy`. */
  release(bytes: Uint8Array): void {
    const memory = this.#copies.get(bytes);
    if (memory && memory.length > (this.#spare?.length ?? 0)) this.#spare = memory;
  }

  /** Passes `count` rows to `write`, as many at a time as a chunk contains. `write` must not retain them. */
  async rows(rowBytes: number, count: number, write: (bytes: Uint8Array, firstRow: number) => void): Promise<void> {
    for (let row = 0; row < count; ) {
      const whole = Math.min(Math.floor(this.#chunk.length / rowBytes), count - row) || 1;
      write(await this.take(whole * rowBytes, undefined, true), row);
      row += whole;
    }
  }

  async skip(size: number): Promise<void> {
    for (let left = size; left > 0; ) left -= (await this.#some(left)).length;
  }

  /** The remaining chunks, with the protocol of `OpenFile.chunks`. */
  async *rest(): AsyncGenerator<Uint8Array, void, boolean | undefined> {
    while (await this.#fill()) {
      const done = yield await this.#some(Infinity);
      this.#kept ||= !done;
    }
  }

  async isAtEnd(): Promise<boolean> {
    return !(await this.#fill());
  }

  async expectEnd(): Promise<void> {
    if (!(await this.isAtEnd()))
      throw invalidFile(this.file.name, 'the end of the file', 'bytes after the last tensor');
  }

  async close(): Promise<void> {
    await this.#chunks.return?.();
    await this.file.close?.(); // if it was not read at all
  }
}
