/** A layer and an expected error for the tests of forward and backward passes. */
import { load } from 'heed/train';
import { expect } from 'vitest';

export const heed = await load();

export const refused = (code: string, message: RegExp) =>
  expect.objectContaining({ name: 'HeedError', code, message: expect.stringMatching(message) });

export const linear = (inFeatures: number, outFeatures: number, seed = 1) =>
  new heed.Linear({ inFeatures, outFeatures, seed });
