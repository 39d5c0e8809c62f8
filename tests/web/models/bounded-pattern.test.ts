/** Patterns of tokenizer.json that JavaScript would match in exponential time are matched in steps, with equal results. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { BoundedPattern } from '../../../web/src/text/patterns/bounded-pattern.js';
import { translated } from '../../../web/src/text/patterns/oniguruma.js';
import { isSafe, treeOf } from '../../../web/src/text/patterns/pattern-tree.js';
import { matchesOf, patternOf } from '../../../web/src/text/patterns/regex.js';
import { fixtures } from './fixtures.js';

const bounded = (source: string) => new BoundedPattern(treeOf(translated(source)), source);
const native = (source: string) => new RegExp(translated(source), 'gu');

/** Each takes JavaScript exponential time, or a high power of the length, for texts that almost match. */
const slow: [source: string, unit: string][] = [
  ['(x+x+)+y', 'x'],
  ['(x*)*y', 'x'],
  ['(x|x)*y', 'x'],
  ['(x|xx)+$(?!\\n)y', 'x'],
  ['(?:x?){40}x{40}y', 'x'],
  [`${'x?'.repeat(40)}${'x'.repeat(40)}y`, 'x'],
  [`${'(?:x|x)'.repeat(60)}y`, 'x'],
  ['x*x*x*x*x*x*x*x*y', 'x'],
  ['(?=(x+x+)+y)x', 'x'],
  ['(?i:(x+X+)+y)', 'x'],
  ['(?:[a-x]|[x-z])+1', 'x'],
  ['(?:\\w+\\s?)+$!', 'x '],
  ['((?>x+)+)+y', 'x'],
  ['(x+)++y', 'x'],
  ['(?:\\p{L}\\p{M}*)+\\p{L}+1', 'x'],
];

describe.each(slow)('%s', (source, unit) => {
  test.each([60, 500])('on a text of %i repetitions', (count) => {
    const text = unit.repeat(count);
    expect(patternOf({ Regex: source })).toBeInstanceOf(BoundedPattern);
    expect(matchesOf(patternOf({ Regex: source }), text)).toEqual([[0, text.length, false]]);
  });
});

test('a pattern that needs too many steps is an error', () => {
  const pattern = patternOf({ Regex: '(?=(x*x*)*1)x|(?<=(x*x*)*1)x' });
  expect(() => matchesOf(pattern, 'x'.repeat(5_000))).toThrow(
    expect.objectContaining({ name: 'HeedError', code: 'UNSUPPORTED', message: expect.stringContaining('pattern') }),
  );
});

test('a reference to a group in a slow pattern is an error', () => {
  expect(() => patternOf({ Regex: '(x+x+)+\\1y' })).toThrow(expect.objectContaining({ code: 'UNSUPPORTED' }));
  expect(patternOf({ Regex: '(x)\\1' })).toBeInstanceOf(RegExp);
});

/** Patterns of published tokenizers. */
const published = [
  `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+`,
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
  `[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`,
  '[!"#$%&\'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+',
  ' ?[^(\\s|[.,!?…。，、।۔،])]+',
  `<\\|startoftext\\|>|<\\|endoftext\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+`,
  '\\p{N}{1,3}',
  '[一-龥぀-ゟ゠-ヿ]+',
  '\\d{1,3}(?=(?:\\d{3})*\\b)',
  ' {2,}',
  '\\s+',
  '\\n+',
];

/** The patterns in tokenizers of tests. */
const inFixtures = new Set<string>();
for (const name of readdirSync(join(fixtures, 'tokenizers')).filter((name) => name.endsWith('.json')))
  JSON.stringify(JSON.parse(readFileSync(join(fixtures, 'tokenizers', name), 'utf8')), (key, value) => {
    if (key === 'Regex') inFixtures.add(value);
    return value;
  });

const texts = [
  "I'll see  the 12345 foxes, HelloWorld's day!\r\n\n  x  ",
  '日本語のテキスト ひらがなカタカナ 漢字',
  'naïve Ünïcödé ɐ ß ſ İ K café 𝔘𝔫𝔦 👩‍👩‍👧 \u00a0\u3000',
  '',
  '\n',
  '    \n\n   \t x',
  '1 22 333 4444 55555',
  'aA1! <|endoftext|>…。،',
];

test.each(published)('a published pattern runs in the engine: %s', (source) => {
  expect(patternOf({ Regex: source })).toBeInstanceOf(RegExp);
});

test.each([...published, ...inFixtures])('matched in steps, the result is that of the engine: %s', (source) => {
  let pattern: BoundedPattern;
  try {
    pattern = bounded(source);
  } catch (error) {
    expect((error as Error).message).toMatch(/reference|group|unsupported|property/);
    return;
  }
  for (const text of texts) expect(matchesOf(pattern, text)).toEqual(matchesOf(native(source), text));
});

test('random patterns: the matches are those of the engine', () => {
  let state = 1;
  const random = (count: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * count);
  };
  const pick = <T>(list: readonly T[]): T => list[random(list.length)]!;
  const made = (depth: number): string => {
    const kind = depth === 0 ? 0 : random(9);
    if (kind < 3) return pick(['a', 'b', '[ab]', '[^a]', '.', '\\w', 'c', '\\b', '^', '$']);
    if (kind === 3) return `(?:${made(depth - 1)}|${made(depth - 1)})`;
    if (kind === 4) return `(${made(depth - 1)})${pick(['*', '+', '?', '*?', '+?', '??', '{2}', '{1,3}', '{2,}'])}`;
    if (kind === 5) return `(?${pick(['=', '!', '>', ':'])}${made(depth - 1)})`;
    if (kind === 6) return `(?<${pick(['=', '!'])}${pick(['a', 'b', '[ab]', 'ab'])})${made(depth - 1)}`;
    return made(depth - 1) + made(depth - 1);
  };
  let [compared, slowOnes] = [0, 0];
  for (let i = 0; i < 2000; i++) {
    const source = made(4);
    let pattern: BoundedPattern;
    try {
      pattern = bounded(source);
    } catch {
      continue; // Oniguruma has no such pattern
    }
    if (!isSafe(treeOf(translated(source)))) slowOnes++;
    const text = Array.from({ length: random(14) }, () => pick(['a', 'b', 'a', 'b', 'c', '\n', '𝔘'])).join('');
    expect([source, text, matchesOf(pattern, text)]).toEqual([source, text, matchesOf(native(source), text)]);
    compared++;
  }
  expect(compared).toBeGreaterThan(1000);
  expect(slowOnes).toBeGreaterThan(200);
});

test('a text whose marks would take too much memory is refused before they are allocated', () => {
  const pattern = bounded(`${'x?'.repeat(4000)}y`);
  expect(() => matchesOf(pattern, 'x'.repeat(300_000))).toThrow(
    expect.objectContaining({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('a text of at most 268434 UTF-16'),
    }),
  );
  expect(matchesOf(pattern, 'xy')).toEqual(matchesOf(native('x{0,4000}y'), 'xy'));
});
