import { afterEach, expect, test, vi } from 'vitest';
import { ProgressLine } from '../../../web/src/cli/progress.js';

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

/** What is written to a standard error that is or is no terminal, while time goes on by `step` ms a report. */
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

test('a terminal shows how far it is and how fast, and is clean afterwards', () => {
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

test('many reports are one line each tenth of a second', () => {
  expect(written(true, 60).filter((text) => text.includes('embedded'))).toHaveLength(2);
});

test('a file or a pipe gets nothing', () => {
  expect(written(false, 500)).toEqual([]);
});
