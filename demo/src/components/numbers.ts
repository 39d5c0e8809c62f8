/** Formats numbers for readers, with a true minus sign. */

export function decimal(value: number, digits = 2): string {
  if (!Number.isFinite(value)) return value === -Infinity ? '−∞' : String(value);
  const text = value.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text.replace('-', '−');
}

/** With up to these digits, at least two: 0.7236, but 2.20. */
export const precise = (value: number, digits: number): string =>
  decimal(value, digits).replace(/(\.\d\d\d*?)0+$/, '$1');

/** Whether a result, shown with these digits, is what arithmetic with the other numbers that are shown gives. */
export const agrees = (computed: number, result: number, digits = 2): boolean =>
  Math.abs(computed - Number(result.toFixed(digits))) <= 0.5 * 10 ** -digits + 1e-6;

/**
 * The fewest digits, from 2 to 6, with which the arithmetic on the page holds for readers who compute it again. `holds` gets a
 * function that rounds to that many digits.
 */
export function digitsFor(holds: (rounded: (value: number) => number) => boolean): number {
  let digits = 2;
  while (digits < 6 && !holds((value) => Number(value.toFixed(digits)))) digits++;
  return digits;
}

export const percent = (share: number, digits = 0): string => `${(100 * share).toFixed(digits)} %`;

export const count = (value: number): string => Math.round(value).toLocaleString('en');

export function bytes(size: number): string {
  if (size < 1000) return `${size} B`;
  const [unit, divisor] = size < 1e6 ? ['KB', 1e3] : size < 1e9 ? ['MB', 1e6] : ['GB', 1e9];
  return `${(size / (divisor as number)).toFixed(size / (divisor as number) < 10 ? 1 : 0)} ${unit}`;
}

export const milliseconds = (time: number): string => (time < 10 ? `${time.toFixed(1)} ms` : `${Math.round(time)} ms`);

/** "1 word", "2 words" */
export const plural = (amount: number, noun: string): string => `${count(amount)} ${noun}${amount === 1 ? '' : 's'}`;

export const short = (line: string, length = 48): string =>
  line.length > length ? `${line.slice(0, length - 1)}…` : line;
