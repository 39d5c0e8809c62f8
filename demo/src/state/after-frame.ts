import { effect, type ReadonlySignal, signal } from '@preact/signals';

/**
 * Follows `source` once the next frame has been drawn, so that what the reader has pressed is drawn before what takes longer to
 * draw. Changes that come before that are drawn together.
 */
export function afterFrame<T>(source: ReadonlySignal<T>): ReadonlySignal<T> {
  const drawn = signal(source.peek());
  let isWaiting = false;
  effect(() => {
    if (source.value === drawn.peek() || isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() =>
      setTimeout(() => {
        isWaiting = false;
        drawn.value = source.peek();
      }),
    );
  });
  return drawn;
}
