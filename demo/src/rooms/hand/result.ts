/** Asks the worker anew whenever the input changes. */
import { effect, signal } from '@preact/signals';
import { asFailure, engine, type Failure, info } from '../../engine/client';
import type { HandInput, HandResult, Matrix } from '../../engine/hand';
import { latest } from '../../state/latest';
import { room } from '../../state/url';
import { input } from './state';

/** The input stands beside its result: while a new one is computed, both are shown as they belong together. */
export const result = signal<{ input: HandInput; result: HandResult } | null>(null);
export const positions = signal<{ encoding: Matrix; products: Matrix } | null>(null);
export const failure = signal<Failure | null>(null);

/** Positions shown in the heat map: more than the words, so that the waves can be seen. */
const shownPositions = 32;
const shownDim = 16;

const compute = latest(
  (next: HandInput) => engine.hand(next),
  (output, used) => {
    result.value = { input: used, result: output };
    failure.value = null;
  },
  (reason) => {
    failure.value = asFailure(reason);
  },
);
const encode = latest(
  (base: number) => engine.positions(shownPositions, shownDim, base),
  (output) => {
    positions.value = output;
  },
  (reason) => {
    failure.value = asFailure(reason);
  },
);

export function followHand(): void {
  effect(() => {
    if (room.value === 'hand' && info.value) compute(input.value);
  });
  effect(() => {
    const { mode, base } = input.value.positions;
    if (room.value === 'hand' && info.value && mode !== 'none') encode(base);
  });
}
