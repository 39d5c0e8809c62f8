/** The option `numLayers`: a model's first layers, and reading no more than they need. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type LoadProgress, load } from 'heed';
import { afterAll, describe, expect, test } from 'vitest';
import { headerEnd, parseHeader, writeSafetensors } from '../../../web/src/io/safetensors.js';
import { expectClose, fixture, fixtures, readSafetensors } from './fixtures.js';
import { type Answer, bert, except, type Files, openServer, serving } from './server.js';

const heed = await load();
/** By tests/fixtures/models/first_layers.py. */
const expected = readSafetensors(`${fixtures}first-layers.safetensors`);
const WEIGHTS = 'model.safetensors';

test.each([...expected.keys()])('the first layer of %s equals that of transformers', async (name) => {
  const { folder, input } = fixture(name);
  using model = await heed.fromPretrained(folder, { numLayers: 1 });
  expect(model.config.numLayers).toBe(1);
  const out = await model.encode(input, { outputAttentions: true, outputHiddenStates: true });
  expectClose(out.lastHiddenState, expected.get(name));
  expect(out.attentions).toHaveLength(1);
  expect(out.hiddenStates).toHaveLength(2);
});

describe('reading', async () => {
  const server = await openServer();
  afterAll(() => server.close());
  const model = `${server.base}model`;
  const { input } = fixture('bert');

  /** A BERT whose file ends with its last layer, and the offset at which the first layer ends. */
  const { files, end } = (() => {
    const file = bert[WEIGHTS]!;
    const start = headerEnd(file, 'bert', file.length);
    const tensors = parseHeader(file.subarray(8, start), 'bert', file.length).flatMap(
      ({ name, dtype, shape, begin, end }) =>
        /embeddings|layer\./.test(name) ? [{ name, dtype, shape, data: file.slice(start + begin, start + end) }] : [],
    );
    const bytes = writeSafetensors(tensors);
    const begin = headerEnd(bytes, 'bert', bytes.length);
    const entries = parseHeader(bytes.subarray(8, begin), 'bert', bytes.length);
    const last = Math.max(...entries.filter(({ name }) => !/layer\.[1-9]/.test(name)).map((entry) => entry.end));
    return { files: { ...bert, [WEIGHTS]: bytes } as Files, end: begin + last };
  })();
  const weights = files[WEIGHTS] as Uint8Array;
  const start = headerEnd(weights, 'bert', weights.length);
  const tensors = parseHeader(weights.subarray(8, start), 'bert', weights.length).map(({ begin, end, ...entry }) => ({
    ...entry,
    data: weights.slice(start + begin, start + end),
  }));
  const headers = { 'content-length': weights.length, etag: '"1"' };

  test('ends after the first layer, although the server has sent no more', async () => {
    let response: ServerResponse;
    const part: Answer = (_, answer) => {
      response = answer;
      answer.writeHead(200, headers).write(weights.subarray(0, end));
    };
    server.answer = except(/safetensors/, part, serving(files));
    using loaded = await heed.fromPretrained(model, { numLayers: 1 });
    expectClose((await loaded.encode(input)).lastHiddenState, expected.get('bert'));
    if (!response!.closed) await once(response!, 'close'); // the transfer has been ended
  });

  /** Answers ranges of `bytes`, and adds their limits to `asked`. A request without a range gets the whole file. */
  const ranged =
    (bytes: Uint8Array, asked: [first: number, end: number][] = [], tag = '"1"'): Answer =>
    (request, response) => {
      const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '')?.map(Number) ?? [];
      if (first === undefined) return void response.writeHead(200, { etag: '"1"' }).end(bytes);
      const part = bytes.subarray(first, last! + 1);
      asked.push([first, first + part.length]);
      const range = `bytes ${first}-${first + part.length - 1}/${bytes.length}`;
      response.writeHead(206, { etag: tag, 'content-length': part.length, 'content-range': range }).end(part);
    };

  /** The files with the weights in two shards. The second shard has only layers after the first one. */
  const sharded = () => {
    const { [WEIGHTS]: _, ...others } = files;
    const isLater = ({ name }: { name: string }) => /layer\.[1-9]/.test(name);
    const map = tensors.map((tensor) => [tensor.name, isLater(tensor) ? '2.safetensors' : '1.safetensors']);
    return {
      ...others,
      'model.safetensors.index.json': JSON.stringify({
        metadata: { total_size: weights.length - start },
        weight_map: Object.fromEntries(map),
      }),
      '1.safetensors': writeSafetensors(tensors.filter((tensor) => !isLater(tensor))),
      '2.safetensors': writeSafetensors(tensors.filter(isLater)),
    };
  };

  test.each(['in one piece', 'in shards'])('its progress ends, %s', async (how) => {
    server.answer = serving(how === 'in shards' ? sharded() : files);
    const seen: LoadProgress[] = [];
    const onProgress = (now: LoadProgress) => void seen.push(now);
    using loaded = await heed.fromPretrained(model, { numLayers: 1, onProgress });
    expectClose((await loaded.encode(input)).lastHiddenState, expected.get('bert'));
    const last = seen.at(-1)!;
    expect(last.file.done).toBe(last.file.total);
    expect(last.done).toBe(last.total);
    for (const [i, { done }] of seen.entries()) expect(done).toBeGreaterThanOrEqual(seen[i - 1]?.done ?? 0);
  });

  test('by pages asks for no byte after the first layer', async () => {
    const asked: [number, number][] = [];
    server.answer = except(/safetensors/, ranged(weights, asked), serving(files));
    let progress: LoadProgress | undefined;
    const onProgress = (now: LoadProgress) => {
      progress = now;
    };
    using loaded = await heed.fromPretrained(model, { numLayers: 1, embeddings: 'paged', onProgress });
    expect(progress!.file.done).toBe(progress!.file.total);
    expect(progress!.done).toBe(progress!.total);
    expectClose((await loaded.encode(input)).lastHiddenState, expected.get('bert'));
    const [head, ...others] = asked;
    expect(Math.max(...others.map(([, last]) => last), end)).toBe(end);
    expect(head![1]).toBeLessThan(weights.length);
  });

  describe('by pages of a packed file', () => {
    const packed = writeSafetensors(tensors, { 'config.json': new TextDecoder().decode(bert['config.json']) });
    const read = async () => {
      const options = { numLayers: 1, embeddings: 'paged' } as const;
      using loaded = await heed.fromPretrained(`${server.base}model/model.safetensors`, options);
      expectClose((await loaded.encode(input)).lastHiddenState, expected.get('bert'));
    };

    test('asks for no byte that the header of the file had, nor after the first layer', async () => {
      const asked: [number, number][] = [];
      server.answer = ranged(packed, asked);
      await read();
      const header = headerEnd(packed, 'packed', packed.length);
      expect(asked[0]![0]).toBe(header);
      const [, ...others] = asked.map(([, last]) => last);
      expect(Math.max(...others, header + end - start)).toBe(header + end - start);
    });

    test('reads the whole file if the server has no ranges, or another version of the file', async () => {
      server.answer = (_, response) => void response.writeHead(200, { etag: '"1"' }).end(packed);
      await read();
      const asked: [number, number][] = [];
      server.answer = ranged(packed, asked, '"2"');
      await read();
      expect(asked).toHaveLength(1);
    });
  });

  test('goes on to the end of a file whose digest is given', async () => {
    const digest = createHash('sha256').update(weights).digest('hex');
    const source = files as Record<string, Uint8Array>;
    const read = (hex: string) =>
      heed.fromPretrained(source as never, { numLayers: 1, integrity: { [WEIGHTS]: `sha256-${hex}` } });
    (await read(digest)).dispose();
    const wrong = digest.replace(/^./, (digit) => (digit === '0' ? '1' : '0'));
    await expect(read(wrong)).rejects.toMatchObject({ name: 'HeedError', code: 'INVALID_FILE' });
    const inPool = heed.fromPretrained(source as never, {
      numLayers: 1,
      workers: 1,
      integrity: { [WEIGHTS]: `sha256-${wrong}` },
    });
    await expect(inPool).rejects.toMatchObject({ name: 'HeedError', code: 'INVALID_FILE' });
  });

  test('in a pool of workers', async () => {
    server.answer = serving(files);
    using pool = await heed.fromPretrained(model, { numLayers: 1, workers: 2 });
    expect(pool.config.numLayers).toBe(1);
    expectClose((await pool.encode(input)).lastHiddenState, expected.get('bert'));
  });
});

test('a number of layers that the model does not have', async () => {
  const { folder } = fixture('bert');
  for (const [numLayers, message] of [
    [4, /^fromPretrained\.numLayers: expected at most 3, the layers of the model, got 4/],
    [0, /^fromPretrained\.numLayers: expected an integer from 1 to 1024, got 0/],
    ['1', /^fromPretrained\.numLayers: expected an integer from 1 to 1024, got '1'/],
  ] as const)
    await expect(heed.fromPretrained(folder, { numLayers: numLayers as number })).rejects.toMatchObject({
      name: 'HeedError',
      message: expect.stringMatching(message),
    });
  await expect(heed.fromPretrained(`${fixtures}clip`, { numLayers: 1 })).rejects.toMatchObject({ code: 'UNSUPPORTED' });
});
