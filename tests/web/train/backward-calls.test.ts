/** Results of calls with `backward: true`. */
import type { TensorInput } from 'heed/train';
import { describe, expect, it } from 'vitest';
import { draw } from '../layers/numbers.js';
import { heed, linear, refused } from './passes-support.js';

describe('calls with backward: true', () => {
  const width = { embedDim: 8, numHeads: 2, feedForwardDim: 8, dropout: 0, seed: 1 };
  const x = draw(1, 2, 5, 8);
  const memory = draw(2, 2, 3, 8);
  const mask = draw(3, 5, 5);
  const headMask = draw(4, 2);

  it.each([
    ['Linear', { inFeatures: 8, outFeatures: 3 }, [x, {}], ['x']],
    ['LayerNorm', { normalizedShape: 8 }, [x, {}], ['x']],
    ['BatchNorm', { numFeatures: 8 }, [x, {}], ['x']],
    ['Dropout', {}, [x, {}], ['x']],
    ['PositionalEncoding', { embedDim: 8, learned: true, maxLength: 5 }, [x, {}], ['x']],
    ['FeedForward', { embedDim: 8, feedForwardDim: 4 }, [x, {}], ['x']],
    ['MultiHeadAttention', { embedDim: 8, numHeads: 2 }, [x, { mask, headMask }], ['query', 'mask', 'headMask']],
    ['MultiHeadAttention', { embedDim: 8, numHeads: 2 }, [x, { key: memory }], ['query', 'key']],
    ['MultiHeadAttention', { embedDim: 8, numHeads: 2 }, [x, { key: x, value: x }], ['query', 'key', 'value']],
    ['EncoderLayer', width, [x, { mask, causal: true }], ['x', 'mask']],
    ['Encoder', { ...width, numLayers: 2 }, [x, { headMask: draw(5, 2, 2) }], ['x', 'headMask']],
    [
      'DecoderLayer',
      width,
      [x, memory, { mask, memoryMask: draw(6, 5, 3) }],
      ['target', 'memory', 'mask', 'memoryMask'],
    ],
    ['Decoder', { ...width, numLayers: 2 }, [x, memory, { causal: true }], ['target', 'memory']],
    [
      'Transformer',
      { ...width, numEncoderLayers: 1, numDecoderLayers: 1 },
      [memory, x, { sourceKeyMask: draw(7, 2, 3) }],
      ['source', 'target', 'sourceKeyMask'],
    ],
  ] as const)('%s: gradients in the shapes of what they belong to', (name, options, given, inputs) => {
    const Layer = heed[name] as unknown as new (
      o: object,
    ) => {
      forward(...args: unknown[]): {
        output: typeof x;
        backward(cotangent: TensorInput): ReturnType<typeof gradientsOf>;
      };
      parameters(): { name: string; shape: readonly number[]; grad: unknown }[];
      dispose(): void;
    };
    const gradientsOf = () => ({ inputs: {} as Record<string, typeof x>, parameters: {} as Record<string, typeof x> });
    const layer = new Layer(options);
    const { output, backward } = layer.forward(...given.slice(0, -1), { ...given.at(-1), backward: true });
    const plain = layer.forward(...given) as unknown as { output?: typeof x };
    expect(output).toEqual(plain.output ?? plain);
    const gradients = backward(draw(9, ...output.shape));
    expect(Object.keys(gradients.inputs).sort()).toEqual([...inputs].sort());
    const first = given[0] as typeof x;
    expect(gradients.inputs[inputs[0]]!.shape).toEqual(first.shape);
    expect(Object.entries(gradients.parameters).map(([key, { shape }]) => [key, shape])).toEqual(
      layer.parameters().map(({ name: key, shape }) => [key, shape]),
    );
    for (const parameter of layer.parameters()) expect(parameter.grad).toBeNull(); // no gradient was added
    layer.dispose();
  });

  it('functions put the gradients of weight and bias among the parameters', () => {
    const [weight, bias] = [draw(2, 3, 8), draw(3, 3)];
    const { output, backward } = heed.linear(x, { weight, bias, activation: 'tanh', backward: true });
    expect(output).toEqual(heed.linear(x, { weight, bias, activation: 'tanh' }));
    const { inputs, parameters } = backward(draw(4, 2, 5, 3));
    expect(Object.keys(inputs)).toEqual(['x']);
    expect(Object.fromEntries(Object.entries(parameters).map(([name, { shape }]) => [name, shape]))).toEqual({
      weight: [3, 8],
      bias: [3],
    });
    expect(heed.softmax(x, { backward: true }).backward(x).inputs.x.shape).toEqual(x.shape);
    expect(heed.layerNorm(x, { weight: draw(1, 8), backward: true }).backward(x).parameters.weight!.shape).toEqual([8]);
    expect(heed.rotary(x, { firstPosition: 3, backward: true }).backward(x).inputs.x.shape).toEqual(x.shape);
    const dropped = heed.dropout(x, { p: 0.5, seed: 3, backward: true });
    const kept = dropped.backward({ data: x.data.map(() => 1), shape: x.shape }).inputs.x;
    expect([...kept.data].map((factor, i) => factor * x.data[i]! + 0)).toEqual([...dropped.output.data]);
  });

  it('attention of an empty batch takes masks', () => {
    const [query, key, value] = [draw(1, 0, 4, 5), draw(2, 0, 6, 5), draw(3, 0, 6, 2)];
    for (const mask of [draw(4, 4, 6), draw(4, 6), draw(4, 1, 1, 6)]) {
      const { output, backward } = heed.attention(query, key, value, { mask, backward: true });
      expect(output).toEqual(heed.attention(query, key, value, { mask }).output);
      expect(output.shape).toEqual([0, 4, 2]);
      expect(backward(output).inputs.key.shape).toEqual([0, 6, 5]);
    }
  });

  it('attention adds up the gradients of what broadcasts', () => {
    const [query, key, value] = [draw(1, 2, 3, 4, 5), draw(2, 3, 6, 5), draw(3, 6, 2)];
    const shapes = [
      [4, 6],
      [2, 1, 4, 6],
      [3, 1, 6],
    ];
    for (const shape of shapes) {
      const added = draw(4, ...shape);
      const { output, backward } = heed.attention(query, key, value, { mask: added, backward: true });
      expect(output).toEqual(heed.attention(query, key, value, { mask: added }).output);
      const cotangent = draw(5, 2, 3, 4, 2);
      const { inputs } = backward(cotangent);
      expect(inputs.mask.shape).toEqual(shape);
      // Compares with central differences along one direction of each argument.
      const given = { query, key, value, mask: added };
      for (const [name, tensor] of Object.entries(given)) {
        const along = draw(6, ...tensor.shape);
        const at = (step: number) => {
          const moved = { data: tensor.data.map((v, i) => v + step * along.data[i]!), shape: tensor.shape };
          const all = { ...given, [name]: moved };
          const { data } = heed.attention(all.query, all.key, all.value, { mask: all.mask }).output;
          return data.reduce((sum, v, i) => sum + v * cotangent.data[i]!, 0);
        };
        const slope = (at(1e-2) - at(-1e-2)) / 2e-2;
        const expected = along.data.reduce((sum, v, i) => sum + v * inputs[name as 'mask'].data[i]!, 0);
        expect(Math.abs(slope - expected)).toBeLessThan(2e-3 * (1 + Math.abs(expected)));
      }
    }
  });

  it('may be backed once, by a cotangent of the shape of the output', () => {
    const layer = linear(8, 3);
    const { backward } = layer.forward(x, { backward: true });
    expect(() => backward(draw(1, 2, 5, 8))).toThrow(refused('SHAPE_MISMATCH', /cotangent: expected .*\[2, 5, 3\]/));
    backward(draw(1, 2, 5, 3));
    expect(() => backward(draw(1, 2, 5, 3))).toThrow(refused('INVALID_ARGUMENT', /one call per forward pass/));
  });

  it('throws in backward after the parameters changed, or after dispose()', () => {
    const layer = linear(8, 3);
    const first = layer.forward(x, { backward: true });
    layer.loadStateDict(layer.stateDict());
    expect(() => first.backward(draw(1, 2, 5, 3))).toThrow(
      refused('INVALID_ARGUMENT', /have changed since the forward pass/),
    );
    const second = layer.forward(x, { backward: true });
    layer.dispose();
    expect(() => second.backward(draw(1, 2, 5, 3))).toThrow(refused('DISPOSED', /Linear/));
  });

  it('rejects a `backward` that is not a boolean, and the option where a function does not take it', () => {
    expect(() => linear(8, 3).forward(x, { backward: 1 as unknown as true })).toThrow(
      refused('INVALID_ARGUMENT', /Linear.forward.backward: expected true or false/),
    );
    expect(() => heed.positionalEncoding(2, 4, { backward: true } as object)).toThrow(
      refused('UNSUPPORTED', /backward/),
    );
  });

  it('leaves frozen parameters out', () => {
    const layer = linear(8, 3).freeze('bias');
    const { parameters } = layer.forward(x, { backward: true }).backward(draw(1, 2, 5, 3));
    expect(Object.keys(parameters)).toEqual(['weight']);
  });

  it('types follow the option', () => {
    const layer = linear(8, 3);
    layer
      .forward(x, { backward: true })
      .backward(draw(1, 2, 5, 3))
      .inputs.x.data.length.toFixed();
    layer.forward(x).data.length.toFixed();
    // @ts-expect-error nothing asks for it
    expect(layer.forward(x).backward).toBeUndefined();
    // @ts-expect-error no such input
    expect(layer.forward(x, { backward: true }).backward(draw(1, 2, 5, 3)).inputs.key).toBeUndefined();
  });
});
