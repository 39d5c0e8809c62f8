/** Splits long work into steps, between which the event loop can run. */
import type { SignalLike } from './platform.js';

/** The maximum time between two turns of the event loop in milliseconds, not counting the work of a single layer. */
const YIELD_INTERVAL = 20;

/**
 * Work in steps: a generator that yields where other work may run. Long work has short steps; short work is a single
 * step.
 */
export type Steps<T> = Generator<null, T>;

/** The number of characters, or other small units, per step. */
export const STEP = 8192;

/** Runs all steps without yielding to the event loop. */
export function completed<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Runs all steps, and lets the event loop run between them. `between`: what `makeYield` returned. */
export async function inTurns<T>(steps: Steps<T>, between: () => Promise<void>): Promise<T> {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    await between();
  }
}

/**
 * Returns a function to call between steps of work. It yields to the event loop if the last turn was long ago, so that
 * timers, input and aborts are handled. It throws the signal's reason once the signal has fired; makeYield itself
 * throws if it has fired already.
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

/** Settles with `promise`, or rejects with the signal's reason if the signal fires first. */
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

/** Waits for one turn of the event loop. In browsers, a timer would take 4 ms. */
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
