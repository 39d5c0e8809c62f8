/** Models in the browser's cache storage: what is cached, a full storage, and broken connections. */
import { createHash } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { LoadProgress } from 'heed';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { cachedFiles, embedCached, expectRight } from './cached-model.js';
import { bytesOf, fixture, fixtures } from './fixtures.js';
import { openServer } from './server.js';
import { type Models, openSite, type Site } from './site.js';

const files = bytesOf(`${fixtures}bert`);
const weights = files['model.safetensors']!;
const { input } = fixture('bert');

let site: Site;
let page: Page;
/** The server's behaviour in the current test. */
let answer: Models;
const asked: string[] = [];

const serve: Models = (path, _, response) => {
  const bytes = files[path.replace('bert/', '')];
  if (bytes) response.writeHead(200, { 'content-length': bytes.length, etag: '"1"' }).end(bytes);
  return bytes !== undefined;
};
const cut: Models = (_, __, response) => {
  response.destroy();
  return true;
};
/** Answers requests for the weights with the given function, and all others as usual. */
const weightsBy =
  (respond: (response: ServerResponse, from: number) => void): Models =>
  (path, request, response) => {
    if (path !== 'bert/model.safetensors') return serve(path, request, response);
    respond(response, Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0));
    return true;
  };

/** Emits the number of bytes of the weights that the page has read. */
const progress = new EventEmitter();
/**
 * Sends the weights' bytes up to `end`, and breaks the connection once they have been read, because unread bytes would
 * be lost.
 */
function sendAndBreak(response: ServerResponse, from: number, end: number): void {
  response.write(weights.subarray(from, end));
  progress.on('weights', (loaded: number) => {
    if (loaded >= end) response.destroy();
  });
}

beforeAll(async () => {
  site = await openSite((path, request, response) => {
    asked.push(path);
    // Otherwise Chromium's HTTP cache, which keeps the start of a file whose download ended early, requests the rest itself.
    response.setHeader('cache-control', 'no-store');
    return answer(path, request, response);
  });
  page = site.page;
  await page.exposeFunction('onWeights', (loaded: number) => progress.emit('weights', loaded));
});
afterAll(() => site.close());
beforeEach(async () => {
  answer = serve;
  await page.evaluate(async () => {
    for (const name of await caches.keys()) await caches.delete(name);
  });
  asked.length = 0;
  progress.removeAllListeners();
});

const embed = (options?: object) => embedCached(page, options);
const kept = () => cachedFiles(page);

const all = {
  '/models/bert/config.json': files['config.json']!.length,
  '/models/bert/model.safetensors': weights.length,
};

test.each([false, true])('loaded files are available without a connection (worker: %s)', async (worker) => {
  expectRight(await embed({ worker }));
  expect(await kept()).toEqual(all);
  answer = cut;
  expectRight(await embed({ worker }));
  await page.context().setOffline(true);
  expectRight(await embed());
  await page.context().setOffline(false);
});

test('a broken connection is resumed, and the whole file is kept', async () => {
  const froms: number[] = [];
  answer = weightsBy((response, from) => {
    froms.push(from);
    response.writeHead(from > 0 ? 206 : 200, {
      'content-length': weights.length - from,
      'content-range': `bytes ${from}-${weights.length - 1}/${weights.length}`,
      etag: '"1"',
    });
    if (froms.length < 3) sendAndBreak(response, from, from + 30_000);
    else response.end(weights.subarray(from));
  });
  expectRight(await embed());
  expect(froms).toEqual([0, 30_000, 60_000, 0]); // the last request checks that the file is unchanged
  expect(await kept()).toEqual(all);
  answer = cut;
  expectRight(await embed());
});

const half = () => weights.subarray(0, weights.length >> 1);
test.each<[string, string, Models]>([
  [
    'a connection that breaks for good',
    'NETWORK',
    weightsBy((response) => {
      response.writeHead(200, { 'content-length': weights.length }); // without an etag, the download cannot be resumed
      sendAndBreak(response, 0, half().length);
    }),
  ],
  ['a file that is too short', 'INVALID_FILE', weightsBy((response) => void response.end(half()))],
  [
    'a file that is too long',
    'INVALID_FILE',
    weightsBy((response) => void response.end(Uint8Array.from([...weights, 1, 2, 3]))),
  ],
  [
    'a page in the place of the weights',
    'NOT_FOUND',
    weightsBy((response) => void response.end(`<!doctype html>${'x'.repeat(9999)}`)),
  ],
])('%s is not kept', async (_, code, wrong) => {
  answer = wrong;
  expect((await embed()).code).toBe(code);
  expect(await kept()).not.toHaveProperty(['/models/bert/model.safetensors']);
  answer = serve;
  expectRight(await embed());
  expect(await kept()).toEqual(all);
});

test('a load that is cancelled, or whose page goes away, keeps no incomplete file', async () => {
  const slow = weightsBy(
    (response) => void response.writeHead(200, { 'content-length': weights.length }).write(half()),
  );
  answer = slow;
  const message = await page.evaluate(async () => {
    const { load } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
    const stop = new AbortController();
    const onProgress = ({ file }: LoadProgress) =>
      file.name.endsWith('model.safetensors') && stop.abort(new Error('enough'));
    const heed = await load();
    return heed
      .fromPretrained('/models/bert', { cache: true, signal: stop.signal, onProgress })
      .catch((e: Error) => e.message);
  });
  expect(message).toBe('enough');
  expect(await kept()).not.toHaveProperty(['/models/bert/model.safetensors']);

  await page.evaluate(() => {
    const { load } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
    void load().then((heed) => heed.fromPretrained('/models/bert', { cache: true }));
  });
  await expect.poll(() => asked.filter((path) => path === 'bert/model.safetensors').length).toBe(2);
  await page.reload();
  await page.waitForFunction('globalThis.heed');
  expect(await kept()).not.toHaveProperty(['/models/bert/model.safetensors']);
  answer = serve;
  expectRight(await embed());
});

test('a full storage does not make a load fail', async () => {
  const client = await page.context().newCDPSession(page);
  await client.send('Storage.overrideQuotaForOrigin', { origin: site.origin, quotaSize: 40_000 });
  const refused = await page.evaluate(async (size) => {
    const cache = await caches.open('trial');
    return cache.put('/x', new Response(new Uint8Array(size))).then(
      () => 'kept',
      (error: Error) => error.name,
    );
  }, weights.length);
  expect(refused).toBe('QuotaExceededError'); // the storage really is full
  expectRight(await embed());
  expectRight(await embed({ worker: true }));
  expect(await kept()).not.toHaveProperty(['/models/bert/model.safetensors']);
  await client.send('Storage.overrideQuotaForOrigin', { origin: site.origin });
  expectRight(await embed());
  expect(await kept()).toEqual(all);
});

test('digests are checked in the page, too', async () => {
  const digest = (name: string) => `sha256-${createHash('sha256').update(files[name]!).digest('base64')}`;
  const integrity = { 'model.safetensors': digest('model.safetensors'), 'config.json': digest('config.json') };
  expectRight(await embed({ integrity }));
  answer = cut;
  expectRight(await embed({ integrity, worker: true }));
  answer = weightsBy(
    (response) => void response.end(weights.map((byte, i) => (i === weights.length - 4 ? byte ^ 1 : byte))),
  );
  await page.evaluate(() => caches.delete('heed'));
  expect(await embed({ integrity })).toMatchObject({ code: 'INVALID_FILE' });
  expect(await kept()).toEqual({});
});

test.each([true, false])(
  'compressed files of another origin, which a page is not told (compressed: %s)',
  async (compressed) => {
    const other = await openServer();
    other.answer = (_, response, name) => {
      const bytes = files[name];
      const headers = {
        'access-control-allow-origin': '*',
        ...(compressed && bytes && { 'content-encoding': 'gzip' }),
      };
      const body = bytes && (compressed ? gzipSync(bytes) : bytes);
      response.writeHead(bytes ? 200 : 404, { ...headers, 'content-length': body?.length ?? 0 }).end(body);
    };
    const context = await page.context().browser()!.newContext({ bypassCSP: true });
    const visitor = await context.newPage();
    await visitor.goto(site.origin);
    await visitor.waitForFunction('globalThis.heed');
    const load = () =>
      visitor.evaluate(
        async ({ url, input }) => {
          const { load } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
          const seen: { done: number; total: number | null }[] = [];
          const onProgress = ({ done, total }: { done: number; total: number | null }) => seen.push({ done, total });
          const model = await (await load()).fromPretrained(url, { cache: true, onProgress });
          const { data } = await model.embed(input, { pooling: 'mean', normalize: true });
          return { vectors: [...data], seen };
        },
        { url: `${other.base}model`, input },
      );
    for (let visit = 0; visit < 2; visit++) {
      const { vectors, seen } = await load();
      expectRight({ vectors });
      for (const { done, total } of seen) expect(done).toBeLessThanOrEqual(total!);
      expect(seen.at(-1)!.done).toBe(seen.at(-1)!.total);
      if (!compressed) expect(new Set(seen.map(({ total }) => total)).size).toBe(1);
      other.answer = (_, response) => void response.destroy(); // from here on, only the cache can serve files
    }
    await context.close();
    other.close();
  },
);

test('the cache of a page is listed, refreshed and cleared', async () => {
  expectRight(await embed());
  const listed = await page.evaluate(async () => {
    const { listCache } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
    return listCache();
  });
  const source = `${site.origin}/models/bert/`;
  const sizes = ['config.json', 'model.safetensors'].map((path) => ({ path, bytes: files[path]!.length }));
  const bytes = sizes.reduce((sum, file) => sum + file.bytes, 0);
  expect(listed).toEqual([{ source, remoteHost: null, revision: null, bytes, files: sizes }]);
  asked.length = 0;
  expectRight(await embed());
  expect(asked.filter((path) => sizes.some((file) => path === `bert/${file.path}`))).toEqual([]);
  const conditions: (string | undefined)[] = [];
  answer = (path, request, response) => {
    if (!files[path.replace('bert/', '')]) return false;
    conditions.push(request.headers['if-none-match']);
    response.writeHead(304).end();
    return true;
  };
  expectRight(await embed({ refresh: true }));
  expect(conditions).toEqual(['"1"', '"1"']);
  const cleared = await page.evaluate(async (source) => {
    const { clearCache, listCache } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
    return [await clearCache(source), await clearCache(), await listCache()];
  }, source);
  expect(cleared).toEqual([bytes, 0, []]);
  expect(await kept()).toEqual({});
});

/** A revision of the model with other vectors. */
const other: Models = (path, _, response) => {
  const config: object = { ...JSON.parse(Buffer.from(files['config.json']!).toString()), layer_norm_eps: 0.5 };
  const name = path.replace('bert/', '');
  const bytes = name === 'config.json' ? Buffer.from(JSON.stringify(config)) : files[name];
  if (bytes) response.writeHead(200, { 'content-length': bytes.length, etag: '"2"' }).end(bytes);
  return bytes !== undefined;
};
/** Like `models`, except for the weights. */
const withoutWeights =
  (models: Models): Models =>
  (path, request, response) =>
    (path.endsWith('.safetensors') ? cut : models)(path, request, response);
/** Accepts requests, but never answers. */
const stall: Models = () => true;

test.each([false, true])('files of two revisions are never combined (worker: %s)', async (worker) => {
  answer = other;
  const { vectors: others } = await embed({ cache: false, worker });
  answer = withoutWeights(serve);
  expect((await embed({ worker })).code).toBe('NETWORK');
  expect(await kept()).toEqual({});
  answer = other;
  expect((await embed({ worker })).vectors).toEqual(others);
  answer = withoutWeights(serve);
  expect((await embed({ worker, refresh: true })).code).toBe('NETWORK');
  asked.length = 0;
  answer = stall;
  expect((await embed({ worker })).vectors).toEqual(others);
  expect(asked).toEqual([]);
  // A browser may evict some of the files.
  for (const name of ['config.json', 'model.safetensors', 'heed=folder']) {
    const removed = await page.evaluate(async (name) => {
      const cache = await caches.open('heed');
      const keys = (await cache.keys()).filter(({ url }) => url.includes(name));
      return Promise.all(keys.map((key) => cache.delete(key)));
    }, name);
    expect(removed).toContain(true);
    answer = serve;
    expectRight(await embed({ worker }));
    answer = stall;
    expectRight(await embed({ worker }));
  }
});

test('a call that waits for a server ends when its signal fires', async () => {
  answer = stall;
  const messages = await page.evaluate(async () => {
    const { load, loadTokenizer, listCache, clearCache } = (globalThis as unknown as { heed: typeof import('heed') })
      .heed;
    const heed = await load();
    const messages: string[] = [];
    const calls = [
      (signal: AbortSignal) => heed.fromPretrained('/models/bert', { cache: true, signal }),
      (signal: AbortSignal) => heed.fromPretrained('/models/bert', { cache: true, signal, worker: true }),
      (signal: AbortSignal) => heed.fromPretrained('/models/bert', { cache: true, signal, workers: 2 }),
      (signal: AbortSignal) => loadTokenizer('/models/bert', { cache: true, signal }),
      (signal: AbortSignal) => heed.inspect('/models/bert', { cache: true, signal }),
      (signal: AbortSignal) => heed.quantize('/models/bert', { cache: true, signal }),
    ];
    for (const call of calls) {
      const stop = new AbortController();
      const pending = call(stop.signal).then(
        () => 'loaded',
        (error: Error) => error.message,
      );
      stop.abort(new Error('enough'));
      messages.push(await pending);
    }
    for (const call of [listCache, (options: object) => clearCache(undefined, options)])
      messages.push(
        await call({ signal: AbortSignal.abort(new Error('enough')) }).then(
          () => 'done',
          (error: Error) => error.message,
        ),
      );
    return messages;
  });
  expect(messages).toEqual(messages.map(() => 'enough'));
});

test.each([{}, { worker: true }, { workers: 2 }])(
  'an id of a hub without a host, where the server answers every path with a page, with %j: the error says what to do',
  async (options) => {
    const { origin } = site;
    await page.route(`${origin}/org/name/**`, (route) =>
      route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>app</title>' }),
    );
    const message = await page.evaluate(async (options) => {
      const heed = await (globalThis as unknown as { heed: typeof import('heed') }).heed.load();
      return heed.fromPretrained('org/name', options).then(
        () => 'loaded',
        (error: Error) => error.message,
      );
    }, options);
    expect(message).toMatch(/got an HTML page\. If 'org\/name' is a model of a hub.*`remoteHost`/);
    await page.unroute(`${origin}/org/name/**`);
  },
);

test.each([{}, { worker: true }])('a fetch of a page serves a model with %j', async (options) => {
  const url = `${site.origin}/models/bert/`;
  const [vectors, addresses] = await page.evaluate(
    async ({ input, options, url }) => {
      const { load } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
      const asked: string[] = [];
      const own = (address: string, init: object) => {
        asked.push(address);
        return fetch(address.replace('https://hub.invalid/org/bert/resolve/main/', url), init);
      };
      const heed = await load({ hub: { remoteHost: 'https://hub.invalid', fetch: own } });
      const model = await heed.fromPretrained('org/bert', options);
      const { data } = await model.embed(input, { pooling: 'mean', normalize: true });
      heed.dispose();
      return [[...data], asked] as [number[], string[]];
    },
    { input, options, url },
  );
  expectRight({ vectors });
  expect(addresses).toContain('https://hub.invalid/org/bert/resolve/main/model.safetensors');
});
