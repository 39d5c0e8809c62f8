/** Patterns of tokenizer.json, and their matches. */
import { regexEscaped } from '../../base/regex.js';
import { type Config, unsupported } from '../tokenizer-settings.js';
import { BoundedPattern } from './bounded-pattern.js';
import { translated } from './oniguruma.js';
import { isSafe, treeOf } from './pattern-tree.js';

/** A match, or the text between two matches. */
export type Match = [from: number, to: number, isMatch: boolean];

/** A pattern of tokenizer.json. JavaScript's engine runs patterns that cannot take it exponential time. */
export type Pattern = RegExp | BoundedPattern;

/** @throws HeedError UNSUPPORTED for patterns that cannot be translated to JavaScript */
export function patternOf(pattern: unknown): Pattern {
  const { String: text, Regex: source } = (pattern ?? {}) as Config;
  if (typeof text === 'string') return new RegExp(regexEscaped(text), 'gu');
  if (typeof source !== 'string') throw unsupported('pattern', '{ "String": ... } or { "Regex": ... }', pattern);
  try {
    const js = translated(source);
    const native = new RegExp(js, 'gu');
    const tree = treeOf(js);
    return isSafe(tree) ? native : new BoundedPattern(tree, source);
  } catch (cause) {
    const reason = (cause as Error).message;
    throw unsupported('pattern', 'a regular expression that JavaScript can apply', `${source} (${reason})`);
  }
}

/** The matches in a text and the parts between them. */
export function matchesOf(pattern: Pattern, text: string): Match[] {
  const matches: Match[] = [];
  let at = 0;
  for (const { 0: found, index } of pattern instanceof RegExp ? text.matchAll(pattern) : pattern.matches(text)) {
    // Skip empty matches directly after another match, and those within surrogate pairs, which V8 also finds.
    if (found === '' && ((index === at && matches.length > 0) || /[\uDC00-\uDFFF]/.test(text[index] ?? ''))) continue;
    if (index > at) matches.push([at, index, false]);
    at = index + found.length;
    matches.push([index, at, true]);
  }
  if (at < text.length) matches.push([at, text.length, false]);
  return matches;
}
