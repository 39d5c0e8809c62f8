/** Helpers for the table of rejected calls (refusals.test.ts). */
import { type Heed, load } from 'heed';
import { draw } from '../numbers.js';

export const heed: Heed = await load();

/** For calls that TypeScript would reject. */
// biome-ignore lint/suspicious/noExplicitAny: wrong on purpose
export type Anything = any;

export const x = draw(1, 2, 5, 8);
/** Options of a small encoder or decoder layer. */
export const sizes = { embedDim: 8, numHeads: 2, feedForwardDim: 12 };

/** Makes a layer by its class's name. */
export const make = (name: string, options: Anything) => new (heed as Anything)[name](options);
/** Makes a layer and calls it once. */
export const once = (name: string, options: Anything, input: Anything = x) => {
  using made = make(name, options);
  return made.forward(input);
};

/** Returns the error that a call throws. */
export function caught(call: () => unknown): unknown {
  try {
    const made = call();
    if (typeof (made as { dispose?: unknown })?.dispose === 'function') (made as { dispose(): void }).dispose();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

export type Row = [what: string, call: () => unknown, code: string, message: RegExp];
