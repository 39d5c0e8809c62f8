/** What is printed for people: colours, tables, and their fit into the terminal. Nothing here changes what is printed with --json. */
import { styleText } from 'node:util';
import truncatedWidth from 'fast-string-truncated-width';

/** What the options of the whole program say (main.ts). */
export const settings = { quiet: false, color: true };

/** Whether text for `stream` is coloured: on terminals, unless NO_COLOR, FORCE_COLOR or --no-color say otherwise. */
export function hasColors(stream: NodeJS.WriteStream): boolean {
  const { NO_COLOR, FORCE_COLOR } = process.env;
  if (!settings.color || NO_COLOR) return false;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  return stream.isTTY === true && stream.hasColors();
}

export type Style = Parameters<typeof styleText>[0];

// Node 20.16 has no third parameter; newer versions would look at standard output by themselves.
const styled = styleText as (style: Style, text: string, options: { validateStream: boolean }) => string;

export function paint(style: Style, text: string, stream: NodeJS.WriteStream = process.stdout): string {
  return hasColors(stream) ? styled(style, text, { validateStream: false }) : text;
}

/** The columns of a terminal; for files and pipes, without a limit. */
export function widthOf(stream: NodeJS.WriteStream): number {
  return stream.isTTY ? stream.columns || 80 : Infinity; // a terminal without a known size says 0
}

/** The number of columns that a text takes, where wide characters take two. */
export const displayWidth = (text: string): number => truncatedWidth(text).width;

/** The line of progress on standard error, if one is shown. */
export const progressLine = { clear: () => {} };

/** Writes a message for people to standard error, on a line of its own. `style`: of the program's name before it. */
export function notice(message: string, style?: Style): void {
  progressLine.clear();
  const name = style ? paint(style, 'heed:', process.stderr) : 'heed:';
  process.stderr.write(`${name} ${message}\n`);
}

/** A text without line breaks and other control characters, which could change the terminal's state. */
export const inOneLine = (text: string): string => text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ');

/** `text`, cut to `width` columns. */
export function truncate(text: string, width: number): string {
  const { index, ellipsed } = truncatedWidth(text, { limit: width, ellipsis: '…' });
  return ellipsed ? `${text.slice(0, index)}…` : text.slice(0, index);
}

/** '1 text', '2,000 texts'. */
export const counted = (n: number, what: string): string => `${n.toLocaleString('en')} ${what}${n === 1 ? '' : 's'}`;

export function print(line: string): void {
  if (process.stdout.isTTY) progressLine.clear();
  process.stdout.write(`${line}\n`);
}

/** Prints `value` as one line of JSON. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value));
}

/** Prints rows of cells as aligned columns, the first of them in `style`. Rows are cut to the terminal's width, and not cut for files and pipes. */
export function printTable(rows: readonly (readonly string[])[], style: Style = 'bold'): void {
  const cells = rows.map((row) => row.map(inOneLine));
  const widths = [0];
  for (const row of cells)
    row.forEach((cell, i) => {
      widths[i] = Math.max(widths[i] ?? 0, displayWidth(cell));
    });
  for (const row of cells) {
    const padded = row.map((cell, i) =>
      i === row.length - 1 ? cell : cell + ' '.repeat(widths[i]! - displayWidth(cell)),
    );
    const line = truncate(padded.join('  '), widthOf(process.stdout));
    const first = Math.min(row[0]!.length, line.length);
    print(paint(style, line.slice(0, first)) + line.slice(first));
  }
}
