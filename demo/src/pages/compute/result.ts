/** Computes the matrices again whenever the input changes. */
import { computed, effect, signal } from '@preact/signals';
import { computePositions, computeSteps, type StepsInput, type StepsResult } from '../../engine/hand';
import { asFailure, type Failure, heed } from '../../engine/heed';
import { page } from '../../state/url';
import { hand, input } from './state';

/** A result together with its input: if a later input cannot be computed, the page still shows these two. */
export const result = signal<{ input: StepsInput; result: StepsResult } | null>(null);
/** The same, once the browser has drawn: all matrices take longer to draw than the cell that is chosen. */
export const settled = signal(result.peek());
effect(() => {
  const latest = result.value;
  if (latest) requestAnimationFrame(() => setTimeout(() => (settled.value = latest)));
});
export const failure = signal<Failure | null>(null);

/** The size of the heat map of the positional encoding: more positions than words, so that the waves are visible. */
const shownPositions = 32;
const shownDim = 16;
export const positions = computed(
  () => heed.value && computePositions(heed.value, shownPositions, shownDim, hand.base.value),
);

export function followHand(): void {
  effect(() => {
    if (page.value !== 'compute' || !heed.value) return;
    try {
      result.value = { input: input.value, result: computeSteps(heed.value, input.value) };
      failure.value = null;
    } catch (reason) {
      failure.value = asFailure(reason);
    }
  });
}
