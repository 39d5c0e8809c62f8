/** Token embeddings in pages by range requests: the same vectors with fewer bytes, and servers with other responses. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type FromPretrainedOptions, load } from 'heed';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { quantizationConfig } from '../../../web/src/folders/quantize-rows.js';
import { headerEnd, int4RowBytes, parseHeader, writeSafetensors } from '../../../web/src/io/safetensors.js';
import { type Answer, bert, type Files, openServer, serving } from './server.js';

const heed = await load();
const server = await openServer();
afterAll(() => server.close());

const VOCABULARY = 20_000;
const WIDTH = 24;
const table = Float32Array.from({ length: VOCABULARY * WIDTH }, (_, i) => Math.sin(i * 0.7) / 2);
const bits = new Uint32Array(table.buffer);

const scale = Float32Array.from({ length: VOCABULARY }, (_, row) => (1 + row / VOCABULARY) / 300);

/** The table in each type of storage. */
const stored: Record<string, { data: ArrayBufferView; scale?: Float32Array }> = {
  F32: { data: table },
  // Numbers of every exponent from -14 to 1.
  F16: { data: Uint16Array.from(bits, (_, i) => (i & 0x8000) | (((i % 16) + 1) << 10) | (i & 1023)) },
  BF16: { data: Uint16Array.from(bits, (word) => word >>> 16) },
  I8: {
    data: Int8Array.from(table, (v) => Math.round(v * 254)),
    scale,
  },
  // 4-bit rows: all bytes are valid.
  U8: { data: Uint8Array.from({ length: VOCABULARY * int4RowBytes(WIDTH) }, (_, i) => (i * i) >> 3), scale },
};

/** A BERT whose table is much larger than its other tensors. */
function modelOf(dtype: string): Files {
  const file = bert['model.safetensors']!;
  const start = headerEnd(file, 'bert', file.length);
  const tensors = parseHeader(file.subarray(8, start), 'bert', file.length).map(
    ({ name, dtype, shape, begin, end }) => ({
      name,
      dtype,
      shape,
      data: file.slice(start + begin, start + end) as ArrayBufferView,
    }),
  );
  const words = tensors.find(({ name }) => name.endsWith('word_embeddings.weight'))!;
  const { data, scale } = stored[dtype]!;
  Object.assign(words, { dtype, shape: [VOCABULARY, dtype === 'U8' ? int4RowBytes(WIDTH) : WIDTH], data });
  if (scale) tensors.push({ name: `${words.name}_scale`, dtype: 'F32', shape: [VOCABULARY, 1], data: scale });
  const config = JSON.parse(new TextDecoder().decode(bert['config.json'] as Uint8Array));
  return {
    'config.json': JSON.stringify({
      ...config,
      vocab_size: VOCABULARY,
      ...(dtype === 'U8' && { quantization_config: quantizationConfig('int4', [['int8', ['Linear']]], [], new Map()) }),
    }),
    'model.safetensors': writeSafetensors(tensors),
  };
}

const files = Object.fromEntries(Object.keys(stored).map((dtype) => [dtype, modelOf(dtype)]));
const model = `${server.base}model`;
const few = { inputIds: [[5, 6, 7], [5990]] };
const others = { inputIds: [[2000, 4000, 5, 3000]] };

/** The ranges of the weights that were sent, and the sum of their bytes. */
let ranges: string[];
let sent: number;
/** Answers range requests for the weights like most servers, modified by `change`. */
const ranged =
  (content: Files, change: (response: ServerResponse, range: string) => boolean = () => false): Answer =>
  (request: IncomingMessage, response, name) => {
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    if (name !== 'model.safetensors' || first === undefined) return serving(content)(request, response, name);
    const bytes = Buffer.from(content[name] as Uint8Array);
    const part = bytes.subarray(Number(first), Number(last) + 1);
    ranges.push(`${first}-${last}`);
    sent += part.length;
    if (change(response, `${first}-${last}`)) return;
    response
      .writeHead(206, {
        'content-range': `bytes ${first}-${Number(first) + part.length - 1}/${bytes.length}`,
        'content-length': part.length,
        etag: '"1"',
      })
      .end(part);
  };

const paged = (options: FromPretrainedOptions = {}) => heed.fromPretrained(model, { ...options, embeddings: 'paged' });
const whole = (content: Files, options: FromPretrainedOptions = {}) => heed.fromPretrained(content as never, options);
const error = (code: string, message: string) =>
  expect.objectContaining({ name: 'HeedError', code, message: expect.stringContaining(message) });

beforeEach(() => {
  ranges = [];
  sent = 0;
  server.answer = ranged(files.F32!);
});

describe('the vectors are those with the whole table', () => {
  test.each(
    Object.keys(stored).flatMap((dtype) => [
      [dtype, 'fp32', false] as const,
      [dtype, 'q8', false] as const,
      [dtype, 'fp32', true] as const,
    ]),
  )('%s as %s, in a worker: %s', async (stored, dtype, worker) => {
    const content = files[stored]!;
    server.answer = ranged(content);
    using expected = await whole(content, { dtype });
    using loaded = await paged({ dtype, worker });
    const size = (content['model.safetensors'] as Uint8Array).length;
    expect(sent).toBeLessThan(size / 2);
    for (const input of [few, others, few]) expect(await loaded.embed(input)).toEqual(await expected.embed(input));
    const requests = ranges.length;
    expect((await loaded.encode(others)).lastHiddenState).toEqual((await expected.encode(others)).lastHiddenState);
    expect(ranges).toHaveLength(requests); // all rows had been fetched
    expect(sent).toBeLessThan(size);
    expect(loaded.config).toEqual(expected.config);
  });
});

test('pages that several calls need are fetched once, adjacent ones together', async () => {
  using loaded = await paged();
  ranges = [];
  const calls = await Promise.all([loaded.embed(others), loaded.embed(others), loaded.embed(others)]);
  expect(calls[1]).toEqual(calls[0]);
  expect(new Set(ranges).size).toBe(ranges.length);
  expect(ranges.length).toBeLessThanOrEqual(4);
  using fresh = await paged();
  ranges = [];
  await fresh.embed({ inputIds: [Array.from({ length: 8 }, (_, i) => 2000 + 100 * i)] });
  expect(ranges).toHaveLength(1);
});

test('a call can be stopped while it waits, and the next one gets the rows', async () => {
  using loaded = await paged();
  let release = () => {};
  const waiting = new Promise<void>((asked) => {
    server.answer = (...given) => {
      release = () => ranged(files.F32!)(...given);
      asked();
    };
  });
  const stop = new AbortController();
  const call = loaded.embed({ inputIds: [[3000]] }, { signal: stop.signal });
  await waiting;
  stop.abort(new Error('enough'));
  await expect(call).rejects.toThrow('enough');
  const again = loaded.embed({ inputIds: [[3000]] });
  release();
  using expected = await whole(files.F32!);
  expect(await again).toEqual(await expected.embed({ inputIds: [[3000]] }));
});

test('a call that has been stopped asks for nothing', async () => {
  using loaded = await paged();
  ranges = [];
  const stopped = loaded.embed({ inputIds: [[3000]] }, { signal: AbortSignal.abort() });
  await expect(stopped).rejects.toMatchObject({ name: 'AbortError' });
  expect(ranges).toEqual([]);
});

test('a server that is busy is asked again', async () => {
  using loaded = await paged();
  let refused = 0;
  server.answer = ranged(files.F32!, (response) => {
    if (refused++ > 1) return false;
    response.writeHead(refused === 1 ? 503 : 429).end();
    return true;
  });
  using expected = await whole(files.F32!);
  expect(await loaded.embed({ inputIds: [[3000]] })).toEqual(await expected.embed({ inputIds: [[3000]] }));
  expect(refused).toBe(3);
});

test('a model that is disposed of while it waits', async () => {
  const loaded = await paged();
  const waiting = new Promise<() => void>((asked) => {
    server.answer = (...given) => asked(() => ranged(files.F32!)(...given));
  });
  const call = loaded.embed({ inputIds: [[3000]] });
  const release = await waiting;
  loaded.dispose();
  release();
  await expect(call).rejects.toMatchObject({ code: 'DISPOSED' });
});

test('a server that sends whole files', async () => {
  server.answer = serving(files.F32!);
  using loaded = await paged();
  using expected = await whole(files.F32!);
  expect(await loaded.embed(others)).toEqual(await expected.embed(others));
});

const changes: [string, (response: ServerResponse, range: string) => void, string][] = [
  [
    'another range',
    (r) => r.writeHead(206, { 'content-range': 'bytes 0-9/99', etag: '"1"' }).end('0123456789'),
    'bytes 0-9/99',
  ],
  ['no range', (r) => r.writeHead(206, { etag: '"1"' }).end('0123456789'), 'no Content-Range'],
  [
    'a file that changed',
    (r, range) => {
      const size = (files.F32!['model.safetensors'] as Uint8Array).length;
      r.writeHead(206, { 'content-range': `bytes ${range}/${size}`, etag: '"2"' }).end('0123456789');
    },
    'of another version',
  ],
  ['the whole file', (r) => r.writeHead(200, { etag: '"1"' }).end('0123456789'), 'status 200'],
  ['nothing', (r) => r.writeHead(404).end('none'), 'status 404'],
  [
    'too few bytes',
    (r, range) => {
      const size = (files.F32!['model.safetensors'] as Uint8Array).length;
      r.writeHead(206, { 'content-range': `bytes ${range}/${size}`, etag: '"1"' }).end('0123456789');
    },
    'model.safetensors: expected',
  ],
];
test.each(changes)('%s instead of a page is an error, and the next call tries again', async (_, change, message) => {
  using loaded = await paged();
  server.answer = ranged(files.F32!, (response, range) => {
    change(response, range);
    return true;
  });
  await expect(loaded.embed(others)).rejects.toEqual(error('NETWORK', message));
  server.answer = ranged(files.F32!);
  using expected = await whole(files.F32!);
  expect(await loaded.embed(others)).toEqual(await expected.embed(others));
});

test('a connection that breaks is resumed', async () => {
  using loaded = await paged();
  let broken = false;
  server.answer = ranged(files.F32!, (response, range) => {
    if (broken) return false;
    broken = true;
    const [first, last] = range.split('-').map(Number) as [number, number];
    const bytes = files.F32!['model.safetensors'] as Uint8Array;
    response.writeHead(206, {
      'content-range': `bytes ${range}/${bytes.length}`,
      'content-length': last - first + 1,
      etag: '"1"',
    });
    response.write(bytes.subarray(first, first + 100), () => response.destroy());
    return true;
  });
  using expected = await whole(files.F32!);
  const input = { inputIds: [[3000]] };
  expect(await loaded.embed(input)).toEqual(await expected.embed(input));
});

describe('what needs all rows or other sources is refused', () => {
  test('logits of words', async () => {
    using loaded = await paged();
    await expect(loaded.predict('fill-mask', few)).rejects.toEqual(
      error('UNSUPPORTED', "'whole' for vocabulary logits"),
    );
    expect((await loaded.embed(few)).shape).toEqual([2, WIDTH]);
  });

  test.each([
    [
      'files in memory',
      () => heed.fromPretrained(bert as never, { embeddings: 'paged' }),
      'UNSUPPORTED',
      'a folder on a server',
    ],
    ['a pool', () => paged({ workers: 2 }), 'UNSUPPORTED', 'and no `workers`'],
    [
      'a digest of the weights',
      () => paged({ integrity: { 'model.safetensors': `sha256-${'0'.repeat(64)}` } }),
      'INVALID_ARGUMENT',
      "no digest of 'model.safetensors'",
    ],
    [
      'another word',
      () => heed.fromPretrained(model, { embeddings: 'some' as never }),
      'INVALID_ARGUMENT',
      "one of 'whole', 'paged'",
    ],
  ] as const)('%s', async (_, call, code, message) => {
    await expect(call()).rejects.toEqual(error(code, message));
  });
});
