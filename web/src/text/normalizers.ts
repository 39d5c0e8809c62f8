/** The normalizers of tokenizer.json, with the same results and ranges as the Rust library `tokenizers`. */
import {
  type Aligned,
  type Change,
  concatenated,
  insertion,
  memoized,
  prepended,
  slice,
  transformed,
} from './alignment.js';
import { bertNormalizer, byPoint } from './bert-components.js';
import { byteCharacters } from './byte-level.js';
import type { Normalizer } from './component-makers.js';
import { matchesOf, type Pattern, patternOf } from './patterns/regex.js';
import { precompiled } from './precompiled.js';
import { type Config, configsIn, unsupported } from './tokenizer-settings.js';

const atOnce = (apply: (source: Aligned) => Aligned): Normalizer =>
  function* (source) {
    yield null;
    return apply(source);
  };

/** @throws HeedError UNSUPPORTED for an unknown type */
export function normalizerOf(config: Config): Normalizer {
  switch (config.type) {
    case 'Sequence': {
      const steps = configsIn(config.normalizers).map(normalizerOf);
      return function* (source) {
        let out = source;
        for (const step of steps) out = yield* step(out);
        return out;
      };
    }
    case 'BertNormalizer':
      return bertNormalizer(config);
    case 'Lowercase':
      return byPoint((point) => point.toLowerCase());
    case 'StripAccents':
      return byPoint((point) => (/\p{M}/u.test(point) ? '' : point));
    case 'Nmt':
      return byPoint(nmtRule);
    case 'ByteLevel':
      return byPoint(byteCharacters);
    case 'NFC':
    case 'NFD':
    case 'NFKC':
    case 'NFKD':
      return unicodeForm(config.type);
    case 'Strip':
      return atOnce((source) => strip(source, config.strip_left !== false, config.strip_right !== false));
    case 'Prepend':
      return atOnce((source) => prepended(String(config.prepend), source));
    case 'Replace': {
      const pattern = patternOf(config.pattern);
      const content = String(config.content ?? '');
      return atOnce((source) => replace(source, pattern, content));
    }
    case 'Precompiled': {
      const changes = precompiled(config.precompiled_charsmap);
      return atOnce((source) => transformed(source, changes(source.text)));
    }
    default:
      throw unsupported('normalizer', 'a type of the Rust library `tokenizers`', config.type);
  }
}

function nmtRule(point: string): string {
  if (/[\t\n\f\r\u1680\u200B-\u200F\u2028\u2029\u2581\uFEFF\uFFFD]/.test(point)) return ' ';
  const code = point.codePointAt(0)!;
  const isKept = code === 0 || (code > 0x7f && code !== 0x8f && code !== 0x9f);
  return /\p{Cc}/u.test(point) && !isKept ? '' : point;
}

/**
 * Runs that can be normalized independently: an ASCII character composes with characters after it, but not with those
 * before it.
 */
const RUNS = /\p{ASCII}*\P{ASCII}+|\p{ASCII}+/gu;

function unicodeForm(form: 'NFC' | 'NFD' | 'NFKC' | 'NFKD'): Normalizer {
  const changes = memoized(5_000, (run) => formChanges(run, form));
  return atOnce((source) => {
    if (source.text.normalize(form) === source.text) return source;
    const all: Change[] = [];
    for (const [run] of source.text.matchAll(RUNS)) for (const change of changes(run)) all.push(change);
    return transformed(source, all);
  });
}

function formChanges(run: string, form: 'NFC' | 'NFD' | 'NFKC' | 'NFKD'): Change[] {
  const points = [...run];
  if (run.normalize(form) === run) return points.map((point) => [point, 0]);
  const decomposition = form.includes('K') ? 'NFKD' : 'NFD';
  const parts = points.flatMap((point) => [...point.normalize(decomposition)].map((part, i): Change => [part, i && 1]));
  const nextPart = taker(parts);
  const inOrder = [...run.normalize(decomposition)].map(nextPart);
  if (form.endsWith('D')) return inOrder;
  const next = taker(inOrder);
  // A composed character replaces all characters that it is composed of.
  return [...run.normalize(form)].map((point) => {
    const composed = [...point.normalize('NFD')].map(next);
    return [point, composed.reduce((sum, [, change]) => sum + change - 1, 1)];
  });
}

/** Returns a function that finds the first unused change with a code point, and marks it as used. */
function taker(changes: Change[]): (point: string) => Change {
  const taken = new Uint8Array(changes.length);
  let first = 0;
  return (point) => {
    while (taken[first]) first++;
    let at = first;
    while (at < changes.length && (taken[at] || changes[at]![0] !== point)) at++;
    taken[at] = 1;
    return changes[at] ?? [point, 0];
  };
}

function strip(source: Aligned, left: boolean, right: boolean): Aligned {
  const from = left ? /^\p{White_Space}*/u.exec(source.text)![0].length : 0;
  let to = source.text.length;
  if (right) while (to > from && /\p{White_Space}/u.test(source.text[to - 1]!)) to--;
  return slice(source, from, to);
}

function replace(source: Aligned, pattern: Pattern, content: string): Aligned {
  const matches = matchesOf(pattern, source.text);
  if (!matches.some(([, , isMatch]) => isMatch)) return source;
  const parts: Aligned[] = [];
  for (const [from, to, isMatch] of matches) {
    if (!isMatch) {
      parts.push(slice(source, from, to));
      continue;
    }
    // The replacement has the range of the last character of the match; for an empty match, that of the character
    // before it.
    const start = source.starts[Math.max(to - 1, 0)]!;
    parts.push(insertion(content, start, to === 0 ? start : source.ends[to - 1]!));
  }
  return concatenated(parts);
}
