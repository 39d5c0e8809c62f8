/**
 * Remembers the files of a folder that a model was read from, so that a later reading can tell whether they have been
 * replaced. This detects changes, but not attacks: `integrity` is for those.
 */
import { invalidFile } from '../base/error.js';
import { FNV_START, fnv } from '../base/fnv.js';
import type { ModelFolder, OpenFile } from './files.js';

/**
 * The number of bytes at the start of a file that all count: settings and small tokenizers. They take some milliseconds,
 * because the engine has not optimized the loop when the first model is loaded.
 */
const WHOLE = 2 ** 19;
/** After them, every 61st byte counts. The number is odd, so that all bytes of the numbers of a tensor occur. */
const STRIDE = 61;

/** The hash of a file, from its chunks in order. */
class Print {
  #hash = FNV_START;
  #size = 0;

  add(chunk: Uint8Array): void {
    const whole = Math.max(0, Math.min(chunk.length, WHOLE - this.#size));
    this.#hash = fnv(chunk.subarray(0, whole), this.#hash);
    const skipped = (STRIDE - ((this.#size + whole) % STRIDE)) % STRIDE;
    this.#hash = fnv(chunk, this.#hash, { first: whole + skipped, step: STRIDE });
    this.#size += chunk.length;
  }

  get size(): number {
    return this.#size;
  }

  toString(): string {
    return `${this.#size} ${this.#hash}`;
  }
}

/** Calls `onEnd` with the hash of a file once all of it has been read. */
function watch(file: OpenFile, onEnd: (print: string) => void): OpenFile {
  const { chunks, leaveOut } = file;
  let isWhole = true;
  if (leaveOut)
    file.leaveOut = (...args) => {
      isWhole = false;
      leaveOut.apply(file, args);
    };
  file.chunks = () => {
    const iterator = chunks.call(file)[Symbol.asyncIterator]();
    const print = new Print();
    let isReported = false;
    const report = () => {
      if (isWhole && !isReported) onEnd(String(print));
      isReported = true;
    };
    const watched: AsyncIterator<Uint8Array> = {
      async next(...released) {
        const result = await iterator.next(...released);
        if (result.done) report();
        else {
          print.add(result.value);
          if (print.size === file.size) report();
        }
        return result;
      },
      return: async (value) => (await iterator.return?.(value)) ?? { done: true, value },
    };
    return { [Symbol.asyncIterator]: () => watched };
  };
  return file;
}

export class FileRecord {
  /** The hashes that a file may have: that of loading, and those that `save` has written. */
  readonly #prints = new Map<string, Set<string>>();

  /** The folder, whose files are recorded as they are read. */
  recording(folder: ModelFolder): ModelFolder {
    return this.#watching(folder, (path, _, print) => this.#prints.set(path, new Set([print])));
  }

  /** Also accepts these files, which were saved from the model, perhaps to the folder that it was loaded from. */
  accept(files: Readonly<Record<string, Uint8Array>>): void {
    for (const [path, bytes] of Object.entries(files)) {
      const print = new Print();
      print.add(bytes);
      this.#prints.get(path)?.add(String(print));
    }
  }

  /** The folder, whose files must be those that were recorded. Reading another one throws. */
  requiring(folder: ModelFolder): ModelFolder {
    return this.#watching(folder, (path, name, print) => {
      if (this.#prints.get(path)?.has(print) ?? true) return;
      throw invalidFile(name, 'the file that the model was loaded from', 'another one', 'Load the model again');
    });
  }

  #watching(folder: ModelFolder, onEnd: (path: string, name: string, print: string) => void): ModelFolder {
    const open = async (path: string, options: never) => {
      const file = (await folder.open(path, options)) as OpenFile | null;
      return file && watch(file, (print) => onEnd(path, file.name, print));
    };
    return { ...folder, open: open as ModelFolder['open'] };
  }
}

/** The files that models were loaded from, for `save`. */
export const filesOf = new WeakMap<object, FileRecord>();
