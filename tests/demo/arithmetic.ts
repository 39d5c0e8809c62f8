/** The arithmetic that “By hand” shows, computed again from the digits that are shown. */
import { expect } from 'vitest';
import { shownWithin } from './site';

/** The value of an expression of the page, for example “2 × (0.50 + 1.25) ÷ √4”. */
const evaluated = (shown: string) =>
  Number(
    new Function(
      `return ${shown
        .replaceAll('−', '-')
        .replaceAll('×', '*')
        .replaceAll('÷', '/')
        .replace(/e(-?[\d.]+)/g, 'Math.exp($1)')
        .replace(/√(\d+)/g, 'Math.sqrt($1)')}`,
    )(),
  );
const shownAs = (text: string) => Number(text.replace('−', '-'));

/** Fails unless the shown digits give the shown results, in the sentences about cells and in the lines of arithmetic. */
export function expectToHold({ sentences, lines }: { sentences: string[]; lines: string[] }): void {
  let checked = 0;
  for (const sentence of sentences) {
    const found = /q · k = (\S+); (divided|multiplied) by (\S+), the score is (\S+);/.exec(sentence);
    if (!found) continue;
    const [, product, how, by, score] = found as unknown as [string, string, string, string, string];
    const computed = evaluated(`${product} ${how === 'divided' ? '÷' : '×'} ${by}`);
    expect(Math.abs(computed - shownAs(score)), sentence).toBeLessThan(shownWithin);
    checked++;
  }
  expect(checked).toBeGreaterThan(3);
  for (const line of lines) {
    if (line.includes('…')) continue;
    const [, terms, sum, sign, by, score] = /= (.*?) = (\S+); ([×÷]) (\S+) = (\S+)$/.exec(line) ?? [];
    if (terms) {
      const digits = sum!.split('.')[1]!.length;
      expect(Math.abs(evaluated(terms) - shownAs(sum!)), line).toBeLessThan(0.501 * 10 ** -digits);
      expect(Math.abs(evaluated(`${sum} ${sign} ${by}`) - shownAs(score!)), line).toBeLessThan(shownWithin);
    }
    const [, quotient, weight] = /^(e\S+ ÷ \(.*\)) = ([\d.]+)$/.exec(line) ?? [];
    if (quotient) expect(Math.abs(evaluated(quotient) - shownAs(weight!)), line).toBeLessThan(shownWithin);
    checked += Number(terms !== undefined) + Number(quotient !== undefined);
  }
  expect(checked).toBeGreaterThan(10);
}
