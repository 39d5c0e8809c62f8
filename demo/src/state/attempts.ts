/** Another attempt at what failed: when the reader asks for it, and when the network returns. */
import { type ReadonlySignal, signal } from '@preact/signals';

/** `begin`, called in an effect, makes it run again for each attempt. */
export function attemptsAt(failure: ReadonlySignal<unknown>): { begin: () => void; retry: () => void } {
  const count = signal(0);
  const retry = () => {
    count.value++;
  };
  addEventListener('online', () => {
    if (failure.peek()) retry();
  });
  return { begin: () => void count.value, retry };
}
