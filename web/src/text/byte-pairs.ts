/**
 * Byte-pair encoding: merges pairs of adjacent symbols in the order in which training found them (Sennrich et al. 2016,
 * https://arxiv.org/abs/1508.07909).
 */
import { HeedError } from '../base/error.js';
import { byteToken, utf8 } from './byte-level.js';
import { Heap } from './heap.js';
import type { Config } from './tokenizer-settings.js';
import { idsOf, MAX_IDS, type Piece, unknownId, type VocabularyModel } from './vocabulary.js';

/** A symbol of a word: `length` UTF-8 bytes, with the indices of its neighbors; -1: no neighbor. */
interface Symbol {
  id: number;
  length: number;
  previous: number;
  next: number;
}

interface Merge {
  at: number;
  rank: number;
  id: number;
}

const pairOf = (left: number, right: number) => left * MAX_IDS + right;

export function bytePairs(config: Config): VocabularyModel {
  const ids = idsOf(config);
  const tokens = new Map(Array.from(ids, ([token, id]) => [id, token]));
  const prefix = String(config.continuing_subword_prefix ?? '');
  const suffix = String(config.end_of_word_suffix ?? '');
  const merges = mergesOf(config, ids, prefix.length);

  const symbolsOf = (word: string): Symbol[] => {
    const symbols: Symbol[] = [];
    const add = (id: number, length: number) => {
      const at = symbols.length;
      symbols.push({ id, length, previous: at - 1, next: at + 1 });
    };
    // The length of the current run of unknown characters, which is one character unless unknown characters are fused.
    let unknown = 0;
    const addUnknown = () => {
      if (unknown > 0) add(unknownId(ids, config.unk_token), unknown);
      unknown = 0;
    };
    let at = 0;
    for (const point of word) {
      const isFirst = at === 0;
      at += point.length;
      const text = (isFirst ? '' : prefix) + point + (at === word.length ? suffix : '');
      const id = ids.get(text);
      if (id !== undefined) {
        addUnknown();
        add(id, byteLength(point));
        continue;
      }
      const bytes = config.byte_fallback ? Array.from(utf8(text), (byte) => ids.get(byteToken(byte))) : [undefined];
      if (bytes.every((byte) => byte !== undefined)) for (const byte of bytes) add(byte, 1);
      else if (config.unk_token != null) {
        if (!config.fuse_unk) addUnknown();
        unknown += byteLength(point);
      }
    }
    addUnknown();
    if (symbols.length > 0) symbols.at(-1)!.next = -1;
    return symbols;
  };

  const mergeAll = (symbols: Symbol[]): void => {
    const queue = new Heap<Merge>((a, b) => a.rank - b.rank || a.at - b.at);
    const offer = (at: number) => {
      const { id, next } = symbols[at]!;
      const merge = next < 0 ? undefined : merges.get(pairOf(id, symbols[next]!.id));
      if (merge) queue.push({ at, ...merge });
    };
    symbols.forEach((_, at) => offer(at));
    for (let merge = queue.pop(); merge; merge = queue.pop()) {
      const left = symbols[merge.at]!;
      if (left.length === 0 || left.next < 0) continue;
      const right = symbols[left.next]!;
      // The symbols may have been merged with others in the meantime.
      if (merges.get(pairOf(left.id, right.id))?.id !== merge.id) continue;
      left.id = merge.id;
      left.length += right.length;
      left.next = right.next;
      right.length = 0;
      if (right.next >= 0) symbols[right.next]!.previous = merge.at;
      if (left.previous >= 0) offer(left.previous);
      offer(merge.at);
    }
  };

  const split = (word: string): Piece[] => {
    const whole = config.ignore_merges ? ids.get(word) : undefined;
    if (whole !== undefined) return [{ id: whole, text: word, start: 0, end: word.length }];
    const symbols = symbolsOf(word);
    mergeAll(symbols);
    const units = unitsOf(word);
    let at = 0;
    return symbols.flatMap(({ id, length }) => {
      if (length === 0) return [];
      const [start, end] = [units(at), units(at + length, true)];
      at += length;
      return [{ id, text: tokens.get(id)!, start, end }];
    });
  };
  return { ids, split };
}

function byteLength(point: string): number {
  const code = point.codePointAt(0)!;
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

/**
 * Returns a function that maps byte offsets in a word's UTF-8 to UTF-16 units. An offset within a character maps to the
 * character's beginning or, with `isEnd`, its end.
 */
function unitsOf(word: string): (place: number, isEnd?: boolean) => number {
  if (/^\p{ASCII}*$/u.test(word)) return (place) => Math.min(place, word.length);
  const starts: number[] = [];
  let at = 0;
  for (const point of word) {
    for (let byte = 0; byte < byteLength(point); byte++) starts.push(at);
    at += point.length;
  }
  const isWithin = (place: number) => place > 0 && place < starts.length && starts[place] === starts[place - 1];
  return (place, isEnd = false) => {
    while (isEnd && isWithin(place)) place++;
    return starts[place] ?? word.length;
  };
}

/** The rank of each mergeable pair, and the resulting token. */
function mergesOf(
  config: Config,
  ids: ReadonlyMap<string, number>,
  prefixLength: number,
): Map<number, { rank: number; id: number }> {
  const merges = new Map<number, { rank: number; id: number }>();
  const idOf = (token: string) => {
    const id = ids.get(token);
    if (id !== undefined) return id;
    const expected = 'expected tokens of the vocabulary, and pairs whose union is one';
    throw new HeedError('INVALID_FILE', `tokenizer.json: model.merges: ${expected}, got '${token}'`);
  };
  const lines = (config.merges as (string | [string, string])[]).filter((line) => !String(line).startsWith('#version'));
  lines.forEach((line, rank) => {
    const [left, right] = typeof line === 'string' ? (line.split(' ') as [string, string]) : line;
    const id = idOf(left + right.slice(prefixLength));
    merges.set(pairOf(idOf(left), idOf(right)), { rank, id });
  });
  return merges;
}
