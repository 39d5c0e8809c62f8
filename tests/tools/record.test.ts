import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { changelogFaults, faults, ratiosOf, releaseOf, slowdowns, slowInt8 } from '../../tools/record.mjs';

const markdown = readFileSync(new URL('../../bench/RESULTS.md', import.meta.url), 'utf8');

it('reads the tables of ratios in RESULTS.md', () => {
  const places = ratiosOf(markdown);
  expect(Object.keys(places).join()).toMatch(/Node .*Chrome/);
  for (const rows of Object.values(places)) {
    const pairs = Object.entries(rows);
    expect(pairs.length).toBeGreaterThan(5);
    for (const [pair, shapes] of pairs) {
      expect(pair).toMatch(/^heed (fp32|q8) \(.*\) \/ /);
      expect(Object.keys(shapes)).toContain('1 x 128');
      for (const ratio of Object.values(shapes)) expect(ratio).toBeGreaterThan(0);
    }
  }
});

it('RESULTS.md and the record have int8 faster than fp32 at every length, and RESULTS.md and the model card say how exact it is', () => {
  const record = JSON.parse(readFileSync(new URL('../../bench/record.json', import.meta.url), 'utf8'));
  for (const speed of [
    ...Object.values<{ speed: ReturnType<typeof ratiosOf> }>(record).map((entry) => entry.speed),
    ratiosOf(markdown),
  ])
    expect(slowInt8(speed)).toEqual([]);
  // The last column is the cosine of int8 and fp32 vectors. The weights there are random, and int8 represents them less exactly
  // than trained ones, for which the shipped model's card has the numbers.
  const cosines = [...markdown.matchAll(/^\| heed q8 \((?:relaxed-simd|simd128)\) (?:\| [\d.]+ ){4}\| ([\d.]+) \|$/gm)];
  expect(cosines).toHaveLength(2 * Object.keys(ratiosOf(markdown)).length);
  for (const [, cosine] of cosines) expect(Number(cosine)).toBeGreaterThan(0.998);
  const card = readFileSync(new URL('../../web/model/README.md', import.meta.url), 'utf8');
  const [, average, least] =
    /as `'q8'` and as `'fp32'` have a cosine of ([\d.]+) on average and ([\d.]+) at least/.exec(card)!;
  expect(Number(average)).toBeGreaterThan(0.999);
  expect(Number(least)).toBeGreaterThan(0.995);
});

it('finds where int8 is not faster than fp32', () => {
  const all = (ratio: number) => ({ '1 x 16': 2, '1 x 128': ratio, '8 x 128': 1.5, '1 x 512': 1.5 });
  const rows = (ratio: number) => ({
    'heed q8 (relaxed-simd) / heed fp32': all(1.1),
    'heed q8 (simd128) / heed fp32': all(ratio),
  });
  expect(slowInt8({ 'Node 24': rows(1.01) })).toEqual([]);
  expect(slowInt8({ 'Node 24': rows(1.2), 'Chrome 156': rows(0.97) })).toEqual([
    'Chrome 156: int8 (simd128), 1 x 128: 0.97 times as fast as fp32',
  ]);
  expect(slowInt8({ 'Node 24': {} })).toHaveLength(8);
});

const compiler = { emscripten: '3.1.69', clang: '19.1.7' };
const int8 = { '1 x 16': 2, '1 x 128': 2, '8 x 128': 2, '1 x 512': 2 };
const speed = (ratio: number, place = 'Node 24.1') => ({
  [place]: {
    'heed / peer': { '1 x 16': 2, '1 x 128': ratio },
    'heed q8 (relaxed-simd) / heed fp32': int8,
    'heed q8 (simd128) / heed fp32': int8,
  },
});
const made = (bytes: number, ratio: number, place?: string) => ({
  compiler,
  sizes: { all: bytes },
  speed: speed(ratio, place),
});

it('finds ratios that fell since the previous entry', () => {
  expect(slowdowns(made(1, 1.5), made(1, 1.43, 'Node 26.0'))).toEqual([]);
  expect(slowdowns(made(1, 1.5), made(1, 1.4, 'Node 26.0'))).toEqual(['Node 26.0: heed / peer, 1 x 128: 1.5 to 1.4']);
  expect(slowdowns(made(1, 1.5), made(1, 1.4, 'Chrome 200'))).toEqual([]);
  // Several versions of Node in both entries.
  const both = { ...made(1, 1), speed: { ...made(1, 1.9, 'Node 24.0').speed, ...made(1, 1.4, 'Node 20.0').speed } };
  expect(slowdowns(both, both)).toEqual([]);
});

it('lets sizes grow by 3 % over the record, and compares them to the byte for a release', () => {
  const record = { '0.1.0': made(1000, 1.5), '0.2.0': made(1000, 1.5) };
  const now = (bytes: number) => ({ version: '0.2.0', ...made(bytes, 1.5) });
  expect(faults(record, now(900), { exact: false })).toEqual([]);
  expect(faults(record, now(1030), { exact: false })).toEqual([]);
  expect(faults(record, now(1031), { exact: false })).toEqual(['all: 1031 bytes; recorded: 1000']);
  expect(faults({ '0.2.0': { ...record['0.2.0'], sizes: {} } }, now(1), { exact: false })).toHaveLength(1);
  expect(faults(record, now(1000), { exact: true })).toEqual([]);
  expect(faults(record, now(1001), { exact: true })).toEqual(['all: 1001 bytes; recorded: 1000']);
  expect(faults({ '0.1.0': record['0.1.0'] }, now(1000), { exact: false })).toEqual([
    'bench/record.json has no entry for 0.2.0',
  ]);
  const slow = { ...record, '0.2.0': made(1000, 1.2) };
  expect(faults(slow, now(1000), { exact: false })).toHaveLength(1);
  expect(faults({ ...slow, '0.2.0': { ...slow['0.2.0'], slower: 'exact now' } }, now(1000), { exact: false })).toEqual(
    [],
  );
});

it('knows a release by its tag, and in a clone without tags by a newer section of the changelog', () => {
  const changelog = '# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-01-31\n\n## 0.1.0 - 2025-12-01\n';
  const dated = changelog.replace('Unreleased', '0.3.0 - 2026-02-28'); // as it is while 0.3.0 is being released
  expect(releaseOf('0.2.0', { tags: ['v0.1.0', 'v0.2.0'], changelog })).toBe('the tag v0.2.0');
  expect(releaseOf('0.3.0', { tags: ['v0.3.0'], changelog: dated })).toBe('the tag v0.3.0');
  for (const tags of [[], ['v0.1.0', 'v0.2.0']]) {
    expect(releaseOf('0.3.0', { tags, changelog })).toBeNull();
    expect(releaseOf('0.3.0', { tags, changelog: dated })).toBeNull();
  }
  expect(releaseOf('0.2.0', { tags: [], changelog })).toBe("'## Unreleased' above it in CHANGELOG.md");
  expect(releaseOf('0.2.0', { tags: [], changelog: dated })).toBe("'## 0.3.0' above it in CHANGELOG.md");
});

it('requires a changelog with a date and the compiler', () => {
  const of = (text: string) => changelogFaults(text, { version: '0.2.0', compiler });
  expect(of('## 0.2.0 - 2026-01-31\n\nBuilt with Emscripten 3.1.69 (clang 19).\n')).toEqual([]);
  expect(of('## 0.2.0 - soon\n\nBuilt with Emscripten 3.1.6.\n')).toHaveLength(2);
  expect(of('## Unreleased\n')).toHaveLength(1);
});
