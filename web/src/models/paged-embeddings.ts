/**
 * Reads a checkpoint from a server by ranges: first all tensors except the token embeddings, whose rows are fetched
 * later in pages (runs of consecutive rows) when tokens need them. Vocabularies are mostly ordered by frequency, so a
 * page of frequent tokens serves many texts. Servers are not trusted: each response must be the requested range of the
 * same file.
 */

import { invalid } from '../base/error.js';
import { abortable } from '../base/event-loop.js';
import { maxOf } from '../base/lists.js';
import type { SignalLike } from '../base/platform.js';
import {
  concatenate,
  fromStream,
  type ModelFolder,
  type OpenFile,
  type OpenOptions,
  type Request,
} from '../io/files.js';
import { discard, isEncoded, isTemporary, rangeOf, requestBy, resumed, tagOf } from '../io/http.js';
import type { Integrity } from '../io/integrity.js';
import { headerEnd, parseHeader } from '../io/safetensors.js';
import type { Row } from './input.js';

/** The size of the first request: large enough for most headers. */
const HEAD_BYTES = 1 << 15;
/** The size of a page in bytes. Smaller pages save bytes but cost requests; docs/loading.md has figures. */
const PAGE_BYTES = 1 << 14;
/** The maximum number of concurrent requests. */
const LANES = 8;

/**
 * Fetches the rows of tokens that have not been fetched yet. `requireLive` throws once the model has been disposed of.
 */
export type FetchRows = (rows: readonly Row[], requireLive: () => void, signal?: SignalLike) => Promise<void>;

export interface PagedFolder {
  folder: ModelFolder;
  /** Null if the whole table was read because the server does not support ranges. Call after loading. */
  fetchRows(): FetchRows | null;
}

/** Wraps a folder so that the weights at its root are read by ranges. */
export function pagedFolder(inner: ModelFolder, integrity: Integrity): PagedFolder {
  let table: Table | null = null;
  async function open(path: string, options: OpenOptions): Promise<OpenFile | null> {
    if (path.endsWith('.onnx')) {
      const file = await inner.open(path, options);
      if (!file) return null;
      await file.close?.();
      const got = `'paged' with ${path}, whose tensors can only be read in order`;
      throw invalid('fromPretrained.embeddings', "'whole' for ONNX weights", got, 'UNSUPPORTED');
    }
    if (!path.endsWith('.safetensors')) return inner.open(path, options);
    const url = inner.urlOf?.(path);
    if (!url || !/^https?:$/.test(url.protocol)) {
      const expected = "'whole' ('paged' requires a folder on a server, and no `workers`)";
      throw invalid('fromPretrained.embeddings', expected, "'paged'", 'UNSUPPORTED');
    }
    if (integrity.of(path) !== null)
      throw invalid('integrity', `no digest of '${path}', which 'paged' does not read completely`, 'a digest');
    const start = await inner.startOf?.(path);
    const request = inner.request ?? requestBy(undefined);
    const file = await RemoteFile.open(url, start?.bytes ?? new Uint8Array(), request, options.signal);
    // The server does not send ranges, or does not have the file (`inner` reports the latter), or the file has changed.
    if (!file || (start && start.tag !== file.tag)) return inner.open(path, options);
    inner.note?.(path, file.tag);
    const onTable = (found: Table) => {
      table = found;
    };
    return file.opened(onTable, options.signal);
  }
  const fetchRows = () => table && ((...args: Parameters<FetchRows>) => table!.fetchRows(...args));
  return { folder: { ...inner, open: open as ModelFolder['open'] }, fetchRows };
}

/** A remote file that is read by ranges. */
class RemoteFile {
  private constructor(
    readonly url: URL,
    readonly request: Request,
    readonly tag: string | null,
    /** null if the server does not report it. */
    readonly size: number | null,
    /** The first bytes of the file. */
    public head: Uint8Array,
  ) {}

  /** Opens a file whose first bytes are `start`; null if the server does not answer with a range. */
  static async open(url: URL, start: Uint8Array, request: Request, signal?: SignalLike): Promise<RemoteFile | null> {
    const begin = start.length;
    const response = await request(url, signal, { Range: `bytes=${begin}-${begin + HEAD_BYTES - 1}` });
    const range = rangeOf(response);
    if (response.status !== 206 || isEncoded(response) || (range && range.begin !== begin)) {
      await discard(response);
      return null;
    }
    const size = range?.size ?? null;
    const file = new RemoteFile(url, request, tagOf(response), size, new Uint8Array());
    const parts = [start];
    const end = Math.min(begin + HEAD_BYTES, size ?? Number.POSITIVE_INFINITY);
    for await (const part of file.#body(response, begin, end, signal)) parts.push(part);
    file.head = concatenate(Uint8Array, parts);
    const missing = headerEnd(file.head, url.href, size) - file.head.length;
    if (missing > 0) {
      const { length } = file.head;
      file.head = concatenate(Uint8Array, [file.head, await file.bytes(length, length + missing, signal)]);
    }
    return file;
  }

  /**
   * The file as the loader reads it. After the header and before the tensors, the loader calls `leaveOut` for the token
   * embeddings.
   */
  opened(onTable: (table: Table) => void, signal?: SignalLike): OpenFile {
    const { head, size, url } = this;
    const start = headerEnd(head, url.href, size);
    const entries = parseHeader(head.subarray(8, start), url.href, size);
    let end = start + (entries.at(-1)?.end ?? 0);
    const largest = maxOf([0, ...entries.map((entry) => entry.end - entry.begin)]);
    let left = { begin: end, end };
    const chunks = async function* (this: RemoteFile): AsyncIterable<Uint8Array> {
      yield head.subarray(0, start);
      yield* this.#range(start, left.begin, signal);
      yield* this.#range(left.end, end, signal);
    };
    return {
      name: url.href,
      size,
      expectedSize: end - largest, // without the largest tensor, normally the token embeddings
      chunks: chunks.bind(this),
      leaveOut: (entry, rows, write, last) => {
        end = start + last;
        left = { begin: start + entry.begin, end: start + entry.end };
        onTable(new Table(this, left.begin, (entry.end - entry.begin) / rows, rows, write));
      },
    };
  }

  /** Reads the bytes [begin, end). */
  async bytes(begin: number, end: number, signal?: SignalLike): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    for await (const part of this.#range(begin, end, signal)) parts.push(part);
    return concatenate(Uint8Array, parts);
  }

  /** Reads the bytes [begin, end) in chunks. Resumes a broken connection where it broke. */
  async *#range(begin: number, end: number, signal?: SignalLike): AsyncIterable<Uint8Array> {
    let at = begin;
    if (at < this.head.length && at < end) {
      const known = this.head.subarray(at, end);
      at += known.length;
      yield known;
    }
    if (at === end) return;
    const rest = async function* (this: RemoteFile): AsyncIterable<Uint8Array> {
      const response = await this.request(this.url, signal, { Range: `bytes=${at}-${end - 1}` });
      if (isTemporary(response.status)) {
        await discard(response);
        throw new Error(`status ${response.status}`);
      }
      for await (const chunk of this.#body(response, at, end, signal)) {
        at += chunk.length;
        yield chunk;
      }
    };
    yield* resumed(rest.bind(this), {
      isWhole: () => at === end,
      failed: (why, cause) =>
        invalid(
          this.url.href,
          `bytes ${begin} to ${end}`,
          `${at - begin} of these ${end - begin} bytes (${why})`,
          'NETWORK',
          { cause },
        ),
      signal,
    });
  }

  /** Checks that the response is this range of the same file, and returns its body. */
  async *#body(response: Response, begin: number, end: number, signal?: SignalLike): AsyncIterable<Uint8Array> {
    const range = rangeOf(response);
    const isSame =
      tagOf(response) === this.tag &&
      (range
        ? range.begin === begin && range.end === end && range.size === this.size
        : response.type === 'cors' && !response.headers.has('content-range')); // a header that other origins may hide
    if (response.status !== 206 || isEncoded(response) || !isSame) {
      await discard(response);
      const got = `status ${response.status} with ${response.headers.get('content-range') ?? 'no Content-Range'}`;
      const changed = tagOf(response) === this.tag ? '' : ' of another version';
      throw invalid(this.url.href, `bytes ${begin} to ${end} of the file as it was opened`, got + changed, 'NETWORK');
    }
    let at = begin;
    if (response.body)
      for await (const chunk of fromStream(response.body)) {
        signal?.throwIfAborted();
        at += chunk.length;
        if (at > end) throw invalid(this.url.href, `${end - begin} bytes`, `at least ${at - begin}`, 'NETWORK');
        yield chunk;
      }
  }
}

/** The token embeddings, whose rows are fetched in pages and written to WebAssembly memory. */
class Table {
  /** Pages that have been fetched or are being fetched. */
  readonly #pages = new Map<number, Promise<void>>();
  readonly #pageRows: number;
  /** The last request of each lane. The requests of a lane run one after the other. */
  readonly #lanes: Promise<void>[] = [];
  #requests = 0;

  /** `begin`: the offset of the table in the file, in bytes. `write` writes rows to WebAssembly memory. */
  constructor(
    readonly file: RemoteFile,
    readonly begin: number,
    readonly rowBytes: number,
    readonly rows: number,
    readonly write: (bytes: Uint8Array, firstRow: number) => void,
  ) {
    this.#pageRows = Math.max(1, Math.floor(PAGE_BYTES / rowBytes));
  }

  async fetchRows(texts: readonly Row[], requireLive: () => void, signal?: SignalLike): Promise<void> {
    signal?.throwIfAborted();
    const needed = new Set<number>();
    for (const { ids } of texts)
      for (const id of ids) if (id >= 0 && id < this.rows) needed.add(Math.floor(id / this.#pageRows)); // others are rejected later
    const missing = [...needed].filter((page) => !this.#pages.has(page)).sort((a, b) => a - b);
    // Adjacent pages share a request.
    for (let i = 0; i < missing.length; ) {
      const first = missing[i]!;
      let count = 1;
      while (missing[i + count] === first + count) count++;
      i += count;
      const pages = Array.from({ length: count }, (_, n) => first + n);
      const lane = this.#requests++ % LANES;
      const pending = (this.#lanes[lane] ?? Promise.resolve()).then(() => this.#fetch(first, count, requireLive));
      this.#lanes[lane] = pending.catch(() => {});
      for (const page of pages) this.#pages.set(page, pending);
      // After a failure, the next call that needs these pages retries.
      pending.catch(() => {
        for (const page of pages) this.#pages.delete(page);
      });
    }
    const pending = Promise.all([...needed].map((page) => this.#pages.get(page)));
    pending.catch(() => {}); // avoids unhandled rejections if no caller waits any longer
    await abortable(pending, signal);
  }

  /** Does not take the call's signal, because other calls may wait for the same pages. */
  async #fetch(firstPage: number, pages: number, requireLive: () => void): Promise<void> {
    const first = firstPage * this.#pageRows;
    const end = Math.min(this.rows, first + pages * this.#pageRows);
    const bytes = await this.file.bytes(this.begin + first * this.rowBytes, this.begin + end * this.rowBytes);
    requireLive();
    this.write(bytes, first);
  }
}
