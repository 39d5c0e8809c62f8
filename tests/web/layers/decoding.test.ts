/** Decoding step by step gives the same results as one causal pass over the whole sequence. */
import { type Heed, load, Tensor } from 'heed';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw, error, rows } from './numbers.js';

let heed: Heed;
beforeAll(async () => {
  heed = await load();
});

const transformerOptions = {
  embedDim: 12,
  numHeads: 3,
  feedForwardDim: 20,
  numEncoderLayers: 2,
  numDecoderLayers: 2,
  seed: 2,
};

describe('decoding step by step', () => {
  it.each([{ normFirst: false }, { normFirst: true }, { rotary: { base: 100 } }, { keyDim: 2, valueDim: 5 }])(
    'equals one causal pass: %o',
    (more) => {
      const options = { embedDim: 12, numHeads: 3, feedForwardDim: 20, seed: 2, ...more };
      const [target, memory] = [draw(1, 9, 12), draw(2, 5, 12)];
      for (const decoder of [
        new heed.Decoder({ ...options, numLayers: 2, finalNorm: true }),
        new heed.DecoderLayer(options),
      ]) {
        const full = decoder.forward(target, memory, { causal: true }).output;
        for (const steps of [[1, 1, 1, 1, 1, 1, 1, 1, 1], [4, 1, 3, 1], [9]]) {
          const cache = decoder.makeCache(memory);
          let first = 0;
          for (const count of steps) {
            const order = Array.from({ length: count }, (_, i) => first + i);
            expect(error(decoder.step(rows(target, order), cache), rows(full, order))).toBeLessThan(1);
            first += count;
            expect(cache.length).toBe(first);
          }
          cache.dispose();
        }
      }
    },
  );

  it('of a Transformer starts from its source', () => {
    const transformer = new heed.Transformer(transformerOptions);
    const [source, target] = [draw(1, 5, 12), draw(2, 4, 12)];
    const full = transformer.forward(source, target, { causal: true }).output;
    const cache = transformer.makeCache(source);
    for (let i = 0; i < 4; i++)
      expect(error(transformer.step(rows(target, [i]), cache), rows(full, [i]))).toBeLessThan(1);
  });

  it('keeps caches apart', () => {
    const decoder = new heed.Decoder({ embedDim: 8, numHeads: 2, feedForwardDim: 8, numLayers: 1, seed: 2 });
    const [a, b, memory] = [draw(1, 3, 8), draw(2, 3, 8), draw(3, 4, 8)];
    const caches = [decoder.makeCache(memory), decoder.makeCache(memory)];
    const outputs = [0, 1, 2].map((i) => [
      decoder.step(rows(a, [i]), caches[0]!),
      decoder.step(rows(b, [i]), caches[1]!),
    ]);
    const full = [a, b].map((target) => decoder.forward(target, memory, { causal: true }).output);
    outputs.forEach((pair, i) =>
      pair.forEach((output, which) => expect(error(output, rows(full[which]!, [i]))).toBeLessThan(1)),
    );
  });

  it('goes on in two ways from a clone', () => {
    const transformer = new heed.Transformer(transformerOptions);
    const [source, begin, a, b] = [draw(1, 2, 5, 12), draw(2, 2, 3, 12), draw(3, 2, 2, 12), draw(4, 2, 2, 12)];
    const keyMask = [
      [1, 1, 1, 1, 1],
      [1, 1, 0, 1, 0],
    ];
    /** The results of a separate cache for the rows after `begin`. */
    const alone = (next: Tensor) => {
      using cache = transformer.makeCache(source, { keyMask });
      transformer.step(begin, cache);
      return transformer.step(next, cache);
    };
    const cache = transformer.makeCache(source, { keyMask });
    transformer.step(begin, cache);
    const other = cache.clone();
    expect(other.length).toBe(3);
    expect(transformer.step(b, other)).toEqual(alone(b));
    expect(cache.length).toBe(3);
    expect(transformer.step(a, cache)).toEqual(alone(a));
    cache.dispose();
    expect(other.length).toBe(5);
    expect(() => cache.clone()).toThrow(expect.objectContaining({ code: 'DISPOSED' }));
  });

  it.each([{}, { rotary: { base: 100 } }, { keyDim: 2, valueDim: 5 }])(
    'of a batch gives each sequence the bits that it has alone: %o',
    (more) => {
      const [target, memory] = [draw(1, 3, 6, 12), draw(2, 3, 5, 12)];
      const keyMask = [
        [1, 1, 1, 1, 1],
        [1, 1, 1, 0, 0],
        [0, 1, 0, 1, 1],
      ];
      using decoder = new heed.Decoder({
        embedDim: 12,
        numHeads: 3,
        feedForwardDim: 20,
        numLayers: 2,
        seed: 2,
        ...more,
      });
      const full = decoder.forward(target, memory, { causal: true, memoryKeyMask: keyMask }).output;
      const at = (tensor: Tensor, n: number, first: number, count: number) => {
        const [length, width] = tensor.shape.slice(-2) as [number, number];
        const begin = (n * length + first) * width;
        return new Tensor(tensor.data.slice(begin, begin + count * width), [count, width]);
      };
      const together = decoder.makeCache(memory, { keyMask });
      const apart = keyMask.map((mask, n) => decoder.makeCache(at(memory, n, 0, 5), { keyMask: mask }));
      let first = 0;
      for (const count of [1, 2, 1, 2]) {
        const parts = keyMask.map((_, n) => at(target, n, first, count));
        const joined = new Tensor(Float32Array.from(parts.flatMap(({ data }) => [...data])), [3, count, 12]);
        const output = decoder.step(joined, together);
        expect(output.shape).toEqual([3, count, 12]);
        parts.forEach((part, n) => {
          expect(at(output, n, 0, count).data).toEqual(decoder.step(part, apart[n]!).data);
          expect(error(at(output, n, 0, count), at(full, n, first, count))).toBeLessThan(1);
        });
        first += count;
      }
      expect(together.length).toBe(6);
    },
  );

  it("of a Transformer's batch heeds the real rows of its source", () => {
    using transformer = new heed.Transformer(transformerOptions);
    const [source, target] = [draw(1, 2, 5, 12), draw(2, 2, 4, 12)];
    const keyMask = [
      [1, 1, 1, 1, 1],
      [1, 1, 0, 0, 0],
    ];
    const full = transformer.forward(source, target, { causal: true, sourceKeyMask: keyMask }).output;
    const cache = transformer.makeCache(source, { keyMask });
    for (let i = 0; i < 4; i++)
      expect(error(transformer.step(rows(target, [i]), cache), rows(full, [i]))).toBeLessThan(1);
  });
});
