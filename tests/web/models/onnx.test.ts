/** Weights in ONNX files: which file is taken, external data, progress, options of the load, and rewritten folders. */
import { type FromPretrainedOptions, load, type ModelSource, pipeline } from 'heed';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { onnxFile, tensorsOf } from './onnx-writer.js';
import { bert, openServer, serving } from './server.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const server = await openServer();
afterAll(() => server.close());
beforeEach(() => {
  server.asked.length = 0;
});

const TEXT = 'the quick brown fox';
const tiny = tinyModel();
const { 'model.safetensors': safetensors, ...others } = tiny;
const tensors = tensorsOf(safetensors as Uint8Array);
const onnx = onnxFile(tensors);
/** The same model with other weights. */
const other = onnxFile(
  tensors.map((tensor) => ({
    ...tensor,
    raw: new Uint8Array(Float32Array.from(floats(tensor.raw!), (v) => v / 2).buffer),
  })),
);

function floats(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}

async function vectorOf(source: ModelSource, options?: FromPretrainedOptions): Promise<number[]> {
  const model = await heed.fromPretrained(source, options);
  try {
    return [...(await model.embed(TEXT)).data];
  } finally {
    model.dispose();
  }
}

const expected = await vectorOf(tiny);
const otherwise = await vectorOf({ ...others, 'model.onnx': other });

test('a page can respond while a file in memory is read', async () => {
  const nodes = Array.from({ length: 30_000 }, (_, i) => ({ op: 'Identity', inputs: ['x'], outputs: [`y${i}`] }));
  const readers = tensors.map(({ name }) => ({ op: 'Identity', inputs: [name], outputs: [`${name}_out`] }));
  const file = onnxFile(tensors, [...readers, ...nodes]);
  let turns = 0;
  let isDone = false;
  const count = () => {
    turns++;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  (await heed.fromPretrained({ ...others, 'model.onnx': file })).dispose();
  isDone = true;
  expect(turns).toBeGreaterThan(1);
});

test('weights in ONNX give the same vectors as in safetensors', async () => {
  expect(await vectorOf({ ...others, 'onnx/model.onnx': onnx })).toEqual(expected);
  expect(otherwise).not.toEqual(expected);
});

describe('the file that is taken', () => {
  const names = ['model.safetensors', 'onnx/model.onnx', 'model.onnx'];
  const integers = [
    'onnx/model_quantized.onnx',
    'onnx/model_int8.onnx',
    'onnx/model_qint8_arm64.onnx',
    'onnx/model_qint8_avx512_vnni.onnx',
    'onnx/model_uint8.onnx',
  ];
  const content = (name: string, isFirst: boolean) =>
    name === 'model.safetensors' ? (safetensors as Uint8Array) : isFirst ? onnx : other;

  async function taken(files: string[], options?: FromPretrainedOptions): Promise<string[]> {
    const read = new Set<string>();
    const folder = Object.fromEntries(files.map((name, i) => [name, content(name, i === 0)]));
    const onProgress: FromPretrainedOptions['onProgress'] = ({ file }) => read.add(file.name);
    (await heed.fromPretrained({ ...others, ...folder }, { ...options, onProgress })).dispose();
    return [...read].filter((name) => !name.endsWith('.json'));
  }

  test.each(names.map((_, i) => names.slice(i)))("'fp32' reads %s before %s", async (...files) => {
    expect(await taken(files)).toEqual([files[0]]);
  });

  test.each([...integers, ...names].map((_, i) => [...integers, ...names].slice(i)))(
    "'q8' reads %s before %s",
    async (...files) => {
      expect(await taken(files, { dtype: 'q8' })).toEqual([files[0]]);
    },
  );

  test('servers are asked for the first name, and only if it is missing for the others', async () => {
    const source = `${server.base}model/`;
    const weights = () => server.asked.filter((name) => /safetensors|onnx/.test(name));
    server.answer = serving({ ...bert, 'onnx/model.onnx': onnx });
    await heed.fromPretrained(source);
    expect(weights()).toEqual(['model.safetensors']);
    server.asked.length = 0;
    server.answer = serving({ ...others, 'onnx/model_int8.onnx': onnx, 'model.safetensors': safetensors! });
    await heed.fromPretrained(source, { dtype: 'q8' });
    const integers = weights();
    expect(integers.slice(0, 2)).toEqual(['onnx/model_quantized.onnx', 'onnx/model_int8.onnx']);
    expect(integers.at(-1)).toBe('model.safetensors'); // with the others, so that it does not wait for their answers
    expect(integers).toHaveLength(7); // each name once
    server.asked.length = 0;
    server.answer = serving({ ...others, 'onnx/model_quantized.onnx': onnx, 'model.safetensors': safetensors! });
    await heed.fromPretrained(source, { dtype: 'q8' });
    expect(weights()).toEqual(['onnx/model_quantized.onnx']);
    server.asked.length = 0;
    server.answer = serving({ ...others, 'model.onnx': onnx });
    await heed.fromPretrained(source);
    expect(weights()).toEqual(['model.safetensors', 'model.safetensors.index.json', 'onnx/model.onnx', 'model.onnx']);
  });

  test('`weights` names a file', async () => {
    const files = { ...tiny, 'onnx/model.onnx': onnx, 'onnx/model_q4.onnx': other };
    expect(await vectorOf(files, { weights: 'onnx/model_q4.onnx' })).toEqual(otherwise);
    expect(await vectorOf(files, { weights: 'model.safetensors' })).toEqual(expected);
    expect(await vectorOf(files, { weights: 'onnx/model_q4.onnx', worker: true })).toEqual(otherwise);
  });

  test.each([
    ['onnx/none.onnx', 'NOT_FOUND'],
    ['../model.onnx', 'INVALID_ARGUMENT'],
    ['/model.onnx', 'INVALID_ARGUMENT'],
    ['onnx\\model.onnx', 'INVALID_ARGUMENT'],
    ['https://example.org/model.onnx', 'INVALID_ARGUMENT'],
    ['model.bin', 'INVALID_ARGUMENT'],
    ['', 'INVALID_ARGUMENT'],
    ['model.ort', 'UNSUPPORTED'],
    [3, 'INVALID_ARGUMENT'],
  ])('`weights: %j` is refused', async (weights, code) => {
    await expect(heed.fromPretrained(tiny, { weights: weights as string })).rejects.toMatchObject({ code });
  });
});

/** The tensors with values of at least 100 bytes in another file. */
function externalFiles(location = 'model.onnx_data'): { file: Uint8Array; data: Uint8Array } {
  const parts: Uint8Array[] = [];
  let at = 0;
  const moved = tensors.map(({ name, dims, raw }) => {
    if (raw!.length < 100) return { name, dims, raw: raw! };
    const external = { location, offset: `${at}`, length: `${raw!.length}` };
    parts.push(raw!, new Uint8Array(8)); // a gap, as of alignment
    at += raw!.length + 8;
    return { name, dims, external };
  });
  const data = new Uint8Array(at);
  let to = 0;
  for (const part of parts) {
    data.set(part, to);
    to += part.length;
  }
  return { file: onnxFile(moved), data };
}

describe('external data', () => {
  const { file, data } = externalFiles();
  const folder = { ...others, 'onnx/model.onnx': file, 'onnx/model.onnx_data': data };

  test('is read from the folder of the ONNX file, with progress', async () => {
    const seen: [string, number, number | null][] = [];
    const onProgress: FromPretrainedOptions['onProgress'] = ({ file, done, total }) =>
      seen.push([file.name, done, total]);
    expect(await vectorOf(folder, { onProgress })).toEqual(expected);
    const read = ['config.json', 'tokenizer.json', 'onnx/model.onnx', 'onnx/model.onnx_data'] as const;
    const total = read.reduce(
      (sum, name) => sum + Buffer.from((folder as Record<string, Uint8Array>)[name]!).length,
      0,
    );
    expect(seen.at(-1)).toEqual(['onnx/model.onnx_data', total, total]);
    expect(seen.every(([, done, total]) => total !== null && done <= total)).toBe(true);
  });

  test('is read from servers, by workers too', async () => {
    server.answer = serving(folder);
    expect(await vectorOf(`${server.base}model/`)).toEqual(expected);
    expect(await vectorOf(`${server.base}model/`, { workers: 2 })).toEqual(expected);
  });

  test.each([
    ['missing', { 'onnx/model.onnx_data': undefined }, 'NOT_FOUND'],
    ['truncated', { 'onnx/model.onnx_data': data.subarray(0, -9) }, 'INVALID_FILE'],
  ])('%s', async (_, change, code) => {
    const files = Object.fromEntries(Object.entries({ ...folder, ...change }).filter(([, content]) => content));
    await expect(heed.fromPretrained(files as Record<string, Uint8Array>)).rejects.toMatchObject({ code });
  });

  test.each(['../data', '/data', 'a/../../data', 'a\\data', 'C:data', 'https://example.org/data', '', 'a//b', '.'])(
    'a location such as %j is refused',
    async (location) => {
      const files = { ...folder, 'onnx/model.onnx': externalFiles(location).file };
      await expect(heed.fromPretrained(files)).rejects.toMatchObject({ code: 'INVALID_FILE' });
    },
  );

  test.each<[string, Record<string, string>]>([
    ['a negative offset', { offset: '-4' }],
    ['a length that differs from the shape', { length: '4' }],
    ['an offset beyond 2^53', { offset: '99999999999999999999' }],
    ['an offset beyond the file', { offset: `${2 ** 50}` }],
    ['overlapping ranges', { offset: '4' }],
  ])('%s is refused', async (_, change) => {
    const ranges = tensors.map(({ name, dims, raw }, i) => {
      const whole = { location: 'model.onnx_data', offset: '0', length: `${raw!.length}` };
      return i > 1 ? { name, dims, raw: raw! } : { name, dims, external: i === 1 ? { ...whole, ...change } : whole };
    });
    const files = { ...others, 'onnx/model.onnx': onnxFile(ranges), 'onnx/model.onnx_data': data };
    await expect(heed.fromPretrained(files)).rejects.toMatchObject({ code: 'INVALID_FILE' });
  });
});

describe('options of a load', () => {
  const folder = { ...others, 'onnx/model.onnx': onnx };

  test('workers', async () => {
    expect(await vectorOf(folder, { worker: true })).toEqual(expected);
    expect(await vectorOf(folder, { workers: 2 })).toEqual(expected);
  });

  test('abort, after which the runtime is usable', async () => {
    const controller = new AbortController();
    const onProgress: FromPretrainedOptions['onProgress'] = ({ file }) => {
      if (file.name.endsWith('.onnx')) controller.abort();
    };
    const { signal } = controller;
    await expect(heed.fromPretrained(folder, { onProgress, signal })).rejects.toMatchObject({ name: 'AbortError' });
    expect(await vectorOf(folder)).toEqual(expected);
  });

  test('integrity', async () => {
    const digest = async (bytes: Uint8Array) =>
      `sha256-${Buffer.from(await crypto.subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>)).toString('hex')}`;
    const integrity = { 'onnx/model.onnx': await digest(onnx) };
    expect(await vectorOf(folder, { integrity })).toEqual(expected);
    const changed = { ...folder, 'onnx/model.onnx': other };
    await expect(heed.fromPretrained(changed, { integrity })).rejects.toMatchObject({ code: 'INVALID_FILE' });
  });

  test('paged embeddings are refused with a reason, unless there is a safetensors file', async () => {
    const source = `${server.base}model/`;
    server.answer = serving(folder);
    await expect(heed.fromPretrained(source, { embeddings: 'paged' })).rejects.toThrow(/'whole' for ONNX weights/);
    server.answer = serving({ ...tiny, 'onnx/model_quantized.onnx': other });
    (await heed.fromPretrained(source, { embeddings: 'paged', dtype: 'q8' })).dispose();
  });
});

test('inspect names the files, with the sizes of the model', async () => {
  const { file, data } = externalFiles();
  const { files, ...inspected } = await heed.inspect({
    ...others,
    'onnx/model.onnx': file,
    'onnx/model.onnx_data': data,
  });
  const { files: _, download, ...like } = await heed.inspect(tiny);
  expect(files).toContainEqual({ path: 'onnx/model.onnx', bytes: file.length });
  expect(files).toContainEqual({ path: 'onnx/model.onnx_data', bytes: data.length });
  expect(inspected).toMatchObject({ ...like, problem: null });
  // The header lists the tensors in another order, whose offsets have other numbers of digits.
  expect(Math.abs(inspected.download.q8! - download.q8!)).toBeLessThan(100);
});

test('quantize and prune write safetensors with the same tensors as for a safetensors folder', async () => {
  const folder = { ...others, 'onnx/model.onnx': onnx };
  const [{ files }, like] = [await heed.quantize(folder), await heed.quantize(tiny)];
  expect(Object.keys(files).sort()).toEqual(Object.keys(like.files).sort());
  expect(await vectorOf(files)).toEqual(await vectorOf(like.files));
  const pruned = await heed.prune(folder, { keep: [TEXT] });
  expect(await vectorOf(pruned.files)).toEqual(expected);
});

test.each([
  ['int8', 'onnx/model_int8.onnx'],
  ['uint8', 'onnx/model_uint8.onnx'],
  ['q4', 'onnx/model_q4.onnx'],
  ['q4f16', 'onnx/model_q4f16.onnx'],
  ['bnb4', 'onnx/model_bnb4.onnx'],
  ['fp16', 'onnx/model_fp16.onnx'],
] as const)("pipeline's dtype '%s' reads %s", async (dtype, path) => {
  const embed = await pipeline('feature-extraction', { ...tiny, [path]: other }, { dtype });
  const { data } = await embed(TEXT, { pooling: 'mean' });
  const q8 = dtype.endsWith('int8') ? { dtype: 'q8' as const } : {};
  expect([...data]).toEqual(await vectorOf({ ...others, 'model.onnx': other }, q8));
  await embed.dispose();
});
