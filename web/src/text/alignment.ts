/** Texts with the range of the original text for each character, from which tokens get their ranges. */
import { completed, STEP, type Steps } from '../base/event-loop.js';

/** A text and, for each of its UTF-16 units, its range in the original text. */
export interface Aligned {
  text: string;
  starts: number[];
  ends: number[];
}

/** Aligns a text with itself. `origin`: the position of the text in the original one. */
export function* aligning(text: string, origin = 0): Steps<Aligned> {
  const starts: number[] = [];
  const ends: number[] = [];
  let points = 0;
  for (const point of text) {
    const at = origin + starts.length;
    for (let unit = 0; unit < point.length; unit++) {
      starts.push(at);
      ends.push(at + point.length);
    }
    if (++points % STEP === 0) yield null;
  }
  return { text, starts, ends };
}

/** Runs `aligning` without yielding. */
export const aligned = (text: string): Aligned => completed(aligning(text));

/** The UTF-16 units [from, to) of `a`. */
export function slice(a: Aligned, from: number, to: number): Aligned {
  if (from === 0 && to === a.text.length) return a;
  return { text: a.text.slice(from, to), starts: a.starts.slice(from, to), ends: a.ends.slice(from, to) };
}

/** The parts of `source` that match. */
export function parts(source: Aligned, pattern: RegExp): Aligned[] {
  return Array.from(source.text.matchAll(pattern), ({ 0: part, index }) => slice(source, index, index + part.length));
}

/** A text whose units all have the range [start, end). */
export function insertion(text: string, start: number, end: number): Aligned {
  const all = (value: number) => new Array<number>(text.length).fill(value);
  return { text, starts: all(start), ends: all(end) };
}

export function concatenated(parts: Aligned[]): Aligned {
  return {
    text: parts.map((part) => part.text).join(''),
    starts: parts.flatMap((part) => part.starts),
    ends: parts.flatMap((part) => part.ends),
  };
}

/** Prepends `text`, with the range of the first character of `source`. */
export function prepended(text: string, source: Aligned): Aligned {
  if (source.text === '') return source;
  const { starts, ends } = insertion(text, source.starts[0]!, source.ends[0]!);
  return { text: text + source.text, starts: starts.concat(source.starts), ends: ends.concat(source.ends) };
}

/** Replaces each code point by the result of `rule`, with the code point's range. */
export function* mapping(source: Aligned, rule: (point: string) => string): Steps<Aligned> {
  let text = '';
  const starts: number[] = [];
  const ends: number[] = [];
  let at = 0;
  let points = 0;
  for (const point of source.text) {
    const out = rule(point);
    text += out;
    for (let unit = 0; unit < out.length; unit++) {
      starts.push(source.starts[at]!);
      ends.push(source.ends[at]!);
    }
    at += point.length;
    if (++points % STEP === 0) yield null;
  }
  return { text, starts, ends };
}

/** Runs `mapping` without yielding. */
export const mapped = (source: Aligned, rule: (point: string) => string): Aligned => completed(mapping(source, rule));

/**
 * A code point of the new text, and its origin as in `NormalizedString::transform` of the Rust library. 1: inserted,
 * with the range of the code point before it. 0: replaces the next code point of the old text. -n: replaces the next
 * code point, and the n code points after it are removed.
 */
export type Change = readonly [point: string, change: number];

/** Makes the text that consists of the changes' code points. */
export function transformed(source: Aligned, changes: Iterable<Change>): Aligned {
  let text = '';
  const starts: number[] = [];
  const ends: number[] = [];
  let at = 0;
  for (const [point, change] of changes) {
    const origin = change > 0 ? at - 1 : at;
    const start = source.starts[Math.max(origin, 0)] ?? source.ends.at(-1)!;
    const end = origin < 0 ? start : (source.ends[origin] ?? start);
    text += point;
    for (let unit = 0; unit < point.length; unit++) {
      starts.push(start);
      ends.push(end);
    }
    for (let n = change; n <= 0 && at < source.text.length; n++) at += source.text.codePointAt(at)! > 0xffff ? 2 : 1;
  }
  return { text, starts, ends };
}

/** Memoizes `compute` for at most `size` results. */
export function memoized<T>(size: number, compute: (text: string) => T): (text: string) => T {
  const memo = new Map<string, T>();
  return (text) => {
    let result = memo.get(text);
    if (result === undefined) {
      if (memo.size >= size) memo.clear();
      result = compute(text);
      memo.set(text, result);
    }
    return result;
  };
}

/** Converts a text to lower case. */
export function* lowerCasing(source: Aligned): Steps<Aligned> {
  const apart = yield* mapping(source, (point) => point.toLowerCase());
  // Context-dependent rules, such as the Greek final sigma, do not change the length.
  const text = source.text.toLowerCase();
  return text.length === apart.text.length ? { ...apart, text } : apart;
}
