/**
 * SentencePiece's normalization: replacements of characters, compiled to a trie (a double array, as in the library
 * Darts).
 */
import { type Change, memoized } from './alignment.js';
import { utf8 } from './byte-level.js';
import { unsupported } from './tokenizer-settings.js';

/** The maximum size in bytes of texts that are replaced as a whole; longer ones are replaced character by character. */
const MAX_CLUSTER = 5;

/** Runs that do not share a grapheme cluster with their neighbors. */
const RUNS = /\r\n|\p{ASCII}(?!\P{ASCII})|\p{ASCII}?\P{ASCII}+/gu;

/**
 * Matches a character with its marks, or a syllable of conjoining Hangul letters, in engines without Intl.Segmenter.
 */
const CLUSTERS =
  /[\u1100-\u115F\uA960-\uA97C]+[\u1160-\u11A7\uD7B0-\uD7C6]*[\u11A8-\u11FF\uD7CB-\uD7FB]*[\p{M}\u200C\u200D]*|.[\p{M}\u200C\u200D]*/gsu;

/** Returns a function that computes the changes of a text. */
export function precompiled(charsmap: unknown): (text: string) => Change[] {
  const find = charsmap == null ? () => null : replacementsIn(charsmap);
  const segmenter = Intl.Segmenter && new Intl.Segmenter('en', { granularity: 'grapheme' });
  const clustersOf = (run: string): string[] => {
    if (/^\p{ASCII}{1,2}$/u.test(run)) return [run];
    return segmenter ? Array.from(segmenter.segment(run), ({ segment }) => segment) : (run.match(CLUSTERS) ?? []);
  };
  const replacement = (text: string): { from: string; to: string | null }[] => {
    const whole = utf8(text).length <= MAX_CLUSTER ? find(text) : null;
    return whole === null ? Array.from(text, (from) => ({ from, to: find(from) })) : [{ from: text, to: whole }];
  };
  const replacements = memoized(5_000, (run) => clustersOf(run).flatMap(replacement));
  return (text) => {
    const changes: Change[] = [];
    for (const [run] of text.matchAll(RUNS))
      for (const { from, to } of replacements(run)) {
        if (to === null) changes.push([from, 0]);
        else replace(changes, [...from].length, [...to]);
      }
    return changes;
  };
}

/** Adds the changes that replace `count` code points by those of `made`. */
function replace(changes: Change[], count: number, made: string[]): void {
  made.forEach((point, i) => changes.push([point, i < count ? 0 : 1]));
  const last = changes.pop();
  if (last) changes.push(made.length < count ? [last[0], last[1] + made.length - count] : last);
}

/**
 * Returns a function that finds the replacement of a text: that of its shortest prefix with a replacement, as in the
 * Rust library; null if there is none.
 */
function replacementsIn(charsmap: unknown): (text: string) => string | null {
  const [trie, texts] = parsed(charsmap);
  const offsetOf = (unit: number) => (unit >>> 10) << ((unit & 0x200) >>> 6);
  return (text) => {
    let at = offsetOf(trie[0]!);
    for (const byte of utf8(text)) {
      if (byte === 0) return null;
      at ^= byte;
      const unit = trie[at] ?? 0;
      if ((unit & 0x800000ff) >>> 0 !== byte) return null;
      at ^= offsetOf(unit);
      if ((unit >>> 8) & 1) {
        const start = trie[at]! & 0x7fffffff;
        return new TextDecoder().decode(texts.subarray(start, texts.indexOf(0, start)));
      }
    }
    return null;
  };
}

/** Parses the trie and the replacements, each of which ends with a zero byte. */
function parsed(charsmap: unknown): [Uint32Array, Uint8Array] {
  try {
    const bytes = Uint8Array.from(atob(charsmap as string), (unit) => unit.charCodeAt(0));
    const size = new DataView(bytes.buffer).getUint32(0, true);
    const trie = new Uint32Array(bytes.slice(4, 4 + size).buffer); // all platforms with WebAssembly are little-endian
    if (trie.length === 0 || bytes.at(-1) !== 0) throw new Error();
    return [trie, bytes.subarray(4 + size)];
  } catch {
    throw unsupported('normalizer.precompiled_charsmap', "SentencePiece's rules in base64", typeof charsmap);
  }
}
