/** Runs the programs in examples/recipes/databases with the real databases, as a user would who has copied them. tests/package/recipes.test.ts has the pages. */
import { execFile } from 'node:child_process';
import * as fs from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { root } from './support.js';

const folder = join(root, 'tests/adapters/apps/recipes');
const { scripts } = JSON.parse(fs.readFileSync(join(root, 'examples/recipes/databases/package.json'), 'utf8'));

beforeAll(() => {
  fs.rmSync(folder, { recursive: true, force: true });
  fs.cpSync(join(root, 'examples/recipes/databases'), folder, { recursive: true });
});

test('every program has a script', () => {
  const programs = fs.readdirSync(folder).filter((name) => name.endsWith('.mjs') && name !== 'notes.mjs');
  expect(Object.values(scripts).sort()).toEqual(programs.map((name) => `node ${name}`).sort());
});

test.each(Object.keys(scripts))('npm run %s finds the notes that the questions are about', async (name) => {
  const env = { ...process.env, PATH: dirname(process.execPath) + delimiter + process.env.PATH }; // this Node, not another
  const { stdout } = await promisify(execFile)('npm', ['run', '-s', name], { cwd: folder, env, maxBuffer: 2 ** 24 });
  expect(stdout.trim().split('\n')).toEqual([
    'preparing a meal -> Fry the onions, then add the rice and the stock.',
    'classical music concert -> The orchestra played a symphony by Mahler.',
    'a pet taking a nap -> The cat sleeps on the sofa all afternoon.',
  ]);
});
