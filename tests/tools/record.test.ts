import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { changelogFaults, faults, ratiosOf, slowdowns } from '../../tools/record.mjs';

const markdown = readFileSync(new URL('../../bench/RESULTS.md', import.meta.url), 'utf8');

it('reads the ratios of the results', () => {
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

const compiler = { emscripten: '3.1.69', clang: '19.1.7' };
const speed = (ratio: number, place = 'Node 24.1') => ({
  [place]: { 'heed / peer': { '1 x 16': 2, '1 x 128': ratio } },
});
const made = (bytes: number, ratio: number, place?: string) => ({
  compiler,
  sizes: { all: bytes },
  speed: speed(ratio, place),
});

it('finds what has become slower beside the same peers', () => {
  expect(slowdowns(made(1, 1.5), made(1, 1.43, 'Node 26.0'))).toEqual([]);
  expect(slowdowns(made(1, 1.5), made(1, 1.4, 'Node 26.0'))).toEqual(['Node 26.0: heed / peer, 1 x 128: 1.5 to 1.4']);
  expect(slowdowns(made(1, 1.5), made(1, 1.4, 'Chrome 200'))).toEqual([]);
});

it('compares sizes loosely between releases and to the byte for one', () => {
  const record = { '0.1.0': made(1000, 1.5), '0.2.0': made(1000, 1.5) };
  const now = (bytes: number) => ({ version: '0.2.0', ...made(bytes, 1.5) });
  expect(faults(record, now(1015), { exact: false })).toEqual([]);
  expect(faults(record, now(1030), { exact: false })).toEqual(['all: 1030 bytes, recorded are 1000']);
  expect(faults(record, now(1000), { exact: true })).toEqual([]);
  expect(faults(record, now(1001), { exact: true })).toEqual(['all: 1001 bytes, recorded are 1000']);
  expect(faults({ '0.1.0': record['0.1.0'] }, now(1000), { exact: false })).toEqual(['bench/record.json has no 0.2.0']);
  const slow = { ...record, '0.2.0': made(1000, 1.2) };
  expect(faults(slow, now(1000), { exact: false })).toHaveLength(1);
  expect(faults({ ...slow, '0.2.0': { ...slow['0.2.0'], slower: 'exact now' } }, now(1000), { exact: false })).toEqual(
    [],
  );
});

it('wants a dated changelog that names the compiler', () => {
  const of = (text: string) => changelogFaults(text, { version: '0.2.0', compiler });
  expect(of('## 0.2.0 - 2026-01-31\n\nBuilt with Emscripten 3.1.69 (clang 19).\n')).toEqual([]);
  expect(of('## 0.2.0 - soon\n\nBuilt with Emscripten 3.1.6.\n')).toHaveLength(2);
  expect(of('## Unreleased\n')).toHaveLength(1);
});
