import { afterEach, expect, test, vi } from 'vitest';
import { ProgressLine } from '../../../web/src/cli/progress.js';

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

/** What is written to standard error, with `step` ms between two updates. */
function written(isTTY: boolean, step: number, total?: number): string[] {
  const out: string[] = [];
  let now = 1000;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  vi.stubGlobal('process', {
    stderr: { isTTY, write: (text: string) => out.push(text) },
  });
  const line = new ProgressLine('texts embedded', total);
  for (let done = 1000; done <= 4000; done += 1000) {
    now += step;
    line.update(done);
  }
  line.end();
  return out;
}

test('a terminal shows progress and rate, and the line is cleared at the end', () => {
  expect(written(true, 500)).toEqual([
    '\r\x1b[Ktexts embedded: 1,000, 2,000 a second',
    '\r\x1b[Ktexts embedded: 2,000, 2,000 a second',
    '\r\x1b[Ktexts embedded: 3,000, 2,000 a second',
    '\r\x1b[Ktexts embedded: 4,000, 2,000 a second',
    '\r\x1b[K',
  ]);
  expect(written(true, 500, 4000)[1]).toBe(
    '\r\x1b[Ktexts embedded: 2,000 [##########..........] of 4,000, 2,000 a second',
  );
});

test('the line is updated at most every tenth of a second', () => {
  expect(written(true, 60).filter((text) => text.includes('embedded'))).toHaveLength(2);
});

test('nothing is written to a file or a pipe', () => {
  expect(written(false, 500)).toEqual([]);
});
