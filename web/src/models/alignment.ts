/**
 * Normalization that remembers where each character came from, so that a token can be traced to the text as the user wrote it.
 *
 * The rules are those of `@huggingface/tokenizers`; here they are applied piece by piece, in the pieces in which Hugging Face's own implementation works
 * (a code point where the rule looks at one, else a base character with its marks).
 */
import type { Normalizer } from '@huggingface/tokenizers';

/** A text and, for each of its UTF-16 units, the range of the original that it stands for. */
export interface Aligned {
  text: string;
  starts: number[];
  ends: number[];
}

export function aligned(text: string, origin = 0): Aligned {
  const starts: number[] = [];
  const ends: number[] = [];
  for (const point of text) {
    const at = origin + starts.length;
    for (let unit = 0; unit < point.length; unit++) {
      starts.push(at);
      ends.push(at + point.length);
    }
  }
  return { text, starts, ends };
}

/** The units [from, to) of a. */
export function slice(a: Aligned, from: number, to: number): Aligned {
  return { text: a.text.slice(from, to), starts: a.starts.slice(from, to), ends: a.ends.slice(from, to) };
}

type Config = Record<string, unknown> & { type: string };

/** `normalizer` over an aligned text. */
export function normalize(normalizer: Normalizer, source: Aligned): Aligned {
  const config = normalizer.config as unknown as Config;
  switch (config.type) {
    case 'Sequence':
      return (normalizer as unknown as { normalizers: (Normalizer | null)[] }).normalizers.reduce(
        (a, step) => (step ? normalize(step, a) : a),
        source,
      );
    case 'Strip':
      return strip(source, config.strip_left !== false, config.strip_right !== false);
    case 'Prepend':
      return source.text === '' ? source : joined([insertion(String(config.prepend), source), source]);
    case 'Replace':
      return replace(
        source,
        (normalizer as unknown as { pattern: RegExp | null }).pattern,
        String(config.content ?? ''),
      );
    case 'BertNormalizer':
      return byPieces(
        source,
        CODE_POINTS,
        memoized(normalizer, (point) => bertPoint(normalizer, config, point)),
      );
    case 'Lowercase':
      return byPieces(
        source,
        CODE_POINTS,
        memoized(normalizer, (point) => normalizer.normalize(point)),
      );
    default:
      return byPieces(
        source,
        CLUSTERS,
        memoized(normalizer, (cluster) => normalizer.normalize(cluster)),
      );
  }
}

/** Every character in lower case. */
export function lowerCased(source: Aligned): Aligned {
  const apart = byPieces(source, CODE_POINTS, (point) => point.toLowerCase());
  // What looks at its neighbours (the Greek final sigma) keeps its length.
  const text = source.text.toLowerCase();
  return text.length === apart.text.length ? { ...apart, text } : apart;
}

const CODE_POINTS = /./gsu;
/** A character with the marks that may compose with it; conjoining Hangul letters count as one. */
const CLUSTERS =
  /[\u1100-\u115F\uA960-\uA97C]+[\u1160-\u11A7\uD7B0-\uD7C6]*[\u11A8-\u11FF\uD7CB-\uD7FB]*\p{M}*|.\p{M}*/gsu;

/** CJK ideographs beyond the first plane; the library walks UTF-16 units and does not see them. */
function isWideIdeograph(point: string): boolean {
  const code = point.codePointAt(0)!;
  return (
    (code >= 0x20000 && code <= 0x2a6df) ||
    (code >= 0x2a700 && code <= 0x2b73f) ||
    (code >= 0x2b740 && code <= 0x2b81f) ||
    (code >= 0x2b820 && code <= 0x2ceaf) ||
    (code >= 0x2f800 && code <= 0x2fa1f)
  );
}

function bertPoint(normalizer: Normalizer, config: Config, point: string): string {
  const out = normalizer.normalize(point);
  return config.handle_chinese_chars && isWideIdeograph(point) ? ` ${out} ` : out;
}

const MEMO_SIZE = 20_000;
const memos = new WeakMap<Normalizer, Map<string, string>>();

/** `rule`, each piece worked out once. */
function memoized(normalizer: Normalizer, rule: (piece: string) => string): (piece: string) => string {
  let memo = memos.get(normalizer);
  if (!memo) {
    memo = new Map();
    memos.set(normalizer, memo);
  }
  return (piece) => {
    let out = memo.get(piece);
    if (out === undefined) {
      if (memo.size >= MEMO_SIZE) memo.clear();
      out = rule(piece);
      memo.set(piece, out);
    }
    return out;
  };
}

/**
 * What each of a piece's code points becomes. Where the rule does not see them one by one, the first takes what marks compose into it, and those left over stand for
 * the last ones, as in Hugging Face's offsets.
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

/** `rule` on each piece of the text. */
function byPieces(source: Aligned, pattern: RegExp, rule: (piece: string) => string): Aligned {
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
  for (const { 0: piece, index } of source.text.matchAll(pattern)) {
    const points = [...piece];
    const outs = pointsOf(points, rule(piece), rule);
    let at = index;
    points.forEach((point, i) => {
      emit(outs[i]!, at, at + point.length);
      at += point.length;
    });
  }
  return { text, starts, ends };
}

function strip(source: Aligned, left: boolean, right: boolean): Aligned {
  const from = left ? /^\p{White_Space}*/u.exec(source.text)![0].length : 0;
  const to = right ? source.text.search(/\p{White_Space}*$/u) : source.text.length;
  return slice(source, from, Math.max(from, to));
}

/** `text` set before `next`: it stands for what the next unit stands for. */
function insertion(text: string, next: Aligned): Aligned {
  return {
    text,
    starts: new Array<number>(text.length).fill(next.starts[0] ?? 0),
    ends: new Array<number>(text.length).fill(next.ends[0] ?? 0),
  };
}

function replace(source: Aligned, pattern: RegExp | null, content: string): Aligned {
  if (!pattern || source.text === '') return source;
  const parts: Aligned[] = [];
  let at = 0;
  for (const { 0: found, index } of source.text.matchAll(pattern)) {
    const end = index + found.length;
    // The end of a match is no other one; V8 finds an empty one within surrogate pairs, too.
    if (found === '' && ((index === at && at > 0) || /[\uDC00-\uDFFF]/.test(source.text[index] ?? ''))) continue;
    parts.push(slice(source, at, index));
    // What replaces nothing stands for what is before it.
    const [first, last] = [found === '' ? index - 1 : index, end - 1];
    const [start, stop] =
      last < 0 ? [source.starts[0]!, source.starts[0]!] : [source.starts[first]!, source.ends[last]!];
    parts.push({
      text: content,
      starts: new Array<number>(content.length).fill(start),
      ends: new Array<number>(content.length).fill(stop),
    });
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
