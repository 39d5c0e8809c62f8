/** Animates rows and columns to their new positions. */
import type { RefObject } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

const glide = { duration: 500, easing: 'cubic-bezier(0.3, 0, 0.2, 1)' };

/** `rows` and `columns` are the positions of the table's rows and columns on their axes; undefined if they never move. */
export function useMovedPlaces(
  table: RefObject<HTMLTableElement | null>,
  rows: number[] | undefined,
  columns: number[] | undefined,
): void {
  const before = useRef({ rows, columns });
  useLayoutEffect(() => {
    const { rows: rowsBefore, columns: columnsBefore } = before.current;
    before.current = { rows, columns };
    if (matchMedia('(prefers-reduced-motion: reduce)').matches) return;
    const heads = [...table.current!.tHead!.rows[0]!.cells].slice(1);
    const bodies = [...table.current!.tBodies[0]!.rows];
    for (const [to, from] of moves(columnsBefore, columns)) {
      const by = heads[from]!.offsetLeft - heads[to]!.offsetLeft;
      for (const row of [heads, ...bodies.map((body) => [...body.cells].slice(1))]) slide(row[to]!, `${by}px 0`);
    }
    for (const [to, from] of moves(rowsBefore, rows)) {
      const by = bodies[from]!.offsetTop - bodies[to]!.offsetTop;
      for (const cell of bodies[to]!.cells) slide(cell, `0 ${by}px`);
    }
  }, [rows?.join(), columns?.join()]);
}

function moves(before: number[] | undefined, now: number[] | undefined): [to: number, from: number][] {
  if (!before || !now || before.length !== now.length) return [];
  return now
    .map((place, to): [number, number] => [to, before.indexOf(place)])
    .filter(([to, from]) => from >= 0 && from !== to);
}

const slide = (cell: Element, from: string) => cell.animate({ translate: [from, '0 0'] }, glide);
