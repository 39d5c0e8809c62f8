/** Calls at the edges of what the WebAssembly module takes: a result, or one clear error. */
import type { MaskInput, Tensor, TensorInput } from 'heed';
import { load, type TrainingHeed } from 'heed/train';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { draw } from '../layers/numbers.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});
afterAll(() => heed.dispose());

const invalid = (start: string) =>
  expect.objectContaining({
    name: 'HeedError',
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining(start),
  });

describe('Adafactor', () => {
  // Formulas of torch.optim.Adafactor, in which a parameter without axes is a vector of one element.
  it.each([1, 0.25])('updates a single number with the clip threshold %f', (clipThreshold) => {
    const number = new heed.Parameter({ data: Float32Array.of(0.5), shape: [] });
    const optimizer = new heed.optim.Adafactor(number.parameters(), { lr: 0.01, clipThreshold });
    let [w, v] = [0.5, 0];
    for (let n = 1; n <= 4; n++) {
      const x = { data: Float32Array.of(1, -2, 3), shape: [3] };
      const target = { data: Float32Array.of(n, 1, -2), shape: [3] };
      const g = (2 * [...x.data].reduce((sum, each, i) => sum + each * (each * w - target.data[i]!), 0)) / 3;
      optimizer.zeroGrad();
      heed.losses.mse(heed.multiply(x, number), target).backward();
      optimizer.step();
      v += n ** -0.8 * (g * g - v);
      const u = g / Math.sqrt(v);
      w -=
        (Math.max(1e-3, Math.abs(w)) * Math.min(0.01, 1 / Math.sqrt(n)) * u) / Math.max(1, Math.abs(u) / clipThreshold);
      expect(number.value.data[0]).toBeCloseTo(w, 5);
    }
    number.dispose();
  });
});

describe('rotary', () => {
  it('computes only the angles of its rows, whatever the first position is', () => {
    const x = draw(1, 2, 3, 8);
    const before = heed.info.memoryBytes;
    const far = heed.rotary(x, { firstPosition: 1_999_999_990 });
    expect(heed.info.memoryBytes).toBeLessThan(before + 2 ** 20);
    for (const n of [0, 1]) {
      for (let i = 0; i < 3; i++) {
        for (let k = 0; k < 4; k++) {
          const at = 24 * n + 8 * i + k;
          const [a, b] = [x.data[at]!, x.data[at + 4]!];
          const angle = (1_999_999_990 + i) * 10_000 ** (-k / 4);
          expect(far.data[at]).toBeCloseTo(a * Math.cos(angle) - b * Math.sin(angle), 5);
          expect(far.data[at + 4]).toBeCloseTo(a * Math.sin(angle) + b * Math.cos(angle), 5);
        }
      }
    }
  });

  it('of one row at a time is that of all rows, bit for bit', () => {
    const x = draw(2, 5, 8);
    const whole = heed.rotary(x, { firstPosition: 300, pairing: 'interleaved' });
    for (let i = 0; i < 5; i++) {
      const row = { data: x.data.slice(8 * i, 8 * i + 8), shape: [1, 8] };
      const own = heed.rotary(row, { firstPosition: 300 + i, pairing: 'interleaved' });
      expect([...own.data]).toEqual([...whole.data.slice(8 * i, 8 * i + 8)]);
    }
  });

  it('rejects positions that cannot be counted', () => {
    expect(() => heed.rotary(draw(1, 2, 4), { firstPosition: 2 ** 31 - 2 })).toThrow(invalid('firstPosition'));
  });
});

describe('empty batches', () => {
  const masks = (queries: number, keys: number): MaskInput[] => [
    draw(1, queries, keys),
    draw(1, 1, queries, keys),
    draw(1, 0, 1, queries, keys),
    draw(1, 1, 1, 1, keys),
  ];
  it('take the masks of their lengths in every layer', () => {
    const options = { embedDim: 4, numHeads: 2 };
    const layerOptions = { ...options, feedForwardDim: 8 };
    const keyMask = { data: new Uint8Array(0), shape: [0, 5] };
    const x = draw(1, 0, 5, 4);
    const attention = new heed.MultiHeadAttention(options);
    const layer = new heed.EncoderLayer(layerOptions);
    const encoder = new heed.Encoder({ ...layerOptions, numLayers: 2 });
    interface Layer {
      forward(x: TensorInput, options: { mask?: MaskInput; keyMask?: MaskInput }): { output: Tensor };
      eval(): unknown;
      train(): unknown;
      dispose(): void;
    }
    for (const own of [attention, layer, encoder] as unknown as Layer[]) {
      for (const mode of ['eval', 'train'] as const) {
        own[mode]();
        expect(own.forward(x, { keyMask }).output.shape).toEqual([0, 5, 4]);
        for (const mask of masks(5, 5)) expect(own.forward(x, { mask }).output.shape).toEqual([0, 5, 4]);
        expect(() => own.forward(x, { keyMask: { ...keyMask, shape: [0, 6] } })).toThrow('[0, 5]');
        expect(() => own.forward(x, { mask: draw(1, 5, 6) })).toThrow('[0, 2, 5, 5]');
      }
      own.dispose();
    }
  });

  it('have gradients of zeros', () => {
    const layer = new heed.EncoderLayer({ embedDim: 4, numHeads: 2, feedForwardDim: 8 });
    const { output, backward } = layer.forward(draw(1, 0, 5, 4), { mask: draw(1, 5, 5), backward: true });
    expect(output.shape).toEqual([0, 5, 4]);
    const { inputs } = backward(output);
    expect(inputs.x!.shape).toEqual([0, 5, 4]);
    expect([...inputs.mask!.data]).toEqual(new Array(25).fill(0));
    layer.dispose();
  });
});

describe('NaN in an additive mask', () => {
  const spoilt = { data: Float32Array.of(0, -Infinity, 0, 0, 0, Number.NaN, 0, 0, 0), shape: [3, 3] };
  const legal = { data: Float32Array.of(0, -Infinity, 0, 0, 0, 1, 0, 0, -2), shape: [3, 3] };
  it('is rejected by attention and by layers, in inference and in training', () => {
    const x = draw(1, 2, 3, 4);
    const layer = new heed.EncoderLayer({ embedDim: 4, numHeads: 2, feedForwardDim: 8 });
    const attention = new heed.MultiHeadAttention({ embedDim: 4, numHeads: 2 });
    const keyMask = { data: Float32Array.of(0, 0, 0, 0, Number.NaN, 0), shape: [2, 3] };
    const calls: ((mask: MaskInput) => unknown)[] = [
      (mask) => heed.attention(x, x, x, { mask }),
      (mask) => heed.attention(x, x, x, { mask, backward: true }),
      (mask) => layer.eval().forward(x, { mask }),
      (mask) => layer.train().forward(x, { mask }),
      (mask) => attention.eval().forward(x, { mask }),
      (mask) => attention.forward(x, { mask, backward: true }),
    ];
    for (const call of calls) {
      expect(() => call(spoilt)).toThrow(invalid('mask: expected numbers, or -Infinity for forbidden keys, got NaN'));
      call(legal);
    }
    expect(() => attention.forward(x, { keyMask } as never)).toThrow(invalid('keyMask: expected numbers'));
    layer.dispose();
    attention.dispose();
  });
});

describe('Conv1D', () => {
  it('rejects padding beyond the rows that can be counted', () => {
    const convolution = new heed.Conv1D({ inChannels: 1, outChannels: 1, kernelSize: 2, padding: 1_073_741_822 });
    expect(() => convolution.forward(draw(1, 1, 8, 1))).toThrow(invalid('padding: expected at most 2147483647 rows'));
    convolution.dispose();
  });
});
