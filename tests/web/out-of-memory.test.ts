/** A module whose memory is used up, with a small maximum; out-of-memory.slow.test.ts uses all of the 4 GB of 32-bit addresses. */
import { readFile } from 'node:fs/promises';
import { type Linear, load } from 'heed';
import { expect, it } from 'vitest';
import { tinyModel } from './models/tiny.js';

const bytes = new Uint8Array(await readFile(new URL('../../dist/heed-simd128.wasm', import.meta.url)));
const zeros = (...shape: number[]) => ({ data: new Float32Array(shape.reduce((a, b) => a * b, 1)), shape });

/** A module whose memory ends at so many MB. */
function withMaximum(module: Uint8Array, megabytes: number): Uint8Array<ArrayBuffer> {
  const changed = new Uint8Array(module);
  // The memory section: id 5, 6 bytes, one memory with a maximum, 16 pages of 64 KB at first, at most 65,536 pages.
  const section = [5, 6, 1, 1, 16, 0x80, 0x80, 4];
  const at = changed.findIndex((_, i) => section.every((byte, j) => changed[i + j] === byte));
  expect(at).toBeGreaterThan(0);
  const pages = megabytes * 16;
  changed.set([(pages & 0x7f) | 0x80, ((pages >> 7) & 0x7f) | 0x80, pages >> 14], at + 5);
  return changed;
}

it('a runtime still works after its memory was used up', async () => {
  using heed = await load({ build: 'simd128', wasm: withMaximum(bytes, 64) });
  using layer = new heed.Linear({ inFeatures: 4, outFeatures: 4 });
  const before = layer.forward([1, 2, 3, 4]).data;
  const held: Linear[] = [];
  const outOfMemory = expect.objectContaining({ name: 'HeedError', code: 'OUT_OF_MEMORY' });
  expect(() => {
    for (let i = 0; i < 64; i++) held.push(new heed.Linear({ inFeatures: 1024, outFeatures: 1024, bias: false }));
  }).toThrow(outOfMemory);
  expect(held.length).toBeGreaterThan(8);
  expect(layer.forward([1, 2, 3, 4]).data).toEqual(before);
  // Results and scratch memory are limited like weights: 5,000 x 5,000 scores take 100 MB.
  const long = zeros(5000, 1);
  expect(() => heed.attention(long, long, long, { returnWeights: true })).toThrow(outOfMemory);
  using mha = new heed.MultiHeadAttention({ embedDim: 1, numHeads: 1 });
  expect(() => mha.forward(long, { returnWeights: true })).toThrow(outOfMemory);
  await expect(heed.fromPretrained(tinyModel())).resolves.toMatchObject({ disposed: false }); // 200 KB still fit
  expect(layer.forward([1, 2, 3, 4]).data).toEqual(before);
  for (const linear of held) linear.dispose();
  using again = new heed.Linear({ inFeatures: 1024, outFeatures: 1024 });
  expect(again.forward(zeros(1024)).shape).toEqual([1024]);
});
