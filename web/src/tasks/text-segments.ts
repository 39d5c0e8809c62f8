/** Sentences, words and characters of a text. */
import { describe, invalid } from '../base/error.js';

export type Granularity = 'sentence' | 'word' | 'grapheme' | 'point';

/**
 * V8 copies the whole text for each segment that it finds. Long texts are therefore segmented in windows of this many
 * UTF-16 units, which begin at boundaries.
 */
const WINDOW = 4096;
/** The units after a boundary that may decide whether it is one: no boundary this close to a window's end counts. */
const LOOKAHEAD = 512;

/** Splits a text into segments that cover it. `owner`: the caller, for messages. */
export function* segmentsOf(
  owner: string,
  source: string,
  granularity: Granularity,
  locale: string | undefined,
): Generator<[start: number, end: number]> {
  if (granularity === 'point' || typeof Intl.Segmenter !== 'function') return yield* matchesOf(source, granularity);
  let segmenter: Intl.Segmenter;
  try {
    segmenter = new Intl.Segmenter(locale, { granularity });
  } catch (cause) {
    throw invalid(`${owner}.locale`, 'a language tag', describe(locale), 'INVALID_ARGUMENT', { cause });
  }
  for (let start = 0, size = WINDOW; start < source.length; ) {
    const isLast = start + size >= source.length;
    let end = start;
    for (const { index, segment } of segmenter.segment(source.slice(start, start + size))) {
      const next = start + index + segment.length;
      if (!isLast && next > start + size - LOOKAHEAD) break;
      yield [end, next];
      end = next;
    }
    if (isLast) return;
    size = end > start ? WINDOW : 2 * size; // a segment may be longer than the window
    start = end;
  }
}

/** Approximations, for engines without Intl.Segmenter. */
const PATTERNS: Record<Granularity, RegExp> = {
  sentence: /[^.!?\u3002\uFF01\uFF1F\n]*(?:[.!?\u3002\uFF01\uFF1F\n]+[\s)\]"'\u201D\u2019]*|$)/gu,
  word: /\s*\S+\s*|\s+/gu,
  grapheme: /\P{M}\p{M}*|\p{M}+/gu,
  point: /[\s\S]/gu,
};

function* matchesOf(source: string, granularity: Granularity): Generator<[start: number, end: number]> {
  for (const { 0: found, index } of source.matchAll(PATTERNS[granularity]))
    if (found !== '') yield [index, index + found.length];
}
