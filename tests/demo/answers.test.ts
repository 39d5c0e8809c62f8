/** What `npm start` prints. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

test('the reverse dictionary offers no vulgar words', async () => {
  const script = fileURLToPath(new URL('../../examples/reverse-dictionary.mjs', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [...process.execArgv, script]);
  expect(stdout).toMatch(/an expected word is among the first ten for \d\d of \d\d descriptions/);
  expect(stdout).not.toMatch(/\bbugger\b/); // which is among the nearest words of one of the descriptions
});
