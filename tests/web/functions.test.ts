// Properties of the functions. layers/fixtures.test.ts compares their values with PyTorch's.
import { type Heed, load, Tensor, type TensorInput } from 'heed';
import { beforeAll, describe, expect, it } from 'vitest';

let heed: Heed;
beforeAll(async () => {
  heed = await load();
});

/** Pseudorandom numbers, the same in every run. */
function numbers(...shape: number[]): Tensor {
  const length = shape.reduce((a, b) => a * b, 1);
  return heed.dropout(
    { data: Float32Array.from({ length }, (_, i) => Math.sin(i * 12.9898 + length)), shape },
    { p: 0 },
  );
}

function close(actual: Tensor, expected: Tensor): void {
  expect(actual.shape).toEqual(expected.shape);
  for (const [i, value] of expected.data.entries()) {
    expect(Math.abs(actual.data[i]! - value)).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(value));
  }
}

describe('attention', () => {
  it('averages the values by the softmax of the scaled scores', () => {
    const { output, weights } = heed.attention(
      [[1, 0]],
      [
        [1, 0],
        [0, 1],
      ],
      [[1], [3]],
      { returnWeights: true },
    );
    const a = Math.exp(1 / Math.SQRT2);
    expect(weights.toArray()).toEqual([[expect.closeTo(a / (a + 1), 6), expect.closeTo(1 / (a + 1), 6)]]);
    expect(output.toArray()).toEqual([[expect.closeTo((a + 3) / (a + 1), 5)]]);
  });

  it('returns weights only on request', () => {
    expect(heed.attention([[1]], [[1]], [[1]])).not.toHaveProperty('weights');
  });

  it('takes any leading axes, and another length and width of keys and values', () => {
    const [q, k, v] = [numbers(2, 3, 4, 5, 7), numbers(2, 3, 4, 6, 7), numbers(2, 3, 4, 6, 2)];
    const { output, weights } = heed.attention(q, k, v, { returnWeights: true });
    expect(output.shape).toEqual([2, 3, 4, 5, 2]);
    expect(weights.shape).toEqual([2, 3, 4, 5, 6]);
    for (let row = 0; row < weights.data.length; row += 6) {
      expect(weights.data.subarray(row, row + 6).reduce((a, b) => a + b)).toBeCloseTo(1, 5);
    }
  });

  it('broadcasts leading axes', () => {
    const [q, k, v] = [numbers(2, 3, 4, 5), numbers(6, 5), numbers(6, 2)];
    const repeat = (tensor: Tensor, times: number, ...shape: number[]) =>
      new Tensor(
        Float32Array.from({ length: times * tensor.data.length }, (_, i) => tensor.data[i % tensor.data.length]!),
        shape,
      );
    const expected = heed.attention(q, repeat(k, 6, 2, 3, 6, 5), repeat(v, 6, 2, 3, 6, 2), { returnWeights: true });
    const [keys, values] = [repeat(k, 3, 1, 3, 6, 5), repeat(v, 2, 2, 1, 6, 2)];
    for (const [key, value] of [
      [k, v],
      [keys, values],
      [repeat(k, 3, 3, 6, 5), v],
    ] as const) {
      const result = heed.attention(q, key, value, { returnWeights: true });
      expect(result.output).toEqual(expected.output);
      expect(result.weights).toEqual(expected.weights);
    }
    // One sequence of queries for several sequences of keys.
    const one = heed.attention(k, numbers(3, 7, 5), numbers(3, 7, 4), { mask: heed.masks.padding([7, 2, 4], 7) });
    expect(one.output.shape).toEqual([3, 6, 4]);
    close(
      new Tensor(one.output.data.slice(24, 48), [6, 4]),
      heed.attention(
        k,
        new Tensor(numbers(3, 7, 5).data.slice(35, 45), [2, 5]),
        new Tensor(numbers(3, 7, 4).data.slice(28, 36), [2, 4]),
      ).output,
    );
    expect(() => heed.attention(q, numbers(2, 6, 5), numbers(2, 6, 2))).toThrow(
      expect.objectContaining({
        code: 'SHAPE_MISMATCH',
        message: expect.stringMatching(
          /key: expected \[\.\.\., S, 5\] whose leading axes broadcast with those of query, \[2, 3, 4, 5\], got shape \[2, 6, 5\]/,
        ),
      }),
    );
  });

  it('broadcasts masks over leading axes', () => {
    const [q, k, v] = [numbers(2, 3, 2, 4), numbers(2, 3, 5, 4), numbers(2, 3, 5, 4)];
    const perBatch = { data: Uint8Array.from({ length: 10 }, (_, i) => (i % 3 === 0 ? 0 : 1)), shape: [2, 1, 1, 5] };
    const { weights } = heed.attention(q, k, v, { mask: perBatch, returnWeights: true });
    for (let i = 0; i < weights.data.length; i++) {
      const allowed = perBatch.data[Math.floor(i / 30) * 5 + (i % 5)];
      if (allowed) expect(weights.data[i]).toBeGreaterThan(0);
      else expect(weights.data[i]).toBe(0);
    }
    const perHead = { data: perBatch.data.map((m) => m).slice(0, 9), shape: [3, 1, 3] };
    expect(() => heed.attention(q, k, v, { mask: perHead })).toThrow(
      expect.objectContaining({ code: 'SHAPE_MISMATCH' }),
    );
  });

  it('causal counts from the top left', () => {
    const { weights } = heed.attention(numbers(2, 3), numbers(4, 3), numbers(4, 3), {
      causal: true,
      returnWeights: true,
    });
    expect([...weights.data].map((w) => (w > 0 ? 1 : 0))).toEqual([1, 0, 0, 0, 1, 1, 0, 0]);
  });

  it('a fully masked query gets zeros', () => {
    const mask = [
      [false, false],
      [true, false],
    ];
    const { output, weights } = heed.attention(numbers(2, 3), numbers(2, 3), numbers(2, 3), {
      mask,
      returnWeights: true,
    });
    expect([...weights.data]).toEqual([0, 0, 1, 0]);
    expect([...output.data.subarray(0, 3)]).toEqual([0, 0, 0]);
    const additive = { data: Float32Array.of(-Infinity, -Infinity, 0, -Infinity), shape: [2, 2] };
    expect(
      heed.attention(numbers(2, 3), numbers(2, 3), numbers(2, 3), { mask: additive, returnWeights: true }).weights.data,
    ).toEqual(weights.data);
  });

  it('window and mask are the same thing said twice', () => {
    const [q, k, v] = [numbers(2, 9, 4), numbers(2, 9, 4), numbers(2, 9, 4)];
    close(
      heed.attention(q, k, v, { window: 2 }).output,
      heed.attention(q, k, v, { mask: heed.masks.window(9, 2) }).output,
    );
    close(
      heed.attention(q, k, v, { window: 2, causal: true }).output,
      heed.attention(q, k, v, { mask: heed.masks.and(heed.masks.window(9, 2), heed.masks.causal(9)) }).output,
    );
  });

  it('keys and values permuted together give the same output', () => {
    const [q, k, v] = [numbers(3, 4), numbers(5, 4), numbers(5, 2)];
    const order = [3, 0, 4, 1, 2];
    const permuted = (t: Tensor) => order.map((i) => (t.toArray() as number[][])[i]!);
    close(heed.attention(q, permuted(k), permuted(v)).output, heed.attention(q, k, v).output);
  });

  it('dropout zeroes weights of the output, not those returned', () => {
    const [q, k, v] = [numbers(4, 3), numbers(64, 3), numbers(64, 3)];
    const plain = heed.attention(q, k, v, { returnWeights: true });
    const dropped = heed.attention(q, k, v, { returnWeights: true, dropout: { p: 0.5, seed: 3 } });
    expect(dropped.weights.data).toEqual(plain.weights.data);
    expect(dropped.output.data).not.toEqual(plain.output.data);
    expect(heed.attention(q, k, v, { dropout: { p: 0.5, seed: 3 } }).output.data).toEqual(dropped.output.data);
    expect(heed.attention(q, k, v, { dropout: { p: 0.5, seed: 4 } }).output.data).not.toEqual(dropped.output.data);
  });

  it('survives scores of +-1e4', () => {
    const { weights } = heed.attention(
      [[100, 0]],
      [
        [100, 0],
        [-100, 0],
      ],
      [[1], [2]],
      { scale: 1, returnWeights: true },
    );
    expect([...weights.data]).toEqual([1, 0]);
  });
});

describe('softmax, linear, layerNorm', () => {
  it('take a plain vector', () => {
    expect(heed.softmax([1e30, 1e30]).toArray()).toEqual([0.5, 0.5]);
    expect(
      heed
        .linear([1, 2], {
          weight: [
            [1, 1],
            [0, 3],
            [1, 0],
          ],
          bias: [1, 0, 0],
        })
        .toArray(),
    ).toEqual([4, 6, 1]);
    expect(heed.layerNorm([1, 1]).toArray()).toEqual([0, 0]);
  });

  it('linear applies the activation', () => {
    expect(heed.linear([[-1], [2]], { weight: [[1]], activation: 'relu' }).toArray()).toEqual([[0], [2]]);
  });

  it('layerNorm scales and shifts', () => {
    const normed = heed.layerNorm([[-1, 1]], { weight: [2, 2], bias: [1, 1], eps: 1e-12 });
    expect(normed.toArray()).toEqual([[expect.closeTo(-1, 5), expect.closeTo(3, 5)]]);
  });
});

describe('dropout', () => {
  const million = (): TensorInput => ({ data: new Float32Array(1e6).fill(1), shape: [1000, 1000] });

  it('keeps 1 - p of a million entries, within 4 sigma', () => {
    for (const p of [0.1, 0.5, 0.9]) {
      const kept = heed.dropout(million(), { p, seed: 11, scaling: 'none' }).data.reduce((a, b) => a + b);
      expect(Math.abs(kept - 1e6 * (1 - p))).toBeLessThan(4 * Math.sqrt(1e6 * p * (1 - p)));
    }
  });

  it("'inverted' divides what it keeps by 1 - p", () => {
    const values = new Set(heed.dropout(million(), { p: 0.75 }).data);
    expect([...values].sort()).toEqual([0, 4]);
  });

  it('draws anew without a seed, the same with one, and not at all outside training', () => {
    const x = numbers(8, 8);
    expect(heed.dropout(x, { seed: 1 }).data).toEqual(heed.dropout(x, { seed: 1 }).data);
    expect(heed.dropout(x).data).not.toEqual(heed.dropout(x).data);
    expect(heed.dropout(x, { training: false }).data).toEqual(x.data);
  });
});

describe('positions', () => {
  it('positionalEncoding', () => {
    const { data, shape } = heed.positionalEncoding(3, 5, { base: 100 });
    expect(shape).toEqual([3, 5]);
    for (let i = 0; i < 3; i++) {
      for (let j = 0; j < 5; j++) {
        const angle = i * 100 ** ((-2 * Math.floor(j / 2)) / 5);
        expect(data[i * 5 + j]).toBeCloseTo(j % 2 === 0 ? Math.sin(angle) : Math.cos(angle), 6);
      }
    }
  });

  it('rotary keeps lengths, and products depend on distance alone', () => {
    const x = numbers(1, 4);
    const at = (position: number) => heed.rotary(x, { firstPosition: position }).data;
    const dot = (a: Float32Array, b: Float32Array) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
    expect(dot(at(5), at(5))).toBeCloseTo(dot(x.data, x.data), 5);
    expect(dot(at(2), at(7))).toBeCloseTo(dot(at(10), at(15)), 5);
  });
});

it('results are copies that the next call leaves alone', () => {
  const first = heed.softmax([[1, 2, 3]]);
  const kept = first.data.slice();
  heed.softmax(numbers(100, 100));
  expect(first.data).toEqual(kept);
  expect(first.data.buffer.byteLength).toBe(12);
});
