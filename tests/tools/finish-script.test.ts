/** What the build does to minified scripts: they mean the same. */
import { transformSync } from 'esbuild';
import { expect, test } from 'vitest';
import { finished } from '../../tools/finish-script.mjs';

const source = `
export function first(values) {
  if (values.length === 0) return values.length, 'none';
  const text = \`a line
and another: \${values.map((value) => value * 2).join('…')} 😀\`;
  for (const value of values) { switch (value) { case 1: return /[é-ü]/u.test(text); default: continue; } }
  return { text, list: [...values, 'ﬁ'], nested: { a: 1, b: [2, 3] } };
}
export class Named { #field = 1; static made = 0; get field() { return this.#field; } method(a, b) { throw new Error(a + b); } }
${Array.from({ length: 60 }, (_, i) => `export const value${i} = [${i}, 'é', { of: ${i} }].at(0);`).join('\n')}
`;

const { code: script } = transformSync(source, { minify: true, charset: 'utf8' });
const code = finished(script);

test('lines are short and ASCII', () => {
  expect(Math.max(...script.split('\n').map((line) => line.length))).toBeGreaterThan(1000);
  expect(Math.max(...code.split('\n').map((line: string) => line.length))).toBeLessThanOrEqual(500);
  expect(code).not.toMatch(/[^\0-\x7f]/);
});

test('the type of a worker is a string, as Parcel looks for one', () => {
  expect(finished('new Worker(u,{type:`module`});f({subtype:`module`})')).toBe(
    'new Worker(u,{type:"module"});f({subtype:`module`})',
  );
});

test('the script means the same', async () => {
  const load = (text: string) => import(`data:text/javascript,${encodeURIComponent(text)}`);
  const [before, after] = await Promise.all([load(script), load(code)]);
  expect(Object.keys(after)).toEqual(Object.keys(before));
  for (const values of [[], [1], [2, 3]]) expect(after.first(values)).toEqual(before.first(values));
  expect(after.value59).toBe(before.value59);
  expect(new after.Named().field).toBe(1);
});
