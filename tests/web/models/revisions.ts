/**
 * Servers that fail, stall or change during a load, at every request of the load. The result is of one revision, or
 * there is one error, and a later load from a good server is of one revision, too.
 */
import { readFileSync } from 'node:fs';
import type { Heed } from 'heed';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fixture } from './fixtures.js';
import { type Answer, bert, cutOff, type Files, openServer, page, status } from './server.js';

export const server = await openServer();
afterAll(() => server.close());
const model = `${server.base}model/`;
const { input } = fixture('bert');
export const wasm = new Uint8Array(readFileSync(new URL('../../../dist/heed-simd128.wasm', import.meta.url)));

/** Two revisions of a folder with different vectors but compatible files. */
const config = JSON.parse(Buffer.from(bert['config.json']!).toString());
const changedWeights = bert['model.safetensors']!.slice();
for (let at = changedWeights.length - 4096; at < changedWeights.length; at += 4) changedWeights[at + 3]! ^= 0x80;
const revisions: Record<'a' | 'b', Files> = {
  a: { ...bert },
  b: {
    'config.json': JSON.stringify({ ...config, layer_norm_eps: 0.5 }),
    'model.safetensors': changedWeights,
    'modules.json': JSON.stringify([{ idx: 0, name: '0', path: '', type: 'sentence_transformers.models.Transformer' }]),
  },
};

/** Serves a revision, with tags that identify it and answers to conditional requests. */
export const serving =
  (revision: 'a' | 'b'): Answer =>
  (request, response, name) => {
    const content = revisions[revision][name.replace(/^model\//, '')];
    if (content === undefined) return void response.writeHead(404).end();
    const etag = `"${revision}"`;
    const isSame = request.headers['if-none-match'] === etag;
    response.writeHead(isSame ? 304 : 200, { etag }).end(isSame ? undefined : Buffer.from(content as Uint8Array));
  };

let heed: Heed;

export async function vectors(options: object = {}, source = model): Promise<number[]> {
  using loaded = await heed.fromPretrained(source, options);
  return [...(await loaded.embed(input, { normalize: true })).data];
}

let stalled: AbortController;
const faults: Record<string, Answer> = {
  'no connection': cutOff,
  'status 404': status(404),
  'status 429': status(429),
  'status 503': status(503),
  'a page': (_, response) => void response.writeHead(200, { 'content-type': 'text/html' }).end(page),
  'another revision': serving('b'),
  'no answer': () => stalled.abort(new Error('enough')),
};

/**
 * Defines the tests. `open` creates a new, empty cache. `canStart`: whether workers that share the cache can be
 * started.
 */
export function testRevisions(open: () => string | true, canStart: boolean): void {
  let entry: typeof import('heed');
  let cache: string | true;
  let right: Record<'a' | 'b', number[]>;

  beforeAll(async () => {
    entry = await import('heed');
    heed = await entry.load({ build: 'simd128', wasm });
    server.answer = serving('a');
    const a = await vectors();
    server.answer = serving('b');
    right = { a, b: await vectors() };
    expect(right.a).not.toEqual(right.b);
  });

  const fresh = () => {
    cache = open();
    server.asked.length = 0;
    stalled = new AbortController();
  };

  /** Answers request `n` of a load by `fault`, and all others by `good`. */
  const failingAt = (n: number, fault: Answer, good: Answer) => {
    let count = 0;
    server.answer = (...args) => (count++ === n ? fault : good)(...args);
    return () => count > n;
  };
  const outcome = async (options: object) => {
    try {
      return await vectors({ ...options, signal: stalled.signal });
    } catch (error) {
      if ((error as Error).message === 'enough') return null;
      expect(error).toMatchObject({
        name: 'HeedError',
        code: expect.stringMatching(/^(NETWORK|NOT_FOUND|INVALID_FILE)$/),
      });
      return null;
    }
  };
  const expectOneRevision = (found: number[] | null) => {
    if (found !== null) expect([right.a, right.b]).toContainEqual(found);
  };

  test.each(Object.keys(faults))('%s at each request of a first load', async (kind) => {
    for (let n = 0; ; n++) {
      fresh();
      const reached = failingAt(n, faults[kind]!, serving('a'));
      expectOneRevision(await outcome({ cache }));
      if (!reached()) break;
      server.answer = serving('b');
      const later = await vectors({ cache });
      expectOneRevision(later);
      // Without a connection, the result is the same.
      server.answer = cutOff;
      expect(await vectors({ cache })).toEqual(later);
    }
  });

  test.each(Object.keys(faults))('%s at each request of a refresh', async (kind) => {
    for (let n = 0; ; n++) {
      fresh();
      server.answer = serving('a');
      await vectors({ cache });
      const fault = kind === 'another revision' ? serving('a') : faults[kind]!;
      const reached = failingAt(n, fault, serving('b'));
      const refreshed = await outcome({ cache, refresh: true });
      expectOneRevision(refreshed);
      server.answer = cutOff;
      const later = await vectors({ cache });
      expectOneRevision(later);
      if (refreshed === null) expect(later).toEqual(right.a);
      if (!reached()) {
        expect(later).toEqual(right.b);
        break;
      }
    }
  });

  test('a first load that fails half-way, before another revision', async () => {
    for (const failing of Object.keys(revisions.b).slice(0, 2)) {
      fresh();
      server.answer = (request, response, name) =>
        (name.endsWith(failing) ? status(503) : serving('a'))(request, response, name);
      expect(await outcome({ cache })).toBeNull();
      expect(await entry.listCache({ cache })).toEqual([]);
      server.answer = serving('b');
      expect(await vectors({ cache })).toEqual(right.b);
    }
  });

  test.each([{}, { worker: true }, { workers: 2 }])(
    'a kept folder is loaded without a request, with %j',
    async (how) => {
      if (!canStart && Object.keys(how).length > 0) return;
      fresh();
      server.answer = serving('a');
      await vectors({ cache, ...how });
      server.asked.length = 0;
      server.answer = () => {}; // never
      expect(await vectors({ cache, ...how })).toEqual(right.a);
      expect(server.asked).toEqual([]);
    },
  );

  test('what other calls have kept of another revision is not combined with what a load fetches', async () => {
    fresh();
    server.answer = serving('a');
    await heed.inspect(model, { cache });
    expect(await entry.listCache({ cache })).toHaveLength(1);
    server.answer = serving('b');
    expect(await vectors({ cache })).toEqual(right.b);
    server.answer = cutOff;
    expect(await vectors({ cache })).toEqual(right.b);
    await heed.inspect(model, { cache });
  });

  test('without a cache, a fault is one error, or of a file that is not required', async () => {
    for (const [kind, fault] of Object.entries(faults)) {
      if (kind === 'another revision') continue; // cannot be detected
      for (let n = 0; ; n++) {
        fresh();
        const reached = failingAt(n, fault, serving('a'));
        expectOneRevision(await outcome({}));
        if (!reached()) break;
      }
    }
  });

  test('an index with its texts in words.txt', async () => {
    fresh();
    const bytes = heed.TextIndex.of(
      ['north', 'east'],
      [
        [0, 1],
        [1, 0],
      ],
    ).toSafetensors();
    const files: Files = { 'index.safetensors': bytes, 'words.txt': 'north\neast\n' };
    server.answer = (_, response, path) => {
      const content = files[path.replace(/^model\//, '')];
      response
        .writeHead(content === undefined ? 404 : 200, { etag: '"1"' })
        .end(content && Buffer.from(content as Uint8Array));
    };
    const texts = async () => (await heed.TextIndex.load(model, { cache })).texts;
    expect(await texts()).toEqual(['north', 'east']);
    server.answer = cutOff;
    expect(await texts()).toEqual(['north', 'east']);
  });
}
