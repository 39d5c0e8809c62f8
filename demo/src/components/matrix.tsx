/**
 * A matrix as an accessible grid with one tab stop and arrow key navigation. Cells are tinted by value and highlighted by the shared focus.
 * With `onEdit`, the numbers can be edited; with `onPaint`, the cells are toggle buttons, and dragging the mouse sets several.
 */
import type { ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { hasMoved } from '../state/pointer';
import { clamped, steps } from './arrow-keys';
import { type Focus, type FocusState, sameFocus } from './focus';
import { Formula } from './formula';
import { decimal } from './numbers';
import { useMovedPlaces } from './places';

export interface Axis {
  /** The names of the axes that highlight this side; pointing at a cell focuses the first. */
  axes: string[];
  labels: string[];
  /** The position of each row or column on its axis, if it is not its index, as for shuffled keys. */
  places?: number[];
}

export interface MatrixProps {
  /** In MathML. */
  symbol: ComponentChildren;
  /** The accessible name, also the tooltip of the heading. */
  caption: string;
  /** A short note next to the symbol. */
  note?: string | undefined;
  values: number[][];
  rows: Axis;
  columns: Axis;
  focus: FocusState;
  /** The tint. signed: by sign and magnitude; weight: 0 to 1; mask: allowed or masked; plain: none. */
  tone?: 'signed' | 'weight' | 'mask' | 'plain';
  role?: 'query' | 'key' | 'value';
  /** The weight of each row for the focused query, which tints the row's name. */
  strength?: number[] | undefined;
  onEdit?: (row: number, column: number, value: number) => void;
  /** Sets a cell to allowed (1) or masked (0). */
  onPaint?: (row: number, column: number, value: 0 | 1) => void;
  id?: string;
}

export function Matrix({
  symbol,
  caption,
  note,
  values,
  rows,
  columns,
  focus,
  tone = 'signed',
  role,
  strength,
  onEdit,
  onPaint,
  id,
}: MatrixProps) {
  const table = useRef<HTMLTableElement>(null);
  const [active, setActive] = useState<[number, number]>([0, 0]);
  /** The value that dragging sets. */
  const brush = useRef<0 | 1 | null>(null);
  useMovedPlaces(table, rows.places, columns.places);
  const height = values.length;
  const width = values[0]?.length ?? 0;
  const largest = tone === 'weight' ? 1 : Math.max(1e-9, ...values.flat().map(Math.abs).filter(Number.isFinite));
  const current = focus.current.value;
  const placeOn = ({ places }: Axis, index: number): number => places?.[index] ?? index;
  const lit = (side: Axis, index: number): boolean => side.axes.some((axis) => current[axis] === placeOn(side, index));
  const focusAt = (row: number, column: number): Focus => ({
    [rows.axes[0]!]: placeOn(rows, row),
    [columns.axes[0]!]: placeOn(columns, column),
  });

  const cellOf = (target: EventTarget | null): [number, number] | undefined => {
    const cell = (target as HTMLElement | null)?.closest<HTMLElement>('td');
    return cell ? [Number(cell.dataset.row), Number(cell.dataset.column)] : undefined;
  };
  const point = (event: Event) => {
    const at = cellOf(event.target);
    if (!at) return;
    if (brush.current !== null && event instanceof PointerEvent) {
      if (event.buttons === 1) onPaint?.(...at, brush.current);
      else brush.current = null;
    }
    const next = focusAt(...at);
    if (!focus.hovered.value || !sameFocus(focus.hovered.value, next)) focus.hovered.value = next;
  };
  const pin = (event: Event) => {
    const at = cellOf(event.target);
    if (!at) return;
    const next = focusAt(...at);
    focus.pinned.value = sameFocus(focus.pinned.value, next) ? {} : next;
  };
  const press = (event: PointerEvent) => {
    const at = cellOf(event.target);
    if (!at || event.pointerType !== 'mouse' || event.button !== 0) return;
    brush.current = values[at[0]]![at[1]] ? 0 : 1;
    onPaint!(...at, brush.current);
  };
  const toggle = (event: Event) => {
    const at = cellOf(event.target);
    // With a mouse, the cell was set on pointerdown; keyboard and touch only cause a click.
    if (at && brush.current === null) onPaint!(...at, values[at[0]]![at[1]] ? 0 : 1);
    brush.current = null;
  };
  const leave = () => {
    focus.hovered.value = null;
  };
  const move = (event: KeyboardEvent) => {
    const step = steps[event.key];
    const at = cellOf(event.target);
    if ((event.key === 'Enter' || event.key === ' ') && event.target instanceof HTMLTableCellElement) {
      event.preventDefault();
      pin(event);
    }
    if (!step || !at) return;
    event.preventDefault();
    const row = clamped(at[0] + step[0], height);
    const column = clamped(at[1] + step[1], width);
    setActive([row, column]);
    const cell = table.current!.querySelector<HTMLElement>(`td[data-row="${row}"][data-column="${column}"]`)!;
    (cell.querySelector<HTMLElement>('input, button') ?? cell).focus();
  };
  const tabIndex = (row: number, column: number) =>
    row === Math.min(active[0], height - 1) && column === Math.min(active[1], width - 1) ? 0 : -1;

  const content = (row: number, column: number, value: number) => {
    const label = `${rows.labels[row]}, ${columns.labels[column]}`;
    if (onPaint) {
      return (
        <button type="button" tabIndex={tabIndex(row, column)} aria-pressed={value !== 0} aria-label={label}>
          {value ? '✓' : '−∞'}
        </button>
      );
    }
    if (onEdit) {
      const edit = (next: number) => onEdit(row, column, next);
      return (
        <NumberInput label={`${caption}: ${label}`} value={value} tabIndex={tabIndex(row, column)} onChange={edit} />
      );
    }
    return tone === 'mask' ? (value ? '✓' : '−∞') : decimal(value);
  };

  return (
    <figure class={`matrix ${role ?? ''}`} id={id}>
      <figcaption title={caption}>
        <Formula>{symbol}</Formula>
        {note && <span class="note">{note}</span>}
      </figcaption>
      <table
        ref={table}
        // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: the grid pattern, which a table carries best
        role="grid"
        aria-label={caption}
        aria-readonly={!onEdit}
        onPointerMove={(event) => hasMoved(event) && point(event)}
        onPointerLeave={() => {
          leave();
          brush.current = null;
        }}
        onFocusIn={point}
        onFocusOut={leave}
        onKeyDown={move}
        onPointerDown={onPaint && press}
        onClick={onPaint ? toggle : onEdit ? undefined : pin}
      >
        <thead>
          <tr>
            <th>
              <span class="unseen">{rows.axes[0]}</span>
            </th>
            {columns.labels.slice(0, width).map((label, column) => (
              <th key={column} scope="col" class={lit(columns, column) ? 'lit' : ''} title={titleOf(label)}>
                {label}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {values.map((entries, row) => (
            <tr key={row} class={lit(rows, row) ? 'lit' : ''}>
              <th
                scope="row"
                class={strength && 'taken'}
                title={titleOf(rows.labels[row]!)}
                style={{ '--share': strength?.[row] ?? 0 }}
              >
                {rows.labels[row]}
              </th>
              {entries.map((value, column) => (
                <td
                  key={column}
                  data-row={row}
                  data-column={column}
                  tabIndex={onEdit || onPaint ? undefined : tabIndex(row, column)}
                  class={cellClass(tone, value, lit(rows, row), lit(columns, column))}
                  style={{ '--heat': tone === 'plain' || tone === 'mask' ? 0 : Math.min(1, Math.abs(value) / largest) }}
                >
                  {content(row, column, value)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}

/** Long names are cut off. */
const titleOf = (label: string): string | undefined => (label.length > 8 ? label : undefined);

function cellClass(tone: string, value: number, rowLit: boolean, columnLit: boolean): string {
  const classes = [tone];
  if (tone === 'mask' || value === -Infinity)
    classes.push(value === 0 || value === -Infinity ? 'forbidden' : 'allowed');
  else classes.push(value < 0 ? 'negative' : 'positive');
  if (rowLit || columnLit) classes.push('lit');
  if (rowLit && columnLit) classes.push('crossed');
  return classes.join(' ');
}

interface NumberInputProps {
  label: string;
  value: number;
  tabIndex: number;
  onChange: (value: number) => void;
}

/** Keeps incomplete input such as "-" or "1." while typing; Enter or leaving the field restores the current value. */
function NumberInput({ label, value, tabIndex, onChange }: NumberInputProps) {
  const [draft, setDraft] = useState<string | null>(null);
  const parsed = draft === null ? value : parseNumber(draft);
  const shown = draft ?? String(value).replace('-', '−');
  return (
    <input
      type="text"
      inputMode="decimal"
      autocomplete="off"
      aria-label={label}
      aria-invalid={parsed === undefined}
      tabIndex={tabIndex}
      value={shown}
      style={{ '--characters': shown.length }}
      onFocus={(event) => event.currentTarget.select()}
      onInput={(event) => {
        const text = event.currentTarget.value;
        setDraft(text);
        const next = parseNumber(text);
        if (next !== undefined) onChange(next);
      }}
      onBlur={() => setDraft(null)}
      onKeyDown={(event) => {
        if (event.key === 'Enter') setDraft(null);
      }}
    />
  );
}

function parseNumber(text: string): number | undefined {
  const value = Number(text.trim().replace(',', '.').replace('−', '-'));
  return text.trim() !== '' && Math.abs(value) <= 1000 ? value : undefined;
}
