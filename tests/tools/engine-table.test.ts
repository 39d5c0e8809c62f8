/** bench/ENGINES.md: what a run replaces. */
import { expect, test } from 'vitest';
import { rowsOf, withRows } from '../../bench/engine-table.mjs';

const measured = (ms: number, threads = 1) => ({
  build: 'relaxed-simd',
  threads,
  rows: ['fp32', 'q8'].map((dtype) => ({
    dtype,
    cells: [{ shape: [1, 128], ms, speedup: { median: 2, low: 1.5, high: 2.5 } }],
  })),
});
const tableOf = (text: string, cpu: string) => text.split('## ').find((section) => section.startsWith(`${cpu}\n`))!;
const rowsIn = (text: string, cpu: string) =>
  tableOf(text, cpu)
    .split('\n')
    .filter((line) => /^\| (Node|Firefox)/.test(line));

test('a row has the cells of the shapes that were measured', () => {
  expect(rowsOf('Firefox 153', measured(12.34), '2026-01-01')[0]).toBe(
    '| Firefox 153 | relaxed-simd | 1 | fp32 |  | 12.3 ms, 2.00 (1.50–2.50) |  |  | 2026-01-01 |',
  );
});

test("a run replaces the rows of its CPU's engine and number of threads, and no others", () => {
  let text = '';
  const run = (cpu: string, engine: string, ms: number, threads = 1) => {
    text = withRows(text, cpu, rowsOf(engine, measured(ms, threads), 'today'));
  };
  run('CPU A', 'Node 24.1.0', 1);
  run('CPU A', 'Node 22.1.0', 2);
  run('CPU A', 'Firefox 153', 3, 2);
  run('CPU A', 'Firefox 153', 4, 1);
  run('CPU B', 'Node 24.1.0', 5);
  run('CPU A', 'Node 24.2.0', 6);
  run('CPU A', 'Firefox 154', 7, 2);
  const names = (cpu: string) => rowsIn(text, cpu).map((row) => row.split(' | ').slice(0, 4).join(', ').slice(2));
  expect(names('CPU A')).toEqual(
    [
      'Firefox 153, relaxed-simd, 1',
      'Firefox 154, relaxed-simd, 2',
      'Node 22.1.0, relaxed-simd, 1',
      'Node 24.2.0, relaxed-simd, 1',
    ].flatMap((name) => [`${name}, fp32`, `${name}, q8`]),
  );
  expect(rowsIn(text, 'CPU A')[6]).toContain('6.0 ms');
  expect(names('CPU B')).toHaveLength(2);
  expect(rowsIn(text, 'CPU B')[0]).toContain('5.0 ms');
});
