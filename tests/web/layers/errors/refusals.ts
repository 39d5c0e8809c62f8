/** Wrong calls: each is a HeedError that names the argument, what it got and what is legal, and leaves everything as it was. */
import { type Heed, HeedError, load } from 'heed';
import { expect, it } from 'vitest';
import { draw } from '../numbers.js';

export const heed: Heed = await load();

/** Calls that TypeScript would not let pass. */
// biome-ignore lint/suspicious/noExplicitAny: wrong on purpose
export type Anything = any;

export const x = draw(1, 2, 5, 8);
/** Options of a small encoder or decoder layer. */
export const sizes = { embedDim: 8, numHeads: 2, feedForwardDim: 12 };

/** Makes a layer by its class's name. */
export const make = (name: string, options: Anything) => new (heed as Anything)[name](options);
/** Makes a layer for one call. */
export const once = (name: string, options: Anything, input: Anything = x) => {
  using made = make(name, options);
  return made.forward(input);
};

/** What a call throws. */
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

/** The tests of a table. `works` is a right call, which must still work when all the wrong ones are through. */
export function refuses(table: Row[], works: () => { data: Float32Array }): void {
  it.each(table)('%s', (_what, call, code, message) => {
    const thrown = caught(call);
    expect(thrown).toBeInstanceOf(HeedError);
    expect(thrown).toMatchObject({ code, message: expect.stringMatching(message) });
    expect((thrown as Error).message).toMatch(/got .*; expected .+/);
  });

  it('and leaves no memory behind', () => {
    const all = () => {
      for (const [, call] of table) caught(call);
    };
    for (let i = 0; i < 20; i++) all();
    const before = heed.info.memoryBytes;
    for (let i = 0; i < 200; i++) all();
    expect(heed.info.memoryBytes).toBe(before);
    expect(works().data.every(Number.isFinite)).toBe(true);
  });
}
