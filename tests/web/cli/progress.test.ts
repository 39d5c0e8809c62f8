import { afterEach, expect, test, vi } from 'vitest';
import { clock, Progress } from '../../../web/src/cli/progress.js';

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

const CLEAR = '\r\x1b[K';

/** Returns the output on standard error, with `step` ms between two updates. */
function written({
  isTTY = true,
  step = 500,
  columns = 80,
  fraction = (_: number): number | undefined => undefined,
  unit = 'texts',
  env = {},
}): string[] {
  const out: string[] = [];
  let now = 1000;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  vi.stubGlobal('process', { env, stderr: { isTTY, columns, write: (text: string) => out.push(text) } });
  using progress = new Progress('embedding', unit);
  for (let done = 1000; done <= 4000; done += 1000) {
    now += step;
    progress.update(done, fraction(done));
  }
  progress[Symbol.dispose]();
  return out;
}

test('a terminal shows the number and the rate, and the line is cleared at the end', () => {
  expect(written({})).toEqual([
    `${CLEAR}embedding 1,000 texts, 2,000 texts/s`,
    `${CLEAR}embedding 2,000 texts, 2,000 texts/s`,
    `${CLEAR}embedding 3,000 texts, 2,000 texts/s`,
    `${CLEAR}embedding 4,000 texts, 2,000 texts/s`,
    CLEAR,
  ]);
});

test('a known size adds a bar and the remaining time, once it can be told', () => {
  const lines = written({ fraction: (done) => done / 8000 });
  expect(lines[0]).toBe(`${CLEAR}embedding [###.................] 12 %, 1,000 texts, 2,000 texts/s`);
  expect(lines[3]).toBe(`${CLEAR}embedding [##########..........] 50 %, 4,000 texts, 2,000 texts/s, 0:02 left`);
});

test('bytes are shown as megabytes', () => {
  expect(written({ unit: 'bytes' })[3]).toBe(`${CLEAR}embedding 0.0 MB, 0.0 MB/s`);
});

test('narrow terminals get no bar, and never a line that wraps', () => {
  const fraction = (done: number) => done / 8000;
  expect(written({ columns: 60, fraction })[3]).toBe(`${CLEAR}embedding 50 %, 4,000 texts, 2,000 texts/s, 0:02 left`);
  expect(written({ columns: 20, fraction })[3]).toBe(`${CLEAR}embedding 50 %, 4,0`);
});

test('the line is updated at most every tenth of a second', () => {
  expect(written({ step: 60 }).filter((text) => text.includes('embedding'))).toHaveLength(2);
});

test('nothing is written to a file, a pipe or a dumb terminal', () => {
  expect(written({ isTTY: false })).toEqual([]);
  expect(written({ env: { TERM: 'dumb' } })).toEqual([]);
});

test.each([
  [0, '0:00'],
  [59.2, '1:00'],
  [61, '1:01'],
  [3600 + 62, '1:01:02'],
])('%d seconds are %s', (seconds, text) => {
  expect(clock(seconds)).toBe(text);
});
