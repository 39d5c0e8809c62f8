/** `fromKeras`: weights and results of Keras' layers (tests/fixtures/keras/generate.py). */
import { readFileSync } from 'node:fs';
import { type FromKerasOptions, fromKeras, HeedError, load, Tensor, type TensorInput } from 'heed';
import { load as loadTraining } from 'heed/train';
import { describe, expect, test } from 'vitest';

interface Case {
  name: string;
  layer: string;
  options: unknown;
  weights: TensorInput[];
  inputs: unknown[];
  output: unknown;
  call?: object;
  fromKeras?: FromKerasOptions;
}

/** The members of layers that these tests use. */
interface AnyLayer {
  forward(...inputs: unknown[]): Tensor | { output: Tensor };
  stateDict(): Record<string, Tensor>;
}

const folder = new URL('../../fixtures/keras/', import.meta.url);
const cases = JSON.parse(readFileSync(new URL('keras.json', folder), 'utf8')) as Case[];
const bytesOf = (name: string) => new Uint8Array(readFileSync(new URL(name, folder)));
const named = (name: string) => cases.find((each) => each.name === name)!;

const entries = [
  ['heed', await load()],
  ['heed/train', await loadTraining()],
] as const;
const [[, heed]] = entries;

function makeLayer(of: object, layer: string, options: unknown): AnyLayer {
  const classes = of as Record<string, new (options: unknown) => AnyLayer>;
  if (layer !== 'Sequential') return new classes[layer]!(options);
  return new classes.Sequential!((options as [string, object][]).map(([name, each]) => makeLayer(of, name, each)));
}

const flat = (values: unknown) => (values as unknown[]).flat(Infinity) as number[];

describe.each(entries)('%s', (_, of) => {
  test.for(cases)("computes what Keras' layer computes: $name", (each, { skip }) => {
    skip(!(each.layer in of)); // layers that this version does not have
    return check(each);
  });

  async function check({ layer, options, weights, inputs, output, call, fromKeras: given }: Case) {
    const made = makeLayer(of, layer, options);
    expect(await fromKeras(made as never, weights, given)).toBe(made);
    const result = made.forward(...inputs, ...(call ? [call] : []));
    const { data } = result instanceof Tensor ? result : result.output;
    const expected = flat(output);
    expect(data).toHaveLength(expected.length);
    for (const [i, value] of data.entries())
      expect(Math.abs(value - expected[i]!), `entry ${i}`).toBeLessThanOrEqual(1e-5 + 1e-5 * Math.abs(expected[i]!));
  }
});

describe('.npz', () => {
  const { options, weights } = named('MultiHeadAttention, key_dim 4');
  const expected = makeLayer(heed, 'MultiHeadAttention', options);
  const attention = () => makeLayer(heed, 'MultiHeadAttention', options);

  test.each(['stored.npz', 'compressed.npz', 'types.npz'])('%s', async (name) => {
    await fromKeras(expected as never, weights);
    const made = attention();
    await fromKeras(made as never, bytesOf(name));
    const [got, wanted] = [made.stateDict(), expected.stateDict()];
    for (const [key, { data }] of Object.entries(wanted))
      for (const [i, value] of data.entries()) expect(Math.abs(got[key]!.data[i]! - value)).toBeLessThanOrEqual(1e-3);
    if (name !== 'types.npz') expect(got).toEqual(wanted);
    const { buffer } = bytesOf(name);
    await fromKeras(made as never, buffer);
  });

  test('takes arrays in the order of their numbers', async () => {
    const parts = Array.from({ length: 12 }, () => new heed.Embedding({ numEmbeddings: 1, embedDim: 1 }));
    const arrays = Array.from({ length: 12 }, (_, i) => [[i]]);
    const model = new heed.Sequential(parts as never);
    await fromKeras(model, arrays);
    const error = await errorOf(fromKeras(model, bytesOf('twelve.npz'))); // [1] instead of [1, 1]
    expect(error.message).toMatch(/fromKeras: arr_0: expected the table \[1, 1\], got shape \[1\]/);
    expect(parts.map((part) => part.stateDict().weight!.data[0])).toEqual(Array.from({ length: 12 }, (_, i) => i));
  });

  test.each([
    ['model.keras', () => bytesOf('model.keras'), 'UNSUPPORTED', /\.keras files are not read.*\.npz/],
    ['model.weights.h5', () => bytesOf('model.weights.h5'), 'UNSUPPORTED', /weights\.h5, are not read.*\.npz/],
    ['other bytes', () => new Uint8Array(100), 'INVALID_FILE', /expected the bytes of a \.npz file.*\.npz/],
    ['no bytes', () => new Uint8Array(0), 'INVALID_FILE', /expected the bytes of a \.npz file/],
    ['other names', () => bytesOf('named.npz'), 'INVALID_FILE', /arrays named arr_0, arr_1, ..., got 'kernel.npy'/],
    ['integers', () => bytesOf('integers.npz'), 'INVALID_FILE', /float16, float32 or float64, got '<i4'/],
    [
      'a damaged file',
      () => {
        const bytes = bytesOf('stored.npz');
        bytes[200]! ^= 1;
        return bytes;
      },
      'INVALID_FILE',
      /arr_0.npy: expected the checksum/,
    ],
  ])('refuses %s', async (_, make, code, message) => {
    const made = attention();
    const before = made.stateDict();
    const error = await errorOf(fromKeras(made as never, make()));
    expect(error).toMatchObject({ name: 'HeedError', code });
    expect(error.message).toMatch(message);
    expect(made.stateDict()).toEqual(before);
  });

  test.each(['stored.npz', 'compressed.npz'])('refuses what is left of %s', async (name) => {
    const bytes = bytesOf(name);
    for (let length = 0; length < bytes.length; length += 97) {
      const error = await errorOf(fromKeras(attention() as never, bytes.slice(0, length)));
      expect(error).toBeInstanceOf(HeedError);
      expect(error.code).toBe('INVALID_FILE');
    }
  });
});

const errorOf = (promise: Promise<unknown>): Promise<HeedError> =>
  promise.then(
    () => expect.unreachable('no error'),
    (error) => error,
  );

/** Zeros of a shape, as nested arrays. */
const zeros = ([extent, ...rest]: number[]): TensorInput =>
  extent === undefined ? (0 as never) : (Array.from({ length: extent }, () => zeros(rest)) as TensorInput);
const arraysOf = (...shapes: number[][]) => shapes.map(zeros);

describe('what does not fit', () => {
  const attention = { embedDim: 8, numHeads: 2 };
  const [query, bias, output] = [
    [8, 2, 4],
    [2, 4],
    [2, 4, 8],
  ];
  const all = [query, bias, query, bias, query, bias, output, [8]];
  const changed = (place: number, shape: number[]) => arraysOf(...all.map((each, i) => (i === place ? shape : each)));

  test.each<[string, object, unknown, string, RegExp]>([
    [
      'Linear',
      { inFeatures: 3, outFeatures: 2 },
      arraysOf([2, 3], [2]),
      'SHAPE_MISMATCH',
      /weights\[0\]: expected the dense kernel \[3, 2\], got shape \[2, 3\]/,
    ],
    [
      'Linear',
      { inFeatures: 3, outFeatures: 2 },
      arraysOf([3, 2], [3]),
      'SHAPE_MISMATCH',
      /weights\[1\]: expected the dense bias \[2\], got shape \[3\]/,
    ],
    [
      'Linear',
      { inFeatures: 3, outFeatures: 2 },
      arraysOf([3, 2]),
      'INVALID_ARGUMENT',
      /expected 2 arrays for Linear, got 1/,
    ],
    [
      'Linear',
      { inFeatures: 3, outFeatures: 2 },
      [
        [
          [1, 2],
          [NaN, 4],
          [5, 6],
        ],
        [1, 2],
      ],
      'INVALID_ARGUMENT',
      /weights\[0\]: expected finite numbers \[3, 2\], got NaN at entry 2/,
    ],
    [
      'Linear',
      { inFeatures: 3, outFeatures: 2 },
      [
        [[1, 2], [3], [5, 6]],
        [1, 2],
      ],
      'SHAPE_MISMATCH',
      /weights\[0\]/,
    ],
    [
      'Linear',
      { inFeatures: 3, outFeatures: 2 },
      'kernel',
      'INVALID_ARGUMENT',
      /the list of get_weights\(\), or the bytes/,
    ],
    [
      'MultiHeadAttention',
      attention,
      changed(2, [2, 4, 8]),
      'SHAPE_MISMATCH',
      /weights\[2\]: expected the key kernel \[8, 2, 4\], got shape \[2, 4, 8\]/,
    ],
    [
      'MultiHeadAttention',
      attention,
      changed(0, [8, 8]),
      'SHAPE_MISMATCH',
      /weights\[0\]: expected the query kernel \[8, 2, 4\], got shape \[8, 8\]/,
    ],
    [
      'MultiHeadAttention',
      attention,
      changed(5, [8]),
      'SHAPE_MISMATCH',
      /weights\[5\]: expected the value bias \[2, 4\], got shape \[8\]/,
    ],
    [
      'MultiHeadAttention',
      attention,
      changed(6, [2, 4, 6]),
      'SHAPE_MISMATCH',
      /weights\[6\]: expected the output kernel \[2, 4, 8\], got shape \[2, 4, 6\]/,
    ],
    [
      'MultiHeadAttention',
      attention,
      arraysOf(query, query, query, output),
      'INVALID_ARGUMENT',
      /expected 8 arrays.*got 4/,
    ],
    [
      'LayerNorm',
      { normalizedShape: 8 },
      arraysOf([8], [7]),
      'SHAPE_MISMATCH',
      /weights\[1\]: expected the norm's beta \[8\], got shape \[7\]/,
    ],
    ['BatchNorm', { numFeatures: 8 }, arraysOf([8], [8]), 'INVALID_ARGUMENT', /expected 4 arrays for BatchNorm, got 2/],
    [
      'Embedding',
      { numEmbeddings: 7, embedDim: 4 },
      arraysOf([4, 7]),
      'SHAPE_MISMATCH',
      /the table \[7, 4\], got shape \[4, 7\]/,
    ],
    ['Dropout', {}, arraysOf([1]), 'INVALID_ARGUMENT', /expected 0 arrays/],
    [
      'FeedForward',
      { embedDim: 8, feedForwardDim: 12 },
      arraysOf([8, 12], [12], [8, 12], [8]),
      'SHAPE_MISMATCH',
      /weights\[2\]: expected the dense kernel \[12, 8\]/,
    ],
    [
      'EncoderLayer',
      { ...attention, feedForwardDim: 12 },
      [...changed(0, [2, 4, 8]), ...arraysOf([8, 12], [12], [12, 8], [8], [8], [8], [8], [8])],
      'SHAPE_MISMATCH',
      /weights\[0\]: expected the query kernel \[8, 2, 4\] or the dense kernel \[8, 12\] or the norm's gamma \[8\], got shape \[2, 4, 8\]/,
    ],
    // A block of Keras' tutorials, whose heads have the full width: its kernels [8, 2, 8] look like those of dense layers.
    ...[12, 16, 8].map((feedForwardDim): [string, object, unknown, string, RegExp] => [
      'EncoderLayer',
      { ...attention, feedForwardDim },
      arraysOf(
        ...Array.from({ length: 3 }, () => [
          [8, 2, 8],
          [2, 8],
        ]).flat(),
        ...[[2, 8, 8], [8], [8, feedForwardDim], [feedForwardDim], [feedForwardDim, 8], [8]],
        ...[[8], [8], [8], [8]],
      ),
      'SHAPE_MISMATCH',
      /weights\[0\]: expected the query kernel \[8, 2, 4\].*, got shape \[8, 2, 8\]\. Keras' layer has the key_dim 8: make heed's layer with keyDim: 8/,
    ]),
    [
      'MultiHeadAttention',
      attention,
      changed(4, [8, 2, 3]),
      'SHAPE_MISMATCH',
      /weights\[4\]: expected the value kernel .*the value_dim 3: make heed's layer with valueDim: 3/,
    ],
  ])('%s %#', async (name, options, weights, code, message) => {
    // biome-ignore format: one case per line
    for (const [, of] of entries) {
      const layer = makeLayer(of, name, options);
      const before = layer.stateDict();
      const error = await errorOf(fromKeras(layer as never, weights as never));
      expect(error).toBeInstanceOf(HeedError);
      expect(error.message).toMatch(message);
      expect(error.code).toBe(code);
      expect(layer.stateDict()).toEqual(before);
    }
  });

  test('what is no layer', async () => {
    for (const wrong of [null, 3, {}, 'Linear'])
      expect((await errorOf(fromKeras(wrong as never, []))).message).toMatch(/fromKeras: layer: expected a layer/);
    const error = await errorOf(fromKeras(new heed.Dropout(), [], { scales: true } as never));
    expect(error.message).toMatch(/unknown option 'scales'/);
  });
});
