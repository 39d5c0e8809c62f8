/** Writes results as JSON lines to standard output or a new file, or as vectors to a new .npy file. */
import { once } from 'node:events';
import { extname } from 'node:path';
import { OwnFile } from '../base/own-files.js';
import { invalid, jsonLine, npyHeader, npyTypeOf, type Stored, statusOf, writing } from '../node/index.js';

/** Writes records to a new file or, without a path or for '-', to standard output. */
export class Output {
  #count = 0;
  readonly #file: OwnFile | null = null;
  readonly #isMatrix: boolean = false;
  /** The first vector's width and type, which are those of all rows of a matrix. */
  #width = 0;
  #type = '';
  #end = 0;

  /**
   * `kind`: a .npy file can only contain vectors. `print`: prints a record in human-readable form instead of as JSON on
   * standard output.
   */
  constructor(
    private readonly path: string | undefined,
    private readonly task: { kind: 'vectors' | 'records'; print?: (record: object) => void },
  ) {
    if (path === undefined || path === '-') return;
    const endings = ['.jsonl', '.ndjson', ...(task.kind === 'vectors' ? ['.npy'] : [])];
    const ending = extname(path).toLowerCase();
    if (![...endings, ''].includes(ending))
      throw invalid('--out', `a file that ends in ${endings.join(', ')}`, `'${path}'`);
    const status = statusOf(path);
    if (status)
      throw invalid('--out', 'a new file', `'${path}', which ${status.isDirectory() ? 'is a folder' : 'exists'}`);
    this.#isMatrix = ending === '.npy';
    this.#file = writing(path, () => new OwnFile(path));
  }

  /** Number of records in the file. */
  get count(): number {
    return this.#count;
  }

  /** Writes one record and, for embeddings, its vector. */
  async write(record: object, vector?: Stored): Promise<void> {
    const { print } = this.task;
    const file = this.#file;
    if (file) {
      const bytes = this.#isMatrix ? this.#rowOf(vector!) : Buffer.from(jsonLine(record, vector));
      writing(this.path!, () => file.write(bytes, this.#end), OTHER);
      this.#end += bytes.length;
      this.#count++;
    } else if (print) print(record);
    else if (!process.stdout.write(jsonLine(record, vector))) await once(process.stdout, 'drain');
  }

  /** The bytes of a row of a matrix, after those of the header if it is the first one. */
  #rowOf({ values }: Stored): Uint8Array {
    const row = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    if (this.#count > 0) return row;
    this.#width = values.length;
    this.#type = npyTypeOf(values);
    return Buffer.concat([npyHeader(0, this.#width, this.#type), row]);
  }

  /** Completes the file. Deletes it if it has no records. */
  close(): void {
    const file = this.#file;
    if (!file) return;
    const complete = () => {
      try {
        if (this.#count === 0) return file.remove();
        file.cut(this.#end); // drops an incomplete record, as on a full disk
        if (this.#isMatrix) file.write(npyHeader(this.#count, this.#width, this.#type), 0);
        file.sync(); // some systems report a full disk only here
      } finally {
        file.close();
      }
    };
    writing(this.path!, complete, OTHER);
  }
}

/** What to do after freeing space on a full disk. */
const OTHER = 'run the command again with another --out';
