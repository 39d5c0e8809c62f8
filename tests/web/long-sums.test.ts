/** Sums of many terms, and activations for all numbers, compared with double precision. */
import { type Heed, load, Tensor } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const filled = (value: number, ...shape: number[]) =>
  new Tensor(new Float32Array(shape.reduce((a, b) => a * b)).fill(value), shape);
const wave = (frequency: number, ...shape: number[]) =>
  new Tensor(
    Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => 0.7 + 0.3 * Math.sin(frequency * i)),
    shape,
  );

/**
 * The error bound of docs/performance.md, relative to the sum of the terms' magnitudes, plus a few further roundings.
 */
const bound = (terms: number) => (Math.min(terms, 512) + terms / 512 + 16) * 2 ** -24;

describe.each(['simd128', 'relaxed-simd'] as const)('long sums, %s', (build) => {
  let heed: Heed;
  beforeAll(async () => {
    heed = await load({ build });
  });
  afterAll(() => heed.dispose());

  it.each([512, 513, 8_192, 100_003, 262_144])('attention over %i equal keys is the mean of the values', (keys) => {
    const values = [0.1, 0.7, 1].map(Math.fround);
    const value = new Tensor(
      Float32Array.from({ length: 3 * keys }, (_, i) => values[i % 3]!),
      [keys, 3],
    );
    const { output } = heed.attention(filled(0.5, 2, 4), filled(0.25, keys, 4), value);
    for (const [i, got] of output.data.entries()) {
      const exact = values[i % 3]!;
      expect(Math.abs(got - exact)).toBeLessThanOrEqual(2 * bound(keys) * exact);
      expect(Math.abs(got - exact)).toBeLessThanOrEqual(1e-5 * exact); // the accuracy of such sums in practice
    }
  });

  it.each([8_192, 262_144])('attention weights over %i keys add up to 1', (keys) => {
    const { output, weights } = heed.attention(wave(1, 1, 4), wave(2, keys, 4), wave(3, keys, 2), {
      returnWeights: true,
    });
    expect(Math.abs(weights.data.reduce((a, b) => a + b, 0) - 1)).toBeLessThan(1e-6);
    for (const column of [0, 1]) {
      const values = wave(3, keys, 2).data;
      const exact = weights.data.reduce((sum, weight, i) => sum + weight * values[2 * i + column]!, 0);
      expect(Math.abs(output.data[column]! - exact)).toBeLessThanOrEqual(bound(keys) + 1e-6);
    }
  });

  it.each([512, 513, 4_096, 65_536, 262_144])('linear over %i inputs', (width) => {
    for (const [x, weight] of [
      [filled(0.1, 3, width), filled(1, 2, width)],
      [wave(1, 3, width), wave(2, 2, width)],
    ] as const) {
      const y = heed.linear(x, { weight });
      for (let row = 0; row < 3; row++)
        for (let out = 0; out < 2; out++) {
          let exact = 0;
          for (let k = 0; k < width; k++) exact += x.data[row * width + k]! * weight.data[out * width + k]!;
          const error = Math.abs(y.data[row * 2 + out]! - exact);
          expect(error).toBeLessThanOrEqual(bound(width) * exact);
          expect(error).toBeLessThanOrEqual(1e-5 + 1e-5 * exact);
        }
    }
  });

  it('softmax and layer norm of 300,000 entries', () => {
    const x = wave(1, 1, 300_000);
    const exponentials = Array.from(x.data, (each) => Math.exp(each));
    const total = exponentials.reduce((a, b) => a + b);
    for (const [i, got] of heed.softmax(x).data.entries())
      if (Math.abs(got * total - exponentials[i]!) > 2e-6) expect.fail(`entry ${i}: ${got * total}`);
    const mean = x.data.reduce((a, b) => a + b, 0) / x.data.length;
    const deviation = Math.sqrt(x.data.reduce((sum, each) => sum + (each - mean) ** 2, 0) / x.data.length + 1e-5);
    for (const [i, got] of heed.layerNorm(x).data.entries())
      if (Math.abs(got - (x.data[i]! - mean) / deviation) > 3e-6) expect.fail(`entry ${i}: ${got}`);
  });

  const activations = {
    relu: (x: number) => Math.max(x, 0),
    gelu: null,
    gelu_tanh: (x: number) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
    tanh: Math.tanh,
    sigmoid: (x: number) => 1 / (1 + Math.exp(-x)),
    silu: (x: number) => x / (1 + Math.exp(-x)),
    quick_gelu: (x: number) => x / (1 + Math.exp(-1.702 * x)),
  } as const;

  it.each(Object.entries(activations))('%s of all numbers', (activation, formula) => {
    const sizes = [0, 1e-45, 1e-38, 1e-20, 0.1, 1, 3, 7, 8, 9, 10, 11, 12, 51, 52, 53, 87, 88, 89, 104, 1e3, 1e4, 1e20];
    const x = [...sizes, 3e38, 3.4028234663852886e38, Infinity].flatMap((size) => [size, -size]);
    const y = heed.linear(
      [...x, NaN].map((each) => [each]),
      { weight: [[1]], activation: activation as 'silu' },
    ).data;
    expect(y.at(-1)).toBeNaN();
    const isBounded = activation === 'tanh' || activation === 'sigmoid';
    for (const [i, each] of x.entries()) {
      const limit = isBounded ? null : each > 0 ? each : 0;
      let exact = formula ? formula(Math.fround(each)) : limit!;
      if (limit !== null && Math.abs(each) > 100) exact = limit;
      if (!formula && Math.abs(each) < 8) continue; // erf is not available here, so test only the limits
      if (y[i] === exact) continue;
      expect(Math.abs(y[i]! - exact), `${activation}(${each})`).toBeLessThanOrEqual(1e-6 + 4e-7 * Math.abs(exact));
    }
  });
});
