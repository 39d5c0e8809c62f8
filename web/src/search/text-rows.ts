/**
 * The texts of an index with their ids and metadata, one per row of its vectors. Removed texts leave unused rows, so that
 * removing or replacing a text does not move the others. Unused rows are removed together once they are many.
 */
import { describe, guarded, invalid } from '../base/error.js';
import { legal, listOf, optional, type Reader, readOptions, type Schema, text } from '../base/options.js';
import { hasRow, rankOf, ranksOf, rowsIn, withRows } from './row-bits.js';
import type { Store } from './vector-store.js';

/** An integer from 0 to 2^53 - 1, or a string. */
export type TextId = number | string;

/** A text to store, with its id (default: an integer that is assigned) and what to store with it. */
export interface TextItem<Metadata = unknown> {
  /** The id of the text. Default: the next free integer. */
  id?: TextId | undefined;
  /** The text. */
  text: string;
  /** Anything that JSON can represent. */
  metadata?: Metadata | undefined;
}

/** A text with its position among the texts of an index, its id and what was stored with it. */
export interface IndexedText<Metadata = unknown> {
  /** The current index of the text in `texts`. It changes when texts before it are removed. */
  index: number;
  /** The text's id, which never changes. */
  id: TextId;
  text: string;
  /** A copy of what was stored with the text; absent if nothing was. */
  metadata?: Metadata | undefined;
}

/** A text of an index with its vector, as it is stored: rounded and, for the cosine, scaled to unit norm. */
export interface IndexEntry<Metadata = unknown> extends IndexedText<Metadata> {
  /** [D]. */
  vector: Float32Array;
}

/** A function that chooses texts. */
export type TextFilter<Metadata = unknown> = (text: IndexedText<Metadata>) => boolean;

/** The largest share of unused rows, above which they are removed: 1 / 4. */
const UNUSED = 4;

export class TextRows {
  readonly #texts: string[];
  /** The id of each row; null while they equal the row numbers. */
  #ids: TextId[] | null;
  /** What was stored with each text, undefined for nothing; null if no text has anything. */
  #metadata: unknown[] | null;
  #nextId: number;
  #size: number;
  /** A bitmap of the rows in use; null: all. */
  #used: Uint32Array | null = null;
  /** The number of used rows before each word of `#used`, once it has been needed. */
  #ranks: Uint32Array | null = null;
  /** Maps ids that differ from their row numbers to rows, once it has been needed. May have entries of unused rows. */
  #rowOf: Map<TextId, number> | null = null;
  #version = 0;
  /** The texts as callers get them, once they have been needed. */
  #listed: readonly string[] | null = null;

  /** `ids`: null if they equal the row numbers. */
  constructor(
    texts: string[] = [],
    ids: TextId[] | null = null,
    metadata: unknown[] | null = null,
    nextId: number = texts.length,
  ) {
    this.#texts = texts;
    this.#ids = ids;
    this.#metadata = metadata;
    this.#size = texts.length;
    this.#nextId = nextId;
    for (const id of ids ?? []) this.#nextId = nextAfter(this.#nextId, id);
  }

  /** The number of texts. */
  get size(): number {
    return this.#size;
  }

  /** Increases when texts are added or removed. */
  get version(): number {
    return this.#version;
  }

  /** The number of rows, with the unused ones. */
  get count(): number {
    return this.#texts.length;
  }

  /** The next automatic id, greater than all ids so far. */
  get nextId(): number {
    return this.#nextId;
  }

  /** A bitmap of the rows in use: row n is bit n % 32 of word n >> 5. null: all rows. */
  get used(): Uint32Array | null {
    return this.#used?.subarray(0, Math.ceil(this.#texts.length / 32)) ?? null;
  }

  /** The rows in use, in ascending order; null: all rows. */
  usedRows(): Uint32Array | null {
    return this.#used && rowsIn(this.#used);
  }

  /** The rows in use, with their positions among the texts. */
  *eachRow(): Generator<[position: number, row: number], void> {
    const used = this.usedRows();
    for (let n = 0; n < this.#size; n++) yield [n, used?.[n] ?? n];
  }

  /** The texts in the order of their rows. Frozen, because callers must not change the index. */
  get texts(): readonly string[] {
    this.#listed ??= Object.freeze(this.#inUse(this.#texts));
    return this.#listed;
  }

  /** The ids in the order of their rows; null if they are 0, 1, 2 and so on. */
  ids(): TextId[] | null {
    const rows = this.usedRows();
    const ids = rows ? Array.from(rows, (row) => this.#idOf(row)) : this.#ids;
    return ids?.some((id, i) => id !== i) ? ids : null;
  }

  /** What was stored with each text, undefined for nothing; null if no text has anything. */
  metadata(): unknown[] | null {
    const values = this.#metadata && this.#inUse(this.#metadata);
    return values?.some((value) => value !== undefined) ? values : null;
  }

  /** Copies the entries of the rows in use. */
  #inUse<T>(list: readonly T[]): T[] {
    const rows = this.usedRows();
    return rows ? Array.from(rows, (row) => list[row]!) : list.slice();
  }

  #idOf(row: number): TextId {
    return this.#ids?.[row] ?? row;
  }

  #isUsed(row: number): boolean {
    return row >= 0 && row < this.#texts.length && (this.#used === null || hasRow(this.#used, row));
  }

  /** The row of a text; -1 if no text has this id. */
  rowOf(id: TextId): number {
    if (typeof id === 'number' && this.#isUsed(id) && this.#idOf(id) === id) return id;
    const ids = this.#ids;
    if (!ids) return -1;
    if (!this.#rowOf) {
      this.#rowOf = new Map();
      for (let row = 0; row < ids.length; row++)
        if (ids[row] !== row && this.#isUsed(row)) this.#rowOf.set(ids[row]!, row);
    }
    const row = this.#rowOf.get(id);
    return row !== undefined && this.#isUsed(row) ? row : -1;
  }

  /** The id and the text of a row. */
  textAt(row: number): { id: TextId; text: string } {
    return { id: this.#idOf(row), text: this.#texts[row]! };
  }

  /** The text of a row, as hits and filters have it. */
  at(row: number): IndexedText {
    const index = this.#used ? this.#rank(row) : row;
    const [id, text] = [this.#idOf(row), this.#texts[row]!];
    const value = this.#metadata?.[row];
    return value === undefined ? { index, id, text } : { index, id, text, metadata: copied(value) };
  }

  /** Stores a value, copied before, with the text of a row. */
  setMetadata(row: number, value: unknown): void {
    this.#metadata ??= new Array<unknown>(this.#texts.length).fill(undefined);
    this.#metadata[row] = value;
  }

  #rank(row: number): number {
    this.#ranks ??= ranksOf(this.#used!);
    return rankOf(this.#used!, this.#ranks, row);
  }

  /**
   * The ids of texts to add: those in `wanted`, and for undefined the next integers.
   *
   * @throws HeedError for ids that are given twice or, unless `replace` is true, are in use
   */
  idsFor(wanted: readonly (TextId | undefined)[] | null, count: number, replace: boolean): TextId[] {
    if (wanted && wanted.length !== count) throw invalid('ids', `${count}, one per text`, `${wanted.length}`);
    let next = this.#nextId;
    const seen = new Set<TextId>();
    wanted?.forEach((id, i) => {
      if (id === undefined) return;
      if (seen.has(id)) throw invalid(`ids[${i}]`, 'an id that is given only once', describe(id));
      if (!replace && this.rowOf(id) >= 0)
        throw invalid(`ids[${i}]`, 'an id that is not in use', describe(id), 'INVALID_ARGUMENT', {
          hint: 'replace: true replaces the text with this id',
        });
      seen.add(id);
      next = nextAfter(next, id);
    });
    return Array.from({ length: count }, (_, i) => {
      const id = wanted?.[i] ?? next++;
      if (typeof id === 'string' || id <= Number.MAX_SAFE_INTEGER) return id;
      throw invalid('ids', 'an id for each text, as the largest possible id is in use', 'undefined');
    });
  }

  /** Adds texts with ids that are not in use. `metadata`: null if there are none. */
  append(texts: readonly string[], ids: readonly TextId[], metadata: readonly unknown[] | null): void {
    const first = this.#texts.length;
    if (!this.#ids && ids.some((id, i) => id !== first + i)) {
      this.#ids = [];
      for (let row = 0; row < first; row++) this.#ids.push(row);
    }
    if (metadata) this.#metadata ??= new Array<unknown>(first).fill(undefined);
    for (let i = 0; i < texts.length; i++) {
      const id = ids[i]!;
      this.#texts.push(texts[i]!);
      this.#ids?.push(id);
      this.#metadata?.push(metadata?.[i]);
      if (id !== first + i) this.#rowOf?.set(id, first + i);
      this.#nextId = nextAfter(this.#nextId, id);
    }
    if (this.#used) this.#used = withRows(this.#used, first, this.#texts.length);
    this.#size += texts.length;
    this.#changed();
  }

  /** Removes the texts of `rows`, which remain unused. */
  remove(rows: readonly number[]): void {
    if (rows.length === 0) return;
    this.#used ??= withRows(new Uint32Array(), 0, this.#texts.length);
    for (const row of rows) {
      this.#used[row >> 5]! &= ~(1 << (row & 31));
      // Frees the memory of the text.
      this.#texts[row] = '';
      if (this.#metadata) this.#metadata[row] = undefined;
    }
    this.#size -= rows.length;
    this.#changed();
  }

  /**
   * Removes the unused rows, here and in the store of vectors, if they are more than a quarter of all. If that fails, they
   * only take memory, and a later call tries again.
   */
  async removeUnused(store: Store): Promise<void> {
    const [texts, ids] = [this.#texts, this.#ids];
    if (UNUSED * (texts.length - this.#size) <= texts.length) return;
    const kept = this.usedRows()!;
    try {
      // Waits for a worker only: without one, no search may come between the store's change and that of the texts.
      const keeping = store.keep(kept);
      if (keeping) await keeping;
    } catch {
      return;
    }
    const isPrefix = kept.length === 0 || kept[kept.length - 1] === kept.length - 1;
    if (ids) keepEntries(ids, kept);
    else if (!isPrefix) this.#ids = Array.from(kept);
    keepEntries(texts, kept);
    if (this.#metadata) keepEntries(this.#metadata, kept);
    if (kept.length === 0) this.#metadata = null;
    this.#used = null;
    this.#rowOf = null;
    this.#changed();
  }

  #changed(): void {
    this.#version++;
    this.#ranks = null;
    this.#listed = null;
  }
}

const nextAfter = (next: number, id: TextId) => (typeof id === 'number' ? Math.max(next, id + 1) : next);

/** Moves the entries `kept`, in ascending order, to the front and removes the others. */
function keepEntries(list: unknown[], kept: Uint32Array): void {
  kept.forEach((row, at) => {
    list[at] = list[row];
  });
  list.length = kept.length;
}

/** The maximum depth of metadata, so that copying a value does not exceed the call stack. */
const MAX_DEPTH = 500;

/** Copies a value that JSON can represent, so that callers cannot change the one in the index. */
function copied(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(copied);
  const copy: Record<string, unknown> = { ...value };
  // Faster than a loop over Object.keys: filters copy the metadata of all texts.
  for (const key in copy) {
    const entry = copy[key];
    if (typeof entry === 'object' && Object.hasOwn(copy, key)) copy[key] = copied(entry);
  }
  return copy;
}

const isDeeper = (value: unknown, depth: number): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (depth === 0 || Object.values(value).some((entry) => isDeeper(entry, depth - 1)));

/** Parses a value of a text. @throws SyntaxError or RangeError */
export function parsedMetadata(json: string): unknown {
  const value: unknown = JSON.parse(json);
  if (json.length > 2 * MAX_DEPTH && isDeeper(value, MAX_DEPTH)) throw new RangeError(`more than ${MAX_DEPTH} levels`);
  return value;
}

/** Copies the values that a caller gives with texts, as JSON would store them. */
export const metadataOption: Reader<unknown[]> = (value, name) => {
  if (!Array.isArray(value)) throw invalid(name, 'an array with a value per text', describe(value));
  return Array.from(value, (each, i) => metadataValue(each, `${name}[${i}]`));
};

/** Copies a value that a caller gives with a text, as JSON would store it. */
export const metadataValue: Reader<unknown> = (value, name) => {
  const json = guarded(name, () => JSON.stringify(value));
  if (json === undefined) throw invalid(name, 'a value that JSON can represent', describe(value));
  try {
    return parsedMetadata(json);
  } catch {
    throw invalid(name, `a value of at most ${MAX_DEPTH} levels`, describe(value));
  }
};

export const isId = (value: unknown): value is TextId =>
  typeof value === 'string' || (Number.isSafeInteger(value) && (value as number) >= 0);

export const idOption = legal<TextId>('an integer from 0 to 2^53 - 1, or a string', isId);

const itemSchema = {
  id: optional(idOption, undefined),
  text,
  metadata: (value, name) => (value === undefined ? undefined : metadataValue(value, name)),
} satisfies Schema<TextItem>;

/** Texts with their ids and metadata; null if no text has any, undefined in a list for texts without. */
export interface Items {
  texts: string[];
  ids: (TextId | undefined)[] | null;
  metadata: unknown[] | null;
}

/** Reads texts, which are strings or `TextItem`s. `lists`: ids and metadata that are given as lists instead. */
export function readItems(
  given: unknown,
  lists: { ids?: TextId[] | null | undefined; metadata: unknown[] | null },
): Items {
  const own: { ids: TextId[]; metadata: unknown[] } = { ids: [], metadata: [] };
  const texts = listOf((item) => item, 'an array of texts')(given, 'texts').map((item, i) => {
    const name = `texts[${i}]`;
    if (typeof item === 'string') return item;
    if (typeof item !== 'object') throw invalid(name, 'a string or { id, text, metadata }', describe(item));
    const read = readOptions(name, itemSchema, item);
    if (read.id !== undefined) own.ids[i] = read.id;
    if (read.metadata !== undefined) own.metadata[i] = read.metadata;
    return read.text;
  });
  const merged = <K extends 'ids' | 'metadata'>(name: K): Items[K] => {
    const list = (lists[name] ?? null) as Items[K];
    if (own[name].length === 0) return list;
    if (list) throw invalid(name, `no list, as texts have their own ${name}`, describe(list));
    return Array.from(texts, (_, i) => own[name][i]) as Items[K];
  };
  const metadata = merged('metadata');
  if (metadata && metadata.length !== texts.length)
    throw invalid('metadata', `${texts.length}, one per text`, `${metadata.length}`);
  return { texts, ids: merged('ids'), metadata };
}
