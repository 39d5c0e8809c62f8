/** Splits texts at the matches of a pattern, as `NormalizedString::split` of the Rust library. */
import { type Aligned, slice } from './alignment.js';
import { type Match, matchesOf, type Pattern } from './patterns/regex.js';
import { unsupported } from './tokenizer-settings.js';

type Range = [from: number, to: number];

/** Maps matches, and the parts between them, to the ranges of the pieces. */
export type Behavior = (matches: Match[]) => Range[];

const whole = ([from, to]: Match): Range => [from, to];

/** Merges each range into the one before it if `joins` returns true for the two. */
function merged(matches: Match[], joins: (isMatch: boolean, before: boolean) => boolean): Range[] {
  const ranges: Range[] = [];
  let before = false;
  for (const [from, to, isMatch] of matches) {
    const last = ranges.at(-1);
    if (last && joins(isMatch, before)) {
      last[0] = Math.min(last[0], from);
      last[1] = Math.max(last[1], to);
    } else ranges.push([from, to]);
    before = isMatch;
  }
  return ranges;
}

const BEHAVIORS: Record<string, Behavior> = {
  removed: (matches) => matches.filter(([, , isMatch]) => !isMatch).map(whole),
  isolated: (matches) => matches.map(whole),
  contiguous: (matches) => merged(matches, (isMatch, before) => isMatch === before),
  mergedwithprevious: (matches) => merged(matches, (isMatch, before) => isMatch && !before),
  mergedwithnext: (matches) => merged(matches.reverse(), (isMatch, before) => isMatch && !before).reverse(),
};

/** @throws HeedError UNSUPPORTED for an unknown behavior */
export function behaviorOf(name: unknown): Behavior {
  const behavior = BEHAVIORS[String(name).toLowerCase()];
  if (behavior) return behavior;
  const expected = 'Removed, Isolated, Contiguous, MergedWithPrevious or MergedWithNext';
  throw unsupported('pre_tokenizer.behavior', expected, name);
}

/** Splits `source`. `inverts`: the pattern matches the parts between delimiters. */
export function split(source: Aligned, pattern: Pattern, behavior: Behavior, inverts = false): Aligned[] {
  const matches = matchesOf(pattern, source.text);
  if (inverts) for (const match of matches) match[2] = !match[2];
  return behavior(matches).map(([from, to]) => slice(source, from, to));
}
