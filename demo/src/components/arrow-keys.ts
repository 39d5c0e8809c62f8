/** Arrow keys in grids that have one tab stop. */

/** Rows and columns by which a key moves the focus. */
export const steps: Record<string, readonly [rows: number, columns: number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  Home: [0, -1000],
  End: [0, 1000],
};

export const clamped = (index: number, length: number): number => Math.max(0, Math.min(length - 1, index));

/** Moves the focus from a button or checkbox to the next one of the same kind; `row` selects the rows below the listening element. */
export function moveInRows(event: KeyboardEvent, row: string): void {
  const step = steps[event.key];
  const from = event.target as HTMLElement;
  if (!step) return;
  const rows = [...(event.currentTarget as HTMLElement).querySelectorAll(row)].map((one) => [
    ...one.querySelectorAll<HTMLElement>(from.localName),
  ]);
  const at = rows.findIndex((one) => one.includes(from));
  if (at < 0) return;
  event.preventDefault();
  const to = rows[clamped(at + step[0], rows.length)]!;
  to[clamped(rows[at]!.indexOf(from) + step[1], to.length)]!.focus();
}
