/** No source file, script or test is longer than 400 lines. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

test('no file of code has more than 400 lines', () => {
  const files = execFileSync('git', ['ls-files', '*.cpp', '*.h', '*.ts', '*.tsx', '*.mts', '*.mjs', '*.py', '*.css'], {
    encoding: 'utf8',
  });
  const tooLong = files
    .trim()
    .split('\n')
    .map((file) => [file, readFileSync(file, 'utf8').split('\n').length - 1] as const)
    .filter(([, lines]) => lines > 400);
  expect(tooLong).toEqual([]);
});
