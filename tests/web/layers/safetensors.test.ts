/** State dicts as safetensors files. */
import { HeedError, load, loadSafetensors, saveSafetensors } from 'heed';
import { describe, expect, test } from 'vitest';
import { headerEnd, metadataOf, writeSafetensors } from '../../../web/src/io/safetensors.js';
import { bert } from '../models/server.js';

const heed = await load();

test('a state dict and back', () => {
  const options = { embedDim: 4, numHeads: 2, feedForwardDim: 6 };
  const [layer, copy] = [
    new heed.EncoderLayer({ ...options, seed: 1 }),
    new heed.EncoderLayer({ ...options, seed: 2 }),
  ];
  const state = layer.stateDict();
  const bytes = saveSafetensors(state);
  expect(Object.keys(loadSafetensors(bytes)).sort()).toEqual(Object.keys(state).sort());
  copy.loadStateDict(loadSafetensors(bytes.buffer));
  expect(copy.stateDict()).toEqual(state);
});

test('nested arrays, tensors without axes or values, metadata, and any name', () => {
  const given = Object.fromEntries<never>([
    ['__proto__', [[1, -2]] as never],
    ['1', { data: Float32Array.of(0.1), shape: [] } as never],
    ['none', { data: new Float32Array(), shape: [0, 3] } as never],
    ['ä/🦊', [NaN, -0, Infinity] as never],
  ]);
  const bytes = saveSafetensors(given, { metadata: { epoch: '3' } });
  const state = loadSafetensors(bytes);
  expect(
    Object.entries(state)
      .map(([name, { data, shape }]) => [name, [...data], shape])
      .sort(),
  ).toEqual(
    [
      ['1', [Math.fround(0.1)], []],
      ['__proto__', [1, -2], [1, 2]],
      ['none', [], [0, 3]],
      ['ä/🦊', [NaN, -0, Infinity], [3]],
    ].sort(),
  );
  const header = bytes.subarray(8, headerEnd(bytes, '', bytes.length));
  expect(metadataOf(header, '')).toEqual({ epoch: '3' });
  expect(loadSafetensors(saveSafetensors({}))).toEqual({});
});

test("a published model's weights", () => {
  const words = Object.entries(loadSafetensors(bert['model.safetensors']!)).find(([name]) =>
    name.endsWith('word_embeddings.weight'),
  )!;
  expect(words[1].shape).toHaveLength(2);
});

describe('types', () => {
  const read = (dtype: string, data: ArrayBufferView, shape = [2]) => [
    ...loadSafetensors(writeSafetensors([{ name: 'x', dtype, shape, data }])).x!.data,
  ];

  test.each([
    ['F64', Float64Array.of(0.1, -1e300), [Math.fround(0.1), -Infinity]],
    ['F32', Float32Array.of(0.5, -2), [0.5, -2]],
    ['F16', Uint16Array.of(0x3c00, 0xc100), [1, -2.5]],
    ['BF16', Uint16Array.of(0x3f80, 0xc020), [1, -2.5]],
    ['I64', BigInt64Array.of(3n, -16777216n), [3, -16777216]],
    ['U64', BigUint64Array.of(3n, 16777216n), [3, 16777216]],
    ['I32', Int32Array.of(-5, 7), [-5, 7]],
    ['U32', Uint32Array.of(5, 7), [5, 7]],
    ['I16', Int16Array.of(-5, 7), [-5, 7]],
    ['U16', Uint16Array.of(65535, 7), [65535, 7]],
    ['I8', Int8Array.of(-5, 7), [-5, 7]],
    ['U8', Uint8Array.of(255, 7), [255, 7]],
    ['BOOL', Uint8Array.of(0, 1), [0, 1]],
  ])('%s', (dtype, data, expected) => {
    expect(read(dtype, data)).toEqual(expected);
  });

  test.each([
    ['I64', BigInt64Array.of(3n, 16777217n)],
    ['U32', Uint32Array.of(2 ** 24 + 1, 0)],
    ['F8_E4M3', Uint8Array.of(1, 2)],
  ])('%s is refused', (dtype, data) => {
    expect(() => read(dtype, data)).toThrow(expect.objectContaining({ code: 'UNSUPPORTED' }));
  });
});

const code = (body: () => unknown) => {
  try {
    body();
  } catch (error) {
    expect(error).toBeInstanceOf(HeedError);
    return (error as HeedError).code;
  }
  return 'none';
};

test('bytes that are no such file', () => {
  const good = saveSafetensors({ weight: [[1, 2]], bias: [3] });
  const text = new TextDecoder().decode(good.subarray(8));
  const withHeader = (json: string, data = 12) => {
    const header = new TextEncoder().encode(json);
    const bytes = new Uint8Array(8 + header.length + data);
    new DataView(bytes.buffer).setBigUint64(0, BigInt(header.length), true);
    bytes.set(header, 8);
    return bytes;
  };
  const entry = (more: object) =>
    withHeader(JSON.stringify({ x: { dtype: 'F32', shape: [3], data_offsets: [0, 12], ...more } }));
  expect(code(() => loadSafetensors(entry({})))).toBe('none');
  const bad = [
    ...Array.from({ length: good.length }, (_, length) => good.slice(0, length)), // every truncation
    Uint8Array.from([...good, 0]),
    new TextEncoder().encode(text),
    withHeader('[]'),
    withHeader('null'),
    withHeader('{"x": 1}'),
    withHeader('{"x": {"dtype": "F32", "shape": [3]}}'),
    ...[
      { dtype: 'F31' },
      { dtype: 4 },
      { shape: [-3] },
      { shape: [4] },
      { shape: '3' },
      { shape: [2 ** 31, 0], data_offsets: [0, 0] },
      { data_offsets: [4, 16] },
      { data_offsets: [0, 2 ** 40] },
    ].map(entry),
    withHeader(JSON.stringify({ x: { dtype: 'F32', shape: [2 ** 40, 0], data_offsets: [0, 0] } }), 0),
  ];
  for (const bytes of bad) expect(code(() => loadSafetensors(bytes))).toBe('INVALID_FILE');
});

test('what is not bytes, or not a state dict', () => {
  for (const value of [null, undefined, 'text', 3, [1, 2], {}, Symbol('x')])
    expect(code(() => loadSafetensors(value as never))).toBe('INVALID_ARGUMENT');
  for (const value of [
    null,
    undefined,
    'text',
    3,
    [1, 2],
    { x: 'text' },
    { x: 3 },
    { x: { data: Int8Array.of(1), shape: [1] } },
    { __metadata__: [1] },
  ])
    expect(code(() => saveSafetensors(value as never))).toBe('INVALID_ARGUMENT');
  expect(code(() => saveSafetensors({ x: [[1], [2, 3]] }))).toBe('SHAPE_MISMATCH');
  for (const options of [{ metadata: { epoch: 3 } }, { metadata: [] }, { metadat: {} }])
    expect(code(() => saveSafetensors({}, options as never))).toBe('INVALID_ARGUMENT');
});
