/**
 * Every call that is refused, once: its HeedError names the argument, what was expected and what it got, and leaves everything as
 * it was. The rows are in the files beside this one. Random arguments: ../../hostile; options by themselves: ../../options.test.ts.
 */
import { HeedError } from 'heed';
import { afterEach, describe, expect, it } from 'vitest';
import * as attention from './attention.js';
import * as decoder from './decoder.js';
import * as encoder from './encoder.js';
import * as functions from './functions.js';
import { type Anything, caught, heed, type Row } from './refusals.js';
import * as tensorLayers from './tensor-layers.js';

// The runtime must work after each error.
afterEach(() => expect(heed.softmax([0, 0]).toArray()).toEqual([0.5, 0.5]));

const table: Record<string, { rows: Row[]; works: () => { data: Float32Array } }> = {
  'a function': functions,
  'a layer from tensor to tensor': tensorLayers,
  'multi-head attention': attention,
  'an encoder': encoder,
  'a decoder': decoder,
};

describe.each(Object.entries(table))('%s refuses', (_, { rows, works }) => {
  it.each(rows)('%s', (_what, call, code, message) => {
    const thrown = caught(call);
    expect(thrown).toBeInstanceOf(HeedError);
    expect(thrown).toMatchObject({ code, message: expect.stringMatching(message) });
    expect((thrown as Error).message).toMatch(/: expected .+, got .+|: out of memory \(/);
  });

  it('and works afterwards', () => expect(works().data.every(Number.isFinite)).toBe(true));
});

it('a refusal leaves no memory behind', () => {
  const all = () => {
    for (const { rows } of Object.values(table)) for (const [, call] of rows) caught(call);
  };
  for (let i = 0; i < 20; i++) all();
  const before = heed.info.memoryBytes;
  for (let i = 0; i < 200; i++) all();
  expect(heed.info.memoryBytes).toBe(before);
});

it('a refusal has a stack that leads to the call', () => {
  expect((caught(() => heed.softmax(3 as Anything)) as Error).stack).toContain('refusals.test');
});
