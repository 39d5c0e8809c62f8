/**
 * The focus that matrices share. Each axis of a matrix has a name (query, key, feature ...), as in einsum. Pointing at a cell
 * focuses one index on each of its two axes, and every matrix with one of these axes highlights the same index.
 */
import { computed, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import type { Codec } from '../state/url';

export type Focus = Readonly<Record<string, number>>;

export interface FocusState {
  /** Set by the pointer or the keyboard focus. */
  hovered: Signal<Focus | null>;
  /** Set by a click; part of the link. */
  pinned: Signal<Focus>;
  current: ReadonlySignal<Focus>;
}

export function focusState(pinned: Signal<Focus>): FocusState {
  const hovered = signal<Focus | null>(null);
  return { hovered, pinned, current: computed(() => hovered.value ?? pinned.value) };
}

export const sameFocus = (a: Focus, b: Focus): boolean =>
  Object.keys({ ...a, ...b }).every((axis) => a[axis] === b[axis]);

/** For example `query:1,key:2`; empty if nothing is focused. */
export const focusCodec: Codec<Focus> = {
  read(text) {
    if (text === '') return {};
    const entries = text.split(',').map((part) => part.split(':'));
    const valid = entries.every(([axis, index]) => /^[a-z]+$/.test(axis ?? '') && /^\d{1,3}$/.test(index ?? ''));
    return valid ? Object.fromEntries(entries.map(([axis, index]) => [axis, Number(index)])) : undefined;
  },
  write: (focus) =>
    Object.entries(focus)
      .map(([axis, index]) => `${axis}:${index}`)
      .join(','),
};
