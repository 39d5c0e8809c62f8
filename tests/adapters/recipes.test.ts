/** Runs the programs in examples/recipes/ with the real databases, as a user would who has copied them. tests/package/recipes.test.ts has the pages. */
import { execFile } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, expect, test } from 'vitest';
import { root } from './support.js';

const folder = join(root, 'tests/adapters/apps/recipes');
const recipes = fs
  .readdirSync(join(root, 'examples/recipes'))
  .filter((name) => name.endsWith('.mjs') && name !== 'notes.mjs');

beforeAll(() => {
  fs.rmSync(folder, { recursive: true, force: true });
  fs.cpSync(join(root, 'examples/recipes'), folder, { recursive: true });
});

test.each(recipes)('%s finds the notes that the questions are about', async (name) => {
  const { stdout } = await promisify(execFile)(process.execPath, [join(folder, name)], { maxBuffer: 2 ** 24 });
  expect(stdout.trim().split('\n')).toEqual([
    'preparing a meal -> Fry the onions, then add the rice and the stock.',
    'classical music concert -> The orchestra played a symphony by Mahler.',
    'a pet taking a nap -> The cat sleeps on the sofa all afternoon.',
  ]);
});
