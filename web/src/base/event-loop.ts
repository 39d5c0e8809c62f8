/** Work in steps that leaves the event loop its turns. */
import type { SignalLike } from './platform.js';

/** The longest time between two turns of the event loop, in milliseconds, apart from the work of one layer. */
const YIELD_INTERVAL = 20;

/** Work in steps: it yields where other work may be done in between. Steps of work that takes long are short; short work is one step. */
export type Steps<T> = Generator<null, T>;

/** The number of characters, or other small units, in a step. */
export const STEP = 8192;

/** Does all steps at once. */
export function completed<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/**
 * A function to call between steps of work: if the last turn was long ago, it yields to the event loop, so that timers, input and aborts are handled. It throws the signal's
 * reason once the signal has fired. Throws at once if it has fired already.
 */
export function makeYield(signal: SignalLike | undefined): () => Promise<void> {
  signal?.throwIfAborted();
  let last = performance.now();
  return async () => {
    if (performance.now() - last >= YIELD_INTERVAL) {
      await turn();
      last = performance.now();
    }
    signal?.throwIfAborted();
  };
}

/** Settles as `promise` does, or rejects with the reason of a signal that fires first. */
export async function abortable<T>(promise: T | PromiseLike<T>, signal: SignalLike | undefined): Promise<T> {
  if (!signal) return promise;
  let onAbort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort);
  });
  try {
    if (signal.aborted) onAbort();
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

declare const setImmediate: ((callback: () => void) => void) | undefined;

/** One turn of the event loop; in browsers, a timer would take 4 ms. */
export function turn(): Promise<void> {
  if (typeof setImmediate === 'function') return new Promise((resolve) => setImmediate(resolve));
  return new Promise((resolve) => {
    if (typeof MessageChannel !== 'function') return void setTimeout(resolve);
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
