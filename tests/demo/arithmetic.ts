/** The arithmetic that “Compute” shows for a cell, computed again from the digits that are shown. */
import { expect } from 'vitest';
import type { Engine } from '../browsers/engines.mjs';
import { shownWithin } from './site';

/** What the page shows of one cell, as text. */
export interface ShownCell {
  heading: string;
  /** The rows of the query, the key and their products. */
  products: string[][];
  score: string;
  softmax: string;
  /** One row per key: its weight and its value. */
  average: [weight: string, value: string][];
  output: string;
}

/** The cells of the attention matrix, each read after it has been selected; of an example if `example` names one. */
export const readCells = (engine: Engine, example: string | undefined): Promise<ShownCell[]> =>
  engine.evaluate(async (example) => {
    if (example) {
      buttonOf(example)!.click();
      await until(() => buttonOf(example)!.ariaPressed === 'true');
    }
    for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame);
    await until(() => !document.querySelector('.waiting, .plot:empty') && document.getAnimations().length === 0);
    const text = (element: Element | null) => element!.textContent!.trim();
    const cells: ShownCell[] = [];
    for (const cell of document.querySelectorAll<HTMLElement>('#attention td')) {
      cell.focus();
      await new Promise((resolve) => setTimeout(resolve)); // the page draws
      cells.push({
        heading: text(document.querySelector('#cell')),
        products: [...document.querySelectorAll('#products tr')].map((row) =>
          [...row.querySelectorAll('td')].map(text),
        ),
        score: text(document.querySelector('#score')),
        softmax: text(document.querySelector('#softmax')),
        average: [...document.querySelectorAll('#average tbody tr')].map((row) => {
          const [share, value] = row.querySelectorAll('td');
          return [text(share!), text(value!)];
        }),
        output: text(document.querySelector('#average tfoot td')),
      });
    }
    return cells;
  }, example);

const numbersIn = (text: string): number[] =>
  [...text.matchAll(/−?\d+(\.\d+)?/g)].map(([found]) => Number(found.replace('−', '-')));
const digitsOf = (text: string): number => (text.split('.')[1] ?? '').length;
const sumOf = (numbers: number[]): number => numbers.reduce((sum, number) => sum + number, 0);

/** The value of an expression of the page, for example “e^0.5 ÷ (e^1 + e^0.25)”, where a superscript follows its base. */
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

/** Fails unless the digits that are shown give the results that are shown. */
export function expectCellToHold(cell: ShownCell): void {
  const message = JSON.stringify(cell);
  const [query, key, products] = cell.products.map((row) => row.map((text) => numbersIn(text)[0]!)) as [
    number[],
    number[],
    number[],
  ];
  const [, sum, sign, by, score] = /q · k = (\S+); ([×÷]) (\S+) = (\S+)$/.exec(cell.score)!;
  const digits = digitsOf(sum!);
  const exact = query.map((entry, i) => entry * key[i]!);
  expect(Math.abs(sumOf(exact) - numbersIn(sum!)[0]!), message).toBeLessThan(0.501 * 10 ** -digits + 1e-6);
  for (const [i, text] of cell.products[2]!.entries())
    expect(Math.abs(exact[i]! - products[i]!), message).toBeLessThan(
      2 * 10 ** -Math.max(2, digitsOf(text)) + shownWithin,
    );
  expect(Math.abs(evaluated(`${sum} ${sign} ${by}`) - numbersIn(score!)[0]!), message).toBeLessThan(shownWithin);
  const [, quotient, weight] = /^Softmax (e\S+ ÷ \(.*\)) = ([\d.]+)$/.exec(cell.softmax) ?? [];
  if (quotient && !quotient.includes('…'))
    expect(Math.abs(evaluated(quotient) - Number(weight)), message).toBeLessThan(shownWithin);
  if (weight) expect(cell.heading, message).toContain(`Weight ${weight}: `);
  if (cell.average.some(([, value]) => value.includes('…'))) return;
  const shares = cell.average.map(([share]) => numbersIn(share)[0]!);
  const values = cell.average.map(([, value]) => numbersIn(value));
  for (const [j, entry] of numbersIn(cell.output).entries())
    expect(Math.abs(sumOf(shares.map((share, i) => share * values[i]![j]!)) - entry), message).toBeLessThan(
      shownWithin,
    );
}
