/** All of the 4 GB that 32-bit addresses reach. out-of-memory.test.ts has the same with a small memory. */
import { type Heed, type Linear, load } from 'heed';
import { expect, it } from 'vitest';

const outOfMemory = expect.objectContaining({ name: 'HeedError', code: 'OUT_OF_MEMORY' });

it('a runtime still works after its memory was used up', async () => {
  using heed: Heed = await load({ build: 'simd128' });
  using layer = new heed.Linear({ inFeatures: 4, outFeatures: 4 });
  const before = layer.forward([1, 2, 3, 4]).data;
  // Each layer fits into 32-bit addresses; all of them exceed 4 GB.
  const held: Linear[] = [];
  expect(() => {
    for (let i = 0; i < 64; i++) held.push(new heed.Linear({ inFeatures: 16384, outFeatures: 16384, bias: false }));
  }).toThrow(outOfMemory);
  // 40,000 x 40,000 scores take 6.4 GB.
  const long = { data: new Float32Array(40_000), shape: [40_000, 1] };
  expect(() => heed.attention(long, long, long, { returnWeights: true })).toThrow(outOfMemory);
  using mha = new heed.MultiHeadAttention({ embedDim: 1, numHeads: 1 });
  expect(() => mha.forward(long, { returnWeights: true })).toThrow(outOfMemory);
  expect(layer.forward([1, 2, 3, 4]).data).toEqual(before);
  for (const linear of held) linear.dispose();
});
