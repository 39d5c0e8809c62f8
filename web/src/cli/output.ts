/** Writes results as JSON lines to standard output or a new file, or as vectors to a new .npy file. */
import { once } from 'node:events';
import { extname } from 'node:path';
import { OwnFile } from '../base/own-files.js';
import { invalid, jsonLine, npyHeader, npyTypeOf, type Stored, statusOf, writing } from '../node/index.js';

export interface Output {
  /** Number of records that have been written. */
  readonly count: number;
  /** Writes one record and, for embeddings, its vector. */
  write(record: object, vector?: Stored): Promise<void>;
  /** Completes the file. Deletes it if it has no records. */
  close(): void;
}

/**
 * Opens `path`, or standard output. A .npy file can only contain vectors (`kind`). `print`: prints a record in
 * human-readable form instead of as JSON on standard output.
 */
export function openOutput(
  path: string | undefined,
  { kind, print }: { kind: 'vectors' | 'records'; print?: (record: object) => void },
): Output {
  if (path === undefined || path === '-') return standardOutput(print);
  const endings = ['.jsonl', '.ndjson', ...(kind === 'vectors' ? ['.npy'] : [])];
  const ending = extname(path).toLowerCase();
  if (![...endings, ''].includes(ending))
    throw invalid('--out', `a file that ends in ${endings.join(', ')}`, `'${path}'`);
  const status = statusOf(path);
  if (status)
    throw invalid('--out', 'a new file', `'${path}', which ${status.isDirectory() ? 'is a folder' : 'exists'}`);
  return new OutputFile(path, ending === '.npy');
}

function standardOutput(print?: (record: object) => void): Output {
  return {
    count: 0,
    async write(record, vector) {
      if (print) print(record);
      else if (!process.stdout.write(jsonLine(record, vector))) await once(process.stdout, 'drain');
    },
    close() {},
  };
}

class OutputFile implements Output {
  readonly #path: string;
  readonly #file: OwnFile;
  readonly #isMatrix: boolean;
  /** The first vector's width and type, which are those of all rows of a matrix. */
  #width = 0;
  #type = '';
  #count = 0;
  #end = 0;

  constructor(path: string, isMatrix: boolean) {
    this.#path = path;
    this.#isMatrix = isMatrix;
    this.#file = writing(path, () => new OwnFile(path));
  }

  get count(): number {
    return this.#count;
  }

  async write(record: object, vector?: Stored): Promise<void> {
    const bytes = this.#isMatrix ? this.#rowOf(vector!) : Buffer.from(jsonLine(record, vector));
    writing(this.#path, () => this.#file.write(bytes, this.#end), OTHER);
    this.#end += bytes.length;
    this.#count++;
  }

  /** The bytes of a row of a matrix, after those of the header if it is the first one. */
  #rowOf({ values }: Stored): Uint8Array {
    const row = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    if (this.#count > 0) return row;
    this.#width = values.length;
    this.#type = npyTypeOf(values);
    return Buffer.concat([npyHeader(0, this.#width, this.#type), row]);
  }

  close(): void {
    writing(
      this.#path,
      () => {
        try {
          if (this.#count === 0) return this.#file.remove();
          this.#file.cut(this.#end); // drops an incomplete record, as on a full disk
          if (this.#isMatrix) this.#file.write(npyHeader(this.#count, this.#width, this.#type), 0);
          this.#file.sync(); // some systems report a full disk only here
        } finally {
          this.#file.close();
        }
      },
      OTHER,
    );
  }
}

/** What to do after freeing space on a full disk. */
const OTHER = 'run the command again with another --out';
