/** Downloads of files: partial and compressed responses, and progress reports. */
import { gzipSync } from 'node:zlib';
import { type LoadProgress, load, pipeline } from 'heed';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { headerEnd, parseHeader, writeSafetensors } from '../../../web/src/io/safetensors.js';
import { expectClose, fixture } from './fixtures.js';
import { type Answer, bert, except, openServer, serving } from './server.js';

const heed = await load();
const server = await openServer();
afterAll(() => server.close());
afterEach(() => vi.unstubAllGlobals());
const model = `${server.base}model`;
const { expected, input } = fixture('bert');
const weights = bert['model.safetensors']!;

let seen: LoadProgress[];
/** Called with the number of bytes received of each file. */
let received: (name: string, count: number) => void;
beforeEach(() => {
  server.answer = serving(bert);
  seen = [];
  received = () => {};
});

function onProgress(progress: LoadProgress): void {
  seen.push(progress);
  received(progress.file.name.split('/').at(-1)!, progress.file.done);
}

async function expectRight(source: Parameters<typeof heed.fromPretrained>[0] = model): Promise<void> {
  using loaded = await heed.fromPretrained(source, { onProgress });
  expectClose(await loaded.embed(input, { normalize: true }), expected.get('mean'));
}

function expectProgress(): void {
  expect(seen.length).toBeGreaterThan(0);
  for (const { done, total } of seen.flatMap(({ file, ...all }) => [all, file]))
    if (total !== null) expect(done).toBeLessThanOrEqual(total);
  expect(seen.at(-1)!.done).toBe(seen.at(-1)!.total);
}

/** Makes responses look as if they came from another origin. */
function asFromAnotherOrigin(): void {
  const { fetch } = globalThis;
  vi.stubGlobal('fetch', async (...given: Parameters<typeof fetch>) => {
    const { body, status, headers } = await fetch(...given);
    const visible = /^(cache-control|content-length|content-type|expires|last-modified|pragma)$/;
    const shown = [...headers].filter(([name]) => visible.test(name));
    return Object.defineProperty(new Response(body, { status, headers: shown }), 'type', { value: 'cors' });
  });
}

const gzip: Answer = (_, response, name) => {
  const content = bert[name];
  if (!content) return void response.writeHead(404).end();
  const body = gzipSync(content);
  response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': body.length }).end(body);
};

describe('compressed files', () => {
  test('of the same origin', async () => {
    server.answer = gzip;
    await expectRight();
  });

  test('of another origin, which hides that they are compressed', async () => {
    asFromAnotherOrigin();
    server.answer = gzip;
    await expectRight();
    expectProgress();
    server.answer = serving(bert);
    seen = [];
    await expectRight();
    expectProgress();
  });
});

describe('a connection that breaks', () => {
  const FIRST = 30_000;
  const tagged = { etag: '"1"', 'last-modified': 'Thu, 01 Jan 1970 00:00:00 GMT' };
  let ranges: (string | undefined)[];

  /** The connection breaks after FIRST bytes of the weights; `rest` answers the next requests. */
  function breaking(rest: Answer, tags: Record<string, string | undefined> = tagged): void {
    ranges = [];
    server.answer = except(
      /^model\.safetensors$/,
      (request, response, name) => {
        ranges.push(request.headers.range);
        if (ranges.length > 1) return rest(request, response, name);
        response.writeHead(200, { ...tags, 'content-length': weights.length });
        response.write(weights.subarray(0, FIRST));
        received = (file, count) => {
          if (file === name && count === FIRST) response.destroy();
        };
      },
      serving(bert),
    );
  }
  const whole: Answer = (_, response) => void response.writeHead(200, tagged).end(weights);
  const part = (from: number, range: string): Answer => {
    return (request, response, name) => {
      if (request.headers.range === undefined) return whole(request, response, name);
      const body = weights.subarray(from);
      response.writeHead(206, { ...tagged, 'content-range': range, 'content-length': body.length }).end(body);
    };
  };
  const end = weights.length - 1;

  test.each([`bytes ${FIRST}-${end}/${weights.length}`, `bytes ${FIRST}-${end}/*`])(
    'is resumed by %s',
    async (range) => {
      breaking(part(FIRST, range));
      await expectRight();
      expect(ranges).toEqual([undefined, `bytes=${FIRST}-`]);
      expectProgress();
    },
  );

  test.each([
    ['another start', 0, `bytes 0-${end}/${weights.length}`],
    ["a start that is not the part's", FIRST - 4096, `bytes ${FIRST - 4096}-${end}/${weights.length}`],
    ['another size', FIRST, `bytes ${FIRST}-${end}/${weights.length + 4}`],
    ['no range', FIRST, ''],
    ['no unit of bytes', FIRST, `lines ${FIRST}-${end}/${weights.length}`],
  ])('starts again where the server answers with %s', async (_, from, range) => {
    breaking(part(from, range));
    await expectRight();
    expect(ranges).toEqual([undefined, `bytes=${FIRST}-`, undefined]);
    expectProgress();
  });

  test('starts again where the server does not support ranges', async () => {
    breaking(whole);
    await expectRight();
    expect(ranges).toHaveLength(2);
  });

  test.each(['another file', 'a part again', 'an error'])('fails where the response is %s', async (what) => {
    const wrong = part(0, `bytes 0-${end}/${weights.length}`);
    breaking((request, response, name) => {
      if (request.headers.range !== undefined) return wrong(request, response, name);
      if (what === 'another file') response.writeHead(200, { etag: '"2"' }).end(weights);
      else response.writeHead(what === 'an error' ? 503 : 206).end();
    });
    await expect(heed.fromPretrained(model, { onProgress })).rejects.toMatchObject({
      code: 'NETWORK',
      message: expect.stringMatching(/expected \d+ bytes, got 30000 \(and status \d+ for the rest\)/),
    });
  });

  test.each<[string, Answer]>([
    ['is refused as well', (_, response) => void response.destroy()],
    ['is answered by a busy server', (_, response) => void response.writeHead(503).end()],
  ])('is resumed where the first reconnection %s', async (_, first) => {
    const rest = part(FIRST, `bytes ${FIRST}-${end}/${weights.length}`);
    breaking((...given) => (ranges.length === 2 ? first(...given) : rest(...given)));
    await expectRight();
    expect(ranges).toEqual([undefined, `bytes=${FIRST}-`, `bytes=${FIRST}-`]);
    expectProgress();
  });

  test('fails after three reconnections', async () => {
    breaking((_, response) => void response.destroy());
    await expect(heed.fromPretrained(model, { onProgress })).rejects.toMatchObject({
      code: 'NETWORK',
      message: expect.stringMatching(/expected \d+ bytes, got 30000 /),
    });
    expect(ranges).toHaveLength(4);
  });

  test('is resumed without headers that another origin has to permit', async () => {
    asFromAnotherOrigin();
    const { fetch } = globalThis;
    vi.stubGlobal('fetch', async (...given: Parameters<typeof fetch>) => {
      // Range is among the headers that need no preflight.
      const names = [...new Headers(given[1]?.headers).keys()];
      if (names.some((name) => name !== 'range')) throw new TypeError('Failed to fetch');
      return fetch(...given);
    });
    breaking(part(FIRST, `bytes ${FIRST}-${end}/${weights.length}`));
    await expectRight();
    expect(ranges).toEqual([undefined, `bytes=${FIRST}-`, undefined]);
  });

  test('starts again where another origin does not permit ranges', async () => {
    asFromAnotherOrigin();
    const { fetch } = globalThis;
    vi.stubGlobal('fetch', async (...given: Parameters<typeof fetch>) => {
      if (![...new Headers(given[1]?.headers).keys()].length) return fetch(...given);
      ranges.push('refused');
      throw new TypeError('Failed to fetch');
    });
    breaking(whole);
    await expectRight();
    expect(ranges).toEqual([undefined, 'refused', undefined]);
    expectProgress();
  });

  test('starts again where the server has no such range, as of a file that it compresses', async () => {
    breaking((request, response, name) =>
      request.headers.range ? void response.writeHead(416).end() : whole(request, response, name),
    );
    await expectRight();
    expect(ranges).toEqual([undefined, `bytes=${FIRST}-`, undefined]);
    expectProgress();
  });

  test('never requests a range of a file with a weak tag, also where reconnections to another origin fail', async () => {
    const { fetch } = globalThis;
    vi.stubGlobal('fetch', async (...given: Parameters<typeof fetch>) =>
      Object.defineProperty(await fetch(...given), 'type', { value: 'cors' }),
    );
    const tags = { etag: 'W/"1"' };
    breaking((_, response) => {
      if (ranges.length < 4) response.destroy();
      else response.writeHead(200, tags).end(weights);
    }, tags);
    await expectRight();
    expect(ranges).toEqual([undefined, undefined, undefined, undefined]);
  });

  test.each(['W/"1"', '"2"', undefined])('starts again where the range has the tag %s', async (etag) => {
    const isWeak = etag?.startsWith('W/');
    breaking(
      (request, response) => {
        const headers = { ...(isWeak || request.headers.range === undefined ? tagged : etag ? { etag } : {}) };
        const from = request.headers.range === undefined ? 0 : FIRST;
        if (from > 0) response.setHeader('content-range', `bytes ${from}-${end}/${weights.length}`);
        response.writeHead(from > 0 ? 206 : 200, isWeak ? { etag } : headers).end(weights.subarray(from));
      },
      isWeak ? { etag } : tagged,
    );
    await expectRight();
    expect(ranges).toEqual([undefined, ...(isWeak ? [] : [`bytes=${FIRST}-`]), undefined]);
  });

  test.each([FIRST, 0])('starts again where another origin hides the range, which begins at %i', async (from) => {
    asFromAnotherOrigin();
    breaking(part(from, `bytes ${from}-${end}/${weights.length}`));
    await expectRight();
    expect(ranges).toHaveLength(3);
    expectProgress();
  });
});

describe('progress', () => {
  const dataStart = headerEnd(weights, 'bert', weights.length);
  const entries = parseHeader(weights.subarray(8, dataStart), 'bert', weights.length);
  const shard = (odd: number) =>
    writeSafetensors(
      entries
        .filter((_, i) => i % 2 === odd)
        .map(({ name, shape, begin, end }) => ({
          name,
          shape,
          dtype: 'F32',
          data: weights.subarray(dataStart + begin, dataStart + end),
        })),
    );
  const { 'model.safetensors': _, ...rest } = bert;

  test.each([weights.length - dataStart, 10, 10 * weights.length, undefined])(
    'of shards whose index counts %s bytes',
    async (total_size) => {
      const weight_map = Object.fromEntries(entries.map(({ name }, i) => [name, `part-${i % 2}.safetensors`]));
      const index = JSON.stringify({ metadata: { total_size }, weight_map });
      const files = {
        ...rest,
        'model.safetensors.index.json': index,
        'part-0.safetensors': shard(0),
        'part-1.safetensors': shard(1),
      };
      await expectRight(files);
      expectProgress();
      server.answer = serving(files);
      seen = [];
      await expectRight();
      expectProgress();
    },
  );

  test.each([serving(bert), gzip])('of a pipeline: every file is done', async (answer) => {
    server.answer = answer;
    const statuses: string[] = [];
    const pipe = await pipeline('feature-extraction', model, {
      progress_callback: (progress) => {
        const file = 'file' in progress ? progress.file.split('/').at(-1) : '';
        if (!progress.status.startsWith('progress')) statuses.push(`${progress.status} ${file}`);
      },
    });
    await pipe.dispose();
    const of = (file: string) => ['initiate', 'download', 'done'].map((status) => `${status} ${file}`);
    expect(statuses).toEqual([...of('config.json'), ...of('model.safetensors'), 'ready ']);
  });
});
