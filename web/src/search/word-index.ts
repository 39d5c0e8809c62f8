/**
 * The words of an index's texts. MiniSearch ranks the texts by BM25+ (Lv and Zhai, "Lower-bounding term frequency
 * normalization", 2011). Imported by the first hybrid search.
 */

import MiniSearch from 'minisearch';
import { append } from '../base/lists.js';
import type { TextId, TextRows } from './text-rows.js';

/** The number of texts to read between turns of the event loop, if they are due: at most some milliseconds' work. */
const TEXTS_PER_STEP = 64;

/** Languages that write words without spaces between them. */
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]/u;

/** Letters and digits, also if joined by the signs that occur in identifiers: 'ISO-9001', 'user_id', 'a.b/c'. */
const RUN = /[\p{L}\p{M}\p{N}]+(?:[_\-./:@#+'’][\p{L}\p{M}\p{N}]+)*/gu;
const PART = /[\p{L}\p{M}\p{N}]+/gu;
/** Where a part like 'getUserID2' has another one: before a capital that begins a word, and between letters and digits. */
const INNER = /(?<=\p{Ll})(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})|(?<=\p{L})(?=\p{N})|(?<=\p{N})(?=\p{L})/u;

/** Letters without case, width and accents. */
const folded = (text: string) =>
  text
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .toLowerCase();

/**
 * The words of a text: its runs of letters and digits, the parts of identifiers beside the identifiers themselves, and
 * pairs of characters where words are not separated by spaces.
 */
export function wordsOf(text: string): string[] {
  const words: string[] = [];
  for (const [run] of text.matchAll(RUN)) {
    const parts = (run.match(PART) ?? []).flatMap((part) => [part, ...(INNER.test(part) ? part.split(INNER) : [])]);
    for (const part of parts[0] === run ? parts : [run, ...parts]) {
      if (UNSPACED.test(part)) append(words, pairsOf(folded(part)));
      else words.push(folded(part));
    }
  }
  return words.filter((word) => word !== ''); // a mark alone
}

function pairsOf(part: string): string[] {
  const characters = [...part];
  return characters.length === 1 ? characters : characters.slice(1).map((each, i) => characters[i]! + each);
}

/** `count`: the number of texts. */
function isPosting(value: unknown, count: number): value is Posting {
  if (!Array.isArray(value) || value.length < 3 || value.length % 2 === 0) return false;
  const [word, ...occurrences] = value as unknown[];
  const isLegal = (each: unknown, i: number) => {
    const n = each as number;
    return Number.isSafeInteger(n) && (i % 2 === 0 ? 0 <= n && n < count : n >= 1);
  };
  return typeof word === 'string' && word !== '' && occurrences.every(isLegal);
}

const SETTINGS = { fields: ['text'], tokenize: wordsOf, processTerm: (word: string) => word, logger: () => {} };

type Words = MiniSearch<{ id: TextId; text: string }>;

/** A word, followed by a position among the texts and the number of its occurrences there, for each text that has it. */
export type Posting = [word: string, ...occurrences: number[]];

export class WordIndex {
  readonly #words: Words;
  /** The texts whose words are in `#words`. */
  readonly #texts: Map<TextId, string>;
  /** The version of the rows whose texts these are. */
  #version = -1;

  // Private, so that the declarations of the package do not refer to MiniSearch's.
  private constructor(words: Words, texts: Map<TextId, string>) {
    this.#words = words;
    this.#texts = texts;
  }

  static empty(): WordIndex {
    return new WordIndex(new MiniSearch(SETTINGS), new Map());
  }

  /** Reads what `postings` returned for the same texts; null if it is not of that form. */
  static async from(postings: readonly unknown[], rows: TextRows): Promise<WordIndex | null> {
    const texts = Array.from(rows.eachRow(), ([, row]) => rows.textAt(row));
    const lengths = texts.map(() => 0);
    const index: [string, Record<string, Record<string, number>>][] = [];
    for (const posting of postings) {
      if (!isPosting(posting, texts.length)) return null;
      const [word, ...occurrences] = posting;
      const counts: Record<string, number> = {};
      for (let i = 0; i < occurrences.length; i += 2) {
        const position = occurrences[i]!;
        if (Object.hasOwn(counts, position)) return null;
        counts[position] = occurrences[i + 1]!;
        lengths[position]!++;
      }
      index.push([word, { 0: counts }]);
    }
    const words = await MiniSearch.loadJSAsync<{ id: TextId; text: string }>(
      {
        documentCount: texts.length,
        nextId: texts.length,
        documentIds: Object.fromEntries(texts.map(({ id }, n) => [n, id])),
        fieldIds: { text: 0 },
        fieldLength: Object.fromEntries(lengths.map((length, n) => [n, [length]])),
        averageFieldLength: [lengths.reduce((sum, length) => sum + length, 0) / (texts.length || 1)],
        storedFields: {},
        dirtCount: 0,
        index,
        serializationVersion: 2,
      },
      SETTINGS,
    );
    return new WordIndex(words, new Map(texts.map(({ id, text }) => [id, text])));
  }

  /** The words of the texts, after `update`: their number, and a function that returns the n-th. */
  postings(rows: TextRows): { count: number; at(n: number): Posting } {
    const positions = new Map<TextId, number>();
    for (const [n, row] of rows.eachRow()) positions.set(rows.textAt(row).id, n);
    const { index, documentIds } = this.#words.toJSON();
    const at = (n: number): Posting => {
      const [word, { 0: counts }] = index[n]!;
      const occurrences = Object.entries(counts as Record<string, number>);
      return [word, ...occurrences.flatMap(([document, count]) => [positions.get(documentIds[document])!, count])];
    };
    return { count: index.length, at };
  }

  /** Reads the texts that are new and forgets those that are gone. When it returns, the words are those of `rows`. */
  async update(rows: TextRows, pause: () => Promise<void>): Promise<void> {
    while (this.#version !== rows.version) {
      const { version } = rows;
      if (await this.#read(rows, pause)) this.#version = version;
    }
  }

  /** Returns false if the rows have changed meanwhile. */
  async #read(rows: TextRows, pause: () => Promise<void>): Promise<boolean> {
    const { version } = rows;
    const gone = new Set(this.#texts.keys());
    for (const [n, row] of rows.eachRow()) {
      if (n % TEXTS_PER_STEP === 0) {
        await pause();
        if (rows.version !== version) return false;
      }
      const { id, text } = rows.textAt(row);
      gone.delete(id);
      if (this.#texts.get(id) === text) continue;
      this.#forget(id);
      this.#words.add({ id, text });
      this.#texts.set(id, text);
    }
    for (const id of gone) this.#forget(id);
    return true;
  }

  #forget(id: TextId): void {
    const text = this.#texts.get(id);
    if (text === undefined) return;
    this.#words.remove({ id, text });
    this.#texts.delete(id);
  }

  /** The ids of the texts that contain words of `query`, best first. */
  ranked(query: string): TextId[] {
    return this.#words.search(query).map(({ id }) => id as TextId);
  }
}
