/** Activations by the names of transformers' ACT2FN (tests/fixtures/families/activations.py). */
import { readFileSync } from 'node:fs';
import { load } from 'heed';
import { expect, test } from 'vitest';
import { type Activation, PUBLISHED_NAMES } from '../../../web/src/base/activations.js';

const file = new URL('../../fixtures/families/activations.json', import.meta.url);
const { x, values } = JSON.parse(readFileSync(file, 'utf8')) as { x: number[]; values: Record<string, number[]> };
const REFUSED = ['prelu', 'xielu', 'sqrtsoftplus'];

test('every name of transformers has an activation or is refused', () => {
  const known = [...Object.values(PUBLISHED_NAMES).flat(), ...REFUSED];
  expect(known.sort()).toEqual(Object.keys(values).sort());
});

const names = Object.entries(PUBLISHED_NAMES).flatMap(([own, all]) =>
  all.map((name) => ({ name, own: own as Activation })),
);

test.each(names)("'$name' has transformers' values", async ({ name, own }) => {
  const heed = await load();
  const rows = heed.linear(
    x.map((each) => [each]),
    { weight: [[1]], activation: own },
  ).data;
  for (const [i, expected] of values[name]!.entries())
    expect(Math.abs(rows[i]! - expected), `${name}(${x[i]})`).toBeLessThanOrEqual(1e-6 + 4e-7 * Math.abs(expected));
});
