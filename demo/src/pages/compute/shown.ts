/** What the page shows of a result: its head, and numbers with as many digits as it takes for the arithmetic to hold. */
import { agrees, decimal, digitsFor } from '../../components/numbers';
import type { Matrix, StepsInput, StepsResult } from '../../engine/hand';
import { hand } from './state';

export interface StepProps {
  input: StepsInput;
  result: StepsResult;
}

/** The index of the selected head. */
export const headOf = ({ heads }: StepsResult): number => Math.min(hand.head.value, heads.length - 1);

export const widthOf = (rows: Matrix): number => rows[0]!.length;

/** How scores are scaled: divided by √2, or multiplied by 0.8. */
export function scaling({ input, result }: StepProps): { word: string; sign: string; by: string } {
  if (input.scale === null)
    return { word: 'divided', sign: '÷', by: `√${widthOf(result.heads[headOf(result)]!.query)}` };
  const digits = digitsFor((rounded) => rounded(result.scale) === result.scale);
  return { word: 'multiplied', sign: '×', by: decimal(result.scale, digits) };
}

/** The digits of a score before scaling. */
export const scoreDigits = (score: number, scale: number): number =>
  digitsFor((rounded) => agrees(rounded(score) * scale, score * scale));
