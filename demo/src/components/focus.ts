/**
 * What lights up together. Every axis of every matrix has a name (query, key, feature ...), as in an einsum; pointing at a cell focuses one place on
 * each of its two axes, and every matrix that shares an axis lights the same place.
 */
import { computed, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import type { Codec } from '../state/url';

export type Focus = Readonly<Record<string, number>>;

export interface FocusState {
  /** Under the pointer or the keyboard focus. */
  hovered: Signal<Focus | null>;
  /** Kept by a click, and in the URL. */
  pinned: Signal<Focus>;
  current: ReadonlySignal<Focus>;
}

export function focusState(pinned: Signal<Focus>): FocusState {
  const hovered = signal<Focus | null>(null);
  return { hovered, pinned, current: computed(() => hovered.value ?? pinned.value) };
}

export const sameFocus = (a: Focus, b: Focus): boolean =>
  Object.keys({ ...a, ...b }).every((axis) => a[axis] === b[axis]);

/** `query:1,key:2`; empty: none. */
export const focusCodec: Codec<Focus> = {
  read(text) {
    if (text === '') return {};
    const entries = text.split(',').map((part) => part.split(':'));
    const valid = entries.every(([axis, place]) => /^[a-z]+$/.test(axis ?? '') && /^\d{1,3}$/.test(place ?? ''));
    return valid ? Object.fromEntries(entries.map(([axis, place]) => [axis, Number(place)])) : undefined;
  },
  write: (focus) =>
    Object.entries(focus)
      .map(([axis, place]) => `${axis}:${place}`)
      .join(','),
};
