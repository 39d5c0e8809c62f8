/** The tiny checkpoints written by tests/fixtures/models/generate.py, with PyTorch's results. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { type Dtype, headerEnd, parseHeader, widen } from '../../../web/src/io/safetensors.js';
import type { TokenIds } from '../../../web/src/models/input.js';

export const fixtures = fileURLToPath(new URL('../../fixtures/models/', import.meta.url));

export interface Expected {
  data: Float32Array;
  shape: number[];
}

/** A tensor as a safetensors file stores it. */
export interface StoredTensor {
  name: string;
  dtype: string;
  shape: number[];
  data: Uint8Array;
}

/** The tensors of a safetensors file, in its order. */
export function storedTensors(file: Uint8Array, name = 'model'): StoredTensor[] {
  const start = headerEnd(file, name, file.length);
  return parseHeader(file.subarray(8, start), name, file.length).map(({ begin, end, ...tensor }) => ({
    ...tensor,
    data: file.slice(start + begin, start + end),
  }));
}

export function readSafetensors(path: string): Map<string, Expected> {
  return new Map(
    storedTensors(new Uint8Array(readFileSync(path)), path).map(({ name, dtype, shape, data }) => [
      name,
      { shape, data: widen(data, dtype as Dtype) },
    ]),
  );
}

export function fixture(name: string): { folder: string; expected: Map<string, Expected>; input: TokenIds } {
  const folder = join(fixtures, name);
  const { tokenTypeIds, ...input } = JSON.parse(readFileSync(join(folder, 'input.json'), 'utf8')) as TokenIds;
  return {
    folder,
    expected: readSafetensors(join(folder, 'expected.safetensors')),
    // RoBERTa has only one token type.
    input: name.includes('roberta') ? input : { ...input, tokenTypeIds: tokenTypeIds! },
  };
}

/** A folder's files by name, as bytes. */
export function bytesOf(folder: string): Record<string, Uint8Array> {
  const files: Record<string, Uint8Array> = {};
  const walk = (path: string) => {
    for (const entry of readdirSync(path)) {
      const full = join(path, entry);
      if (statSync(full).isDirectory()) walk(full);
      else files[relative(folder, full)] = new Uint8Array(readFileSync(full));
    }
  };
  walk(folder);
  return files;
}

/** Checks |difference| <= 1e-5 + 1e-4 |expected| for each entry. */
export function expectClose(actual: Expected, expected: Expected | undefined, what = 'tensor'): void {
  expect(expected, what).toBeDefined();
  expect(actual.shape, what).toEqual(expected!.shape);
  let worst = 0;
  let at = -1;
  expected!.data.forEach((value, i) => {
    const excess = Math.abs(actual.data[i]! - value) / (1e-5 + 1e-4 * Math.abs(value));
    if (worst <= 1 && !(excess <= worst)) [worst, at] = [excess, i]; // the first wrong entry, NaN included
  });
  expect(
    worst,
    `${what}: ${actual.data[at]} instead of ${expected!.data[at]} at ${at}, in multiples of the tolerance`,
  ).toBeLessThanOrEqual(1);
}

/** The parsed header of a safetensors file. */
export const headerOf = (file: Uint8Array) =>
  JSON.parse(
    new TextDecoder().decode(file.subarray(8, 8 + new DataView(file.buffer, file.byteOffset).getUint32(0, true))),
  );

/** A run in sites.json: the sites that were read, and the edits. sites.safetensors has the values. */
export interface SiteCase {
  folder: string;
  input?: { inputIds: number[][]; attentionMask: number[][] };
  pixels?: number[];
  read: string[];
  edit: { site: string }[];
}

export const siteFixtures = () => ({
  cases: JSON.parse(readFileSync(join(fixtures, 'sites.json'), 'utf8')) as SiteCase[],
  expected: readSafetensors(join(fixtures, 'sites.safetensors')),
});
