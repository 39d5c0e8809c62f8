/** Results on ARM64 beside those of the processor that runs Vitest. Relaxed SIMD has other instructions here: fmla and sdot. */
import { describe, expect, inject, it } from 'vitest';
import { vectors } from './vectors.js';

it('runs on ARM64', () => {
  expect(process.arch).toBe('arm64');
});

describe('the shipped model', () => {
  it('has the same bits as on the other processor in the SIMD128 build', async () => {
    expect(await vectors()).toEqual(inject('vectors'));
  });

  it('agrees with it in the relaxed SIMD build', async () => {
    const { fp32, q8 } = inject('vectors');
    const relaxed = await vectors('relaxed-simd');
    for (const [i, expected] of fp32.entries())
      expect(Math.abs(relaxed.fp32[i]! - expected)).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(expected));
    // The other roundings of layers between change some of the integers that the activations become.
    const dot = q8.reduce((sum, x, i) => sum + x * relaxed.q8[i]!, 0);
    const norm = (x: number[]) => Math.sqrt(x.reduce((sum, value) => sum + value * value, 0));
    expect(dot / norm(q8) / norm(relaxed.q8)).toBeGreaterThan(0.999);
  });
});
