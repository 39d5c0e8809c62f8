/** The files of a model, read once for all workers of a pool. */
import type { ModelFolder, OpenFile } from '../models/source.js';
import type { SignalLike } from '../platform.js';
import type { FileRequest } from './protocol.js';

/** Each worker opens the same files and reads each of their chunks once; a chunk is held until all of them have it. */
export class FileServer {
  private readonly files = new Map<string, Promise<SharedFile | null>>();

  constructor(
    private readonly folder: ModelFolder,
    private readonly readers: number,
    private readonly signal: SignalLike,
  ) {}

  async answer({ path, nth, required, chunk }: FileRequest): Promise<unknown> {
    const key = `${nth} ${path}`;
    let opening = this.files.get(key);
    if (!opening) {
      opening = (this.folder.open as (...args: unknown[]) => Promise<OpenFile | null>)(path, {
        required,
        signal: this.signal,
      }).then((file) => file && new SharedFile(file, this.readers));
      this.files.set(key, opening);
    }
    const file = await opening;
    return chunk === undefined ? file && { name: file.name, size: file.size } : file!.chunk(chunk);
  }

  /** The same for the same files, read by the same loader. It notices changes, not attacks: those are what `integrity` is for. */
  async fingerprint(): Promise<string> {
    const files = [...this.files].map(async ([key, opening]) => `${key} ${(await opening)?.hash}`);
    return (await Promise.all(files)).sort().join();
  }

  /** Stops reading. */
  close(): void {
    for (const opening of this.files.values()) opening.then((file) => file?.close()).catch(() => {});
  }
}

class SharedFile {
  readonly name: string;
  readonly size: number | null;
  /** FNV-1a of what was read so far. */
  hash = 0x811c9dc5;
  private readonly chunks: AsyncIterator<Uint8Array>;
  private readonly held = new Map<number, { next: Promise<IteratorResult<Uint8Array>>; readers: number }>();

  constructor(
    file: OpenFile,
    private readonly readers: number,
  ) {
    this.name = file.name;
    this.size = file.size;
    this.chunks = file.chunks()[Symbol.asyncIterator]();
  }

  /** A copy of the chunk, to be transferred; null after the last one. */
  async chunk(index: number): Promise<Uint8Array<ArrayBuffer> | null> {
    const held = this.held.get(index) ?? { next: this.next(), readers: this.readers };
    this.held.set(index, held);
    if (--held.readers === 0) this.held.delete(index);
    const { done, value } = await held.next;
    return done ? null : new Uint8Array(value);
  }

  private async next(): Promise<IteratorResult<Uint8Array>> {
    const result = await this.chunks.next();
    if (!result.done) for (const byte of result.value) this.hash = Math.imul(this.hash ^ byte, 0x01000193);
    return result;
  }

  async close(): Promise<void> {
    await this.chunks.return?.();
  }
}
