/**
 * Normalization that keeps the origin of each character, so that tokens have ranges in the original text.
 *
 * The rules are those of `@huggingface/tokenizers`, applied to the same pieces as in Hugging Face's own implementation: one code point if the rule considers one at a time, else a
 * base character with its marks.
 */
import type { Normalizer } from '@huggingface/tokenizers';
import { completed, STEP, type Steps } from '../event-loop.js';

/** A text and, for each of its UTF-16 units, the range of the original text that it stands for. */
export interface Aligned {
  text: string;
  starts: number[];
  ends: number[];
}

export function* aligning(text: string): Steps<Aligned> {
  const starts: number[] = [];
  const ends: number[] = [];
  let points = 0;
  for (const point of text) {
    const at = starts.length;
    for (let unit = 0; unit < point.length; unit++) {
      starts.push(at);
      ends.push(at + point.length);
    }
    if (++points % STEP === 0) yield null;
  }
  return { text, starts, ends };
}

/** The same at once. */
export const aligned = (text: string): Aligned => completed(aligning(text));

/** The UTF-16 units [from, to) of `a`. */
export function slice(a: Aligned, from: number, to: number): Aligned {
  return { text: a.text.slice(from, to), starts: a.starts.slice(from, to), ends: a.ends.slice(from, to) };
}

type Config = Record<string, unknown> & { type: string };

/** Applies `normalizer` to an aligned text. */
export const normalize = (normalizer: Normalizer, source: Aligned): Aligned =>
  completed(normalizing(normalizer, source));

/** The same in steps. */
export function* normalizing(normalizer: Normalizer, source: Aligned): Steps<Aligned> {
  const config = normalizer.config as unknown as Config;
  switch (config.type) {
    case 'Sequence': {
      const { normalizers } = normalizer as unknown as { normalizers: (Normalizer | null)[] };
      let out = source;
      for (const each of normalizers) if (each) out = yield* normalizing(each, out);
      return out;
    }
    case 'Strip':
      return strip(source, config.strip_left !== false, config.strip_right !== false);
    case 'Prepend':
      return source.text === ''
        ? source
        : joined([insertion(String(config.prepend), source.starts[0]!, source.ends[0]!), source]);
    case 'Replace': {
      const { pattern } = normalizer as unknown as { pattern: RegExp | null };
      return replace(source, pattern, String(config.content ?? ''));
    }
    default: {
      const isBert = config.type === 'BertNormalizer';
      let rule = rules.get(normalizer);
      if (!rule) {
        rule = memoized(20_000, (piece) => {
          const out = normalizer.normalize(piece);
          return isBert && config.handle_chinese_chars && isWideIdeograph(piece) ? ` ${out} ` : out;
        });
        rules.set(normalizer, rule);
      }
      return yield* byPieces(source, isBert || config.type === 'Lowercase' ? CODE_POINTS : CLUSTERS, rule);
    }
  }
}

/** The text in lower case. */
export function* lowerCasing(source: Aligned): Steps<Aligned> {
  const apart = yield* byPieces(source, CODE_POINTS, (point) => point.toLowerCase());
  // Rules that depend on neighbours (the Greek final sigma) do not change the length.
  const text = source.text.toLowerCase();
  return text.length === apart.text.length ? { ...apart, text } : apart;
}

const CODE_POINTS = /./gsu;
/** A character with the marks that may compose with it, or a syllable of conjoining Hangul letters. */
const CLUSTERS =
  /[\u1100-\u115F\uA960-\uA97C]+[\u1160-\u11A7\uD7B0-\uD7C6]*[\u11A8-\u11FF\uD7CB-\uD7FB]*\p{M}*|.\p{M}*/gsu;

/** CJK ideographs beyond the first plane, which the library misses, as it looks at UTF-16 units. */
function isWideIdeograph(point: string): boolean {
  return /[\u{20000}-\u{2a6df}\u{2a700}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/u.test(point);
}

const rules = new WeakMap<Normalizer, (piece: string) => string>();

/** `compute` with a memory of at most `size` results. */
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

/**
 * The result for each of a piece's code points. If the rule does not treat them one by one, the first gets what composes with it, and the rest belongs to the last ones, as in
 * Hugging Face's offsets.
 */
function pointsOf(points: string[], out: string, rule: (piece: string) => string): string[] {
  if (points.length === 1) return [out];
  const apart = points.map(rule);
  if (apart.join('') === out) return apart;
  const made = [...out];
  const first = Math.max(1, made.length - points.length + 1);
  const rest = made.slice(first);
  return points.map((_, i) =>
    i === 0 ? made.slice(0, first).join('') : (rest[i - (points.length - rest.length)] ?? ''),
  );
}

/** Applies `rule` to each piece of the text. */
function* byPieces(source: Aligned, pattern: RegExp, rule: (piece: string) => string): Steps<Aligned> {
  let text = '';
  const starts: number[] = [];
  const ends: number[] = [];
  const emit = (out: string, from: number, to: number) => {
    text += out;
    for (let unit = 0; unit < out.length; unit++) {
      starts.push(source.starts[from]!);
      ends.push(source.ends[to - 1]!);
    }
  };
  let pieces = 0;
  for (const { 0: piece, index } of source.text.matchAll(pattern)) {
    const points = [...piece];
    const outs = pointsOf(points, rule(piece), rule);
    let at = index;
    points.forEach((point, i) => {
      emit(outs[i]!, at, at + point.length);
      at += point.length;
    });
    if (++pieces % STEP === 0) yield null;
  }
  return { text, starts, ends };
}

function strip(source: Aligned, left: boolean, right: boolean): Aligned {
  const from = left ? /^\p{White_Space}*/u.exec(source.text)![0].length : 0;
  const to = right ? source.text.search(/\p{White_Space}*$/u) : source.text.length;
  return slice(source, from, Math.max(from, to));
}

/** A text all of whose units stand for the range [start, end). */
function insertion(text: string, start: number, end: number): Aligned {
  const all = (value: number) => new Array<number>(text.length).fill(value);
  return { text, starts: all(start), ends: all(end) };
}

function replace(source: Aligned, pattern: RegExp | null, content: string): Aligned {
  if (!pattern || source.text === '') return source;
  const parts: Aligned[] = [];
  let at = 0;
  for (const { 0: found, index } of source.text.matchAll(pattern)) {
    const end = index + found.length;
    // No empty match at the end of another one; V8 also finds empty ones within surrogate pairs.
    if (found === '' && ((index === at && at > 0) || /[\uDC00-\uDFFF]/.test(source.text[index] ?? ''))) continue;
    parts.push(slice(source, at, index));
    // The replacement of an empty match stands for the character before it.
    const [first, last] = [found === '' ? index - 1 : index, end - 1];
    const [start, stop] =
      last < 0 ? [source.starts[0]!, source.starts[0]!] : [source.starts[first]!, source.ends[last]!];
    parts.push(insertion(content, start, stop));
    at = end;
  }
  if (parts.length === 0) return source;
  parts.push(slice(source, at, source.text.length));
  return joined(parts);
}

function joined(parts: Aligned[]): Aligned {
  return {
    text: parts.map((p) => p.text).join(''),
    starts: parts.flatMap((p) => p.starts),
    ends: parts.flatMap((p) => p.ends),
  };
}
