/** Human-readable output: colours, tables, and fitting them to the terminal. Does not affect the output of --json. */
import { styleText } from 'node:util';
import truncatedWidth from 'fast-string-truncated-width';

/** The options of the whole program (main.ts). */
export const settings = { quiet: false, color: true };

/** Whether text for `stream` is coloured: on terminals, unless overridden by NO_COLOR, FORCE_COLOR or --no-color. */
export function hasColors(stream: NodeJS.WriteStream): boolean {
  const { NO_COLOR, FORCE_COLOR } = process.env;
  if (!settings.color || NO_COLOR) return false;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  return stream.isTTY === true && stream.hasColors();
}

export type Style = Parameters<typeof styleText>[0];

// Node 20.16 has no third parameter. Newer versions would otherwise check standard output themselves.
const styled = styleText as (style: Style, text: string, options: { validateStream: boolean }) => string;

export function paint(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return hasColors(stream) ? styled(style, text, { validateStream: false }) : text;
}

/** The number of columns of a terminal; Infinity for files and pipes. */
export function widthOf(stream: NodeJS.WriteStream): number {
  return stream.isTTY ? stream.columns || 80 : Infinity; // 0 if the terminal's size is unknown
}

/** The number of columns of a text. Wide characters have two. */
export const displayWidth = (text: string): number => truncatedWidth(text).width;

/** The current progress line on standard error. `clear` does nothing if none is shown. */
export const progressLine = { clear: () => {} };

/** Writes a message to standard error, on its own line. `style`: style of the program's name before it. */
export function notice(message: string, style?: Style): void {
  progressLine.clear();
  const name = style ? paint(style, 'heed:', process.stderr) : 'heed:';
  process.stderr.write(`${name} ${message}\n`);
}

/** Replaces line breaks and other control characters, which could change the terminal's state, by spaces. */
export const inOneLine = (text: string): string => text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ');

export function truncate(text: string, width: number): string {
  const { index, ellipsed } = truncatedWidth(text, { limit: width, ellipsis: '…' });
  return ellipsed ? `${text.slice(0, index)}…` : text.slice(0, index);
}

/** Formats a count: '1 text', '2,000 texts'. */
export const counted = (n: number, what: string): string => `${n.toLocaleString('en')} ${what}${n === 1 ? '' : 's'}`;

export function print(line: string): void {
  if (process.stdout.isTTY) progressLine.clear();
  process.stdout.write(`${line}\n`);
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value));
}

/** Aligns cells in columns. `numbers`: whether the columns after the first one are aligned to the right. */
export function aligned(rows: readonly (readonly string[])[], { numbers = false } = {}): string[] {
  const widths: number[] = [];
  for (const row of rows)
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, displayWidth(cell));
  return rows.map((row) => {
    const padded = row.map((cell, i) => {
      const space = ' '.repeat(widths[i]! - displayWidth(cell));
      return numbers && i > 0 ? space + cell : cell + space;
    });
    return padded.join('  ').trimEnd();
  });
}

/**
 * Prints rows of cells as aligned columns, the first column in `style`. Rows are truncated to the terminal's width, but
 * not in files and pipes.
 */
export function printTable(rows: readonly (readonly string[])[], style: Style = 'bold'): void {
  const cells = rows.map((row) => row.map(inOneLine));
  for (const [n, full] of aligned(cells).entries()) {
    const line = truncate(full, widthOf(process.stdout));
    const first = Math.min(cells[n]![0]!.length, line.length);
    print(paint(style, line.slice(0, first)) + line.slice(first));
  }
}
