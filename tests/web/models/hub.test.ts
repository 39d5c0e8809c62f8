/** `load({ hub })`: host, token, fetch and cache for all calls; and the error for each status. */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { clearCache, listCache, load, loadTokenizer, pipeline } from 'heed';
import { load as loadTraining } from 'heed/train';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { openServer, serving } from './server.js';
import { tinyModel } from './tiny.js';

const hub = await openServer();
const other = await openServer();
const files = tinyModel() as Record<string, Uint8Array | string>;
const token = 'hf_secret';
const fileOf = (url: string) => decodeURIComponent(url.replace(/^.*\/resolve\/[^/]+\/|\?.*$/g, ''));

let folder: string;
let cache: string;
/** The Authorization header of each request. */
let sent: (string | undefined)[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'heed-hub-'));
  cache = join(folder, 'cache');
  sent = [];
  hub.urls.length = 0;
  other.urls.length = 0;
  hub.answer = (request, response) => {
    sent.push(request.headers.authorization);
    serving(files)(request, response, fileOf(request.url!));
  };
  other.answer = hub.answer;
});
afterEach(() => {
  rmSync(folder, { recursive: true });
  vi.unstubAllEnvs();
});
afterAll(() => {
  hub.close();
  other.close();
});

const text = 'a b';

describe('set once', () => {
  test('fromPretrained, inspect, quantize, prune and TextIndex.load use host and token', async () => {
    using heed = await load({ hub: { remoteHost: hub.base, token } });
    using model = await heed.fromPretrained('org/model');
    const index = await heed.TextIndex.of(model, [text]);
    const saved = await index.save();
    const calls: (() => Promise<unknown>)[] = [
      () => heed.inspect('org/model'),
      async () =>
        expect(Object.keys((await heed.quantize('org/model', { texts: [text] })).files)).toContain('config.json'),
      async () => expect(Object.keys((await heed.prune('org/model', { keep: [text] })).files)).toContain('config.json'),
      async () => {
        hub.answer = (request, response) => {
          sent.push(request.headers.authorization);
          serving({ 'index.safetensors': saved })(request, response, fileOf(request.url!));
        };
        expect((await heed.TextIndex.load('org/index')).texts).toEqual([text]);
      },
    ];
    for (const call of calls) {
      sent = [];
      await call();
      expect(sent.length).toBeGreaterThan(0);
      expect(new Set(sent)).toEqual(new Set([`Bearer ${token}`]));
    }
    expect(hub.urls.every((url) => url.startsWith('/org/'))).toBe(true);
  });

  test.each([
    ['this thread', {}],
    ['a worker', { worker: true }],
    ['a pool', { workers: 2 }],
  ])('a model in %s has the same vectors as from its bytes', async (_, options) => {
    using heed = await load({ hub: { remoteHost: hub.base, token } });
    using local = await heed.fromPretrained(files);
    const expected = await local.embed(text);
    using model = await heed.fromPretrained('org/model', options);
    expect((await model.embed(text)).data).toEqual(expected.data);
    expect(new Set(sent)).toEqual(new Set([`Bearer ${token}`]));
  });

  test.each([
    ['this thread', {}],
    ['a worker', { worker: true }],
    ['a pool', { workers: 2 }],
  ])("a fetch of one's own serves a model in %s; nothing else is requested", async (_, options) => {
    const asked: string[] = [];
    const fetch = async (url: string, { headers }: { headers?: object }) => {
      asked.push(url);
      expect(headers).toMatchObject({ Authorization: `Bearer ${token}` });
      const content = files[fileOf(url)];
      return new Response(content as BodyInit | undefined, { status: content === undefined ? 404 : 200 });
    };
    using heed = await load({ hub: { remoteHost: 'https://hub.invalid', token, fetch } });
    using model = await heed.fromPretrained('org/model', options);
    using local = await heed.fromPretrained(files);
    expect((await model.embed(text)).data).toEqual((await local.embed(text)).data);
    expect(asked).toContain('https://hub.invalid/org/model/resolve/main/config.json');
    const tokenizer = await loadTokenizer('https://other.invalid/m/resolve/x/', { fetch, token });
    expect(tokenizer.count(text)).toBeGreaterThan(0);
    expect(hub.urls).toEqual([]);
  });

  test('in heed/train, where the saved model is downloaded again, and in pipeline', async () => {
    using training = await loadTraining({ hub: { remoteHost: hub.base, token } });
    using model = await training.fromPretrained('org/model', { trainable: true });
    expect(Object.keys(await model.save())).toContain('model.safetensors');
    using extract = await pipeline('feature-extraction', 'org/model', { hub: { remoteHost: hub.base, token } });
    expect((await extract(text)).dims[0]).toBe(1);
    expect(new Set(sent)).toEqual(new Set([`Bearer ${token}`]));
  });

  test('the options of a call have precedence, and the token stays with its host', async () => {
    using heed = await load({ hub: { remoteHost: hub.base, token } });
    const described = [
      [await heed.inspect('org/model', { remoteHost: other.base }), [undefined]],
      [await heed.inspect(`${other.base}org/model/resolve/main/`), [undefined]],
      [await heed.inspect(`${hub.base}org/model/resolve/main/`), [`Bearer ${token}`]],
      [await heed.inspect('org/model', { token: false }), [undefined]],
      [await heed.inspect('org/model', { token: 'hf_own', remoteHost: other.base }), ['Bearer hf_own']],
    ];
    expect(described).toHaveLength(5);
    // All calls read the same number of files.
    const each = sent.length / 5;
    described.forEach(([, headers], n) => {
      expect(new Set(sent.slice(n * each, (n + 1) * each))).toEqual(new Set(headers as string[]));
    });
  });

  test('HF_ENDPOINT is the default host, and HF_TOKEN its token', async () => {
    vi.stubEnv('HF_ENDPOINT', hub.base);
    vi.stubEnv('HF_TOKEN', token);
    using heed = await load({ hub: {} });
    await heed.inspect('org/model');
    expect(new Set(sent)).toEqual(new Set([`Bearer ${token}`]));
    sent = [];
    using none = await load({ hub: { token: false } });
    await none.inspect('org/model');
    expect(new Set(sent)).toEqual(new Set([undefined]));
  });

  test.each([
    [{ remoteHost: 'hub' }, "load.hub.remoteHost: expected the URL of a host, with https:// or http://, got 'hub'"],
    [{ remoteHost: 'ftp://hub.example' }, 'load.hub.remoteHost: expected the URL of a host'],
    [{ token }, 'load.hub.token: expected a `remoteHost` to which the token is sent, got a token without a host'],
    [{ host: 'https://hub.example' }, "load.hub: expected 'remoteHost', got 'host', its former name"],
    [{ remoteHost: 'https://hub.example', token: 'a b' }, 'load.hub.token: expected visible ASCII characters'],
    [{ fetch: 1 }, 'load.hub.fetch: expected a function, got 1'],
    [{ endpoint: 'x' }, "load.hub: expected 'token'"],
    [{ cache: 7 }, 'load.hub.cache: expected true, false or a name, got 7'],
    [7, 'load.hub: expected an options object, got 7'],
  ])('refuses %j', async (given, message) => {
    vi.stubEnv('HF_ENDPOINT', '');
    const failed = load({ hub: given as object });
    await expect(failed).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await expect(failed).rejects.toThrow(message.replace("expected 'token'", 'expected'));
    await expect(failed).rejects.not.toThrow(token);
  });
});

describe('refusals', () => {
  const tomorrow = () => new Date(Date.now() + 86_400_000).toUTCString();
  test.each([
    [401, {}, undefined, 'NETWORK', /got 401.*give a token as `token`/],
    [
      401,
      { 'x-error-message': 'Wrong hf_secret.' },
      token,
      'NETWORK',
      /got 401 Wrong \*\*\*\. The host does not accept the token/,
    ],
    [403, {}, undefined, 'NETWORK', /got 403.*give a token/],
    [403, {}, token, 'NETWORK', /got 403.*once its conditions are accepted on its page/],
    [
      404,
      {},
      token,
      'NOT_FOUND',
      /got status 404\. Check the model's id, and whether it has this file at revision 'v2'/,
    ],
    [429, { 'retry-after': '17' }, undefined, 'NETWORK', /got 429.*try again in 17 s, or with a token/],
    [429, { 'retry-after': tomorrow() }, token, 'NETWORK', /try again in 86[34]\d\d s$/],
    [429, {}, token, 'NETWORK', /try again later$/],
    [500, {}, token, 'NETWORK', /got 500.*The host has failed: try again later/],
    [503, {}, token, 'NETWORK', /got 503.*The host has failed: try again later/],
    [200, { 'content-type': 'text/html' }, token, 'NOT_FOUND', /expected the file, got an HTML page\. Check the URL/],
  ])(
    'status %i with %j and the token %s: one error, nothing kept, and the next load succeeds',
    async (status, headers, own, code, message) => {
      using heed = await load({ hub: { remoteHost: hub.base, token: own ?? false, cache } });
      const answer = hub.answer;
      hub.answer = (_, response) => void response.writeHead(status, headers).end('<!DOCTYPE html><p>no</p>');
      const calls = [
        () => heed.fromPretrained('org/model', { revision: 'v2' }),
        () => heed.fromPretrained('org/model', { revision: 'v2', worker: true }),
        () => loadTokenizer('org/model', { revision: 'v2', remoteHost: hub.base, token: own ?? false, cache }),
        () => heed.quantize('org/model', { revision: 'v2' }),
        () => heed.prune('org/model', { revision: 'v2', keep: ['a'] }),
        () => heed.TextIndex.load('org/model', { revision: 'v2' }),
      ];
      for (const call of calls) {
        const failed = call();
        await expect(failed).rejects.toMatchObject({
          name: 'HeedError',
          code,
          message: expect.stringMatching(message),
        });
        await expect(failed).rejects.not.toThrow(token);
      }
      expect(await listCache({ cache })).toEqual([]);
      hub.answer = answer;
      using model = await heed.fromPretrained('org/model', { revision: 'v2' });
      expect((await model.embed(text)).shape[0]).toBe(1);
    },
  );

  test('a page in place of the weights only', async () => {
    using heed = await load({ hub: { remoteHost: hub.base, cache } });
    const answer = hub.answer;
    hub.answer = (request, response, name) =>
      /safetensors/.test(request.url!)
        ? void response.writeHead(200, { 'content-type': 'application/octet-stream' }).end('<!DOCTYPE html><p>no</p>')
        : answer(request, response, name);
    await expect(heed.fromPretrained('org/model')).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('HTML page'),
    });
    hub.answer = answer;
    using model = await heed.fromPretrained('org/model');
    expect((await model.embed(text)).shape[0]).toBe(1);
  });

  test.each([
    ['a rejection', async () => Promise.reject(new Error('no route')), 'NETWORK', 'cannot be fetched (no route)'],
    ['another rejection', async () => Promise.reject('no route'), 'NETWORK', 'cannot be fetched (no route)'],
    [
      'no Response',
      async () => 7,
      'INVALID_ARGUMENT',
      'fetch: expected a function that returns a promise of a Response',
    ],
  ])("a fetch of one's own with %s", async (_, fetch, code, message) => {
    using heed = await load({ hub: { remoteHost: hub.base, fetch: fetch as never } });
    await expect(heed.fromPretrained('org/model')).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
    await expect(heed.fromPretrained('org/model', { worker: true })).rejects.toMatchObject({ code });
  });
});

describe('the cache', () => {
  /** A server that answers conditional requests, and the names of the files that it sent. */
  function tagged(contents: Record<string, Uint8Array | string>, tagOf: (name: string) => string) {
    const served: string[] = [];
    const unchanged: string[] = [];
    hub.answer = (request, response) => {
      const name = fileOf(request.url!);
      const content = contents[name];
      if (content === undefined) return void response.writeHead(404).end();
      const etag = tagOf(name);
      const isSame = request.headers['if-none-match'] === etag;
      (isSame ? unchanged : served).push(name);
      response.writeHead(isSame ? 304 : 200, { etag }).end(isSame ? undefined : Buffer.from(content as Uint8Array));
    };
    return { served, unchanged };
  }

  test('is listed and cleared, one model or all, at any host and folder', async () => {
    using heed = await load({ hub: { remoteHost: hub.base, cache } });
    (await heed.fromPretrained('org/model')).dispose();
    await loadTokenizer('org/other', { remoteHost: hub.base, revision: 'a/b', cache });
    await loadTokenizer(`${other.base}models/resolve/x/?v=1`, { cache });
    const listed = await listCache({ cache });
    expect(listed.map(({ source, remoteHost, revision }) => ({ source, remoteHost, revision }))).toEqual(
      [
        { source: 'org/model', remoteHost: hub.base.slice(0, -1), revision: 'main' },
        { source: 'org/other', remoteHost: hub.base.slice(0, -1), revision: 'a/b' },
        { source: `${other.base}models/resolve/x/?v=1`, remoteHost: null, revision: null },
      ].sort((a, b) => ((a.remoteHost ?? a.source) < (b.remoteHost ?? b.source) ? -1 : 0)),
    );
    const model = listed.find(({ source }) => source === 'org/model')!;
    const sizes = Object.entries(files)
      .map(([path, content]) => ({ path, bytes: Buffer.from(content as Uint8Array).length }))
      .filter(({ path }) => model.files.some((file) => file.path === path))
      .sort((a, b) => (a.path < b.path ? -1 : 1));
    expect(model.files).toEqual(sizes);
    expect(model.files.map(({ path }) => path)).toContain('model.safetensors');
    expect(model.bytes).toBe(sizes.reduce((sum, { bytes }) => sum + bytes, 0));
    expect(await clearCache('org/none', { cache })).toBe(0);
    expect(await clearCache('org/model', { cache })).toBe(model.bytes);
    expect((await listCache({ cache })).map(({ source }) => source)).not.toContain('org/model');
    expect(await clearCache(new URL(`${other.base}models/resolve/x/?v=1`), { cache })).toBeGreaterThan(0);
    expect(await listCache({ cache })).toHaveLength(1);
    expect(await clearCache(undefined, { cache })).toBeGreaterThan(0);
    expect(readdirSync(cache)).toEqual([]);
    expect(await clearCache(undefined, { cache: join(folder, 'none') })).toBe(0);
  });

  test.each([
    [() => listCache({ cache: false }), 'listCache.cache: expected true or a name, got false'],
    [() => listCache({ folder: 'x' } as object), 'listCache: expected'],
    [() => clearCache(7 as never), "source: expected a model's id or URL, got 7"],
    [() => clearCache('' as never), "source: expected a model's id or URL"],
  ])('refuses wrong arguments: %s', async (call, message) => {
    await expect(call()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message: expect.stringContaining(message) });
  });

  test('without `refresh`, nothing is requested; with it, only changed files are downloaded', async () => {
    using heed = await load({ hub: { remoteHost: hub.base, cache } });
    let version = 1;
    const contents = { ...files };
    const { served, unchanged } = tagged(contents, (name) => (name === 'config.json' ? `W/"${version}"` : '"1"'));
    using first = await heed.fromPretrained('org/model');
    const all = served.splice(0).sort();
    expect(all).toContain('config.json');
    // At the end of the load, the server was asked whether all files are of one revision.
    expect(unchanged.splice(0).sort()).toEqual(all);
    (await heed.fromPretrained('org/model')).dispose();
    expect([...served, ...unchanged]).toEqual([]);
    (await heed.fromPretrained('org/model', { refresh: true })).dispose();
    expect(served).toEqual([]);
    expect(unchanged.splice(0).sort()).toEqual(all);
    // A newer file, which later loads use, too.
    version = 2;
    const config = JSON.parse(Buffer.from(contents['config.json'] as Uint8Array).toString());
    contents['config.json'] = JSON.stringify({ ...config, layer_norm_eps: 0.5 });
    using second = await heed.fromPretrained('org/model', { refresh: true });
    expect(served).toEqual(['config.json']);
    using third = await heed.fromPretrained('org/model');
    const [before, after, kept] = [await first.embed(text), await second.embed(text), await third.embed(text)];
    expect(after.data).not.toEqual(before.data);
    expect(kept.data).toEqual(after.data);
  });

  test('a host that ignores conditions, but has the same tag, sends no file twice', async () => {
    using heed = await load({ hub: { remoteHost: hub.base, cache } });
    (await heed.fromPretrained('org/model')).dispose();
    const times = () => readdirSync(cache).map((name) => [name, statSync(join(cache, name)).mtimeMs]);
    const before = times();
    (await heed.fromPretrained('org/model', { refresh: true })).dispose();
    expect(times()).toEqual(before); // nothing was written
  });

  test.each([503, 401, 429])('status %i for `refresh` is an error, and the kept files remain', async (status) => {
    using heed = await load({ hub: { remoteHost: hub.base, cache } });
    (await heed.fromPretrained('org/model')).dispose();
    hub.answer = (_, response) => void response.writeHead(status).end();
    await expect(heed.fromPretrained('org/model', { refresh: true })).rejects.toMatchObject({ code: 'NETWORK' });
    using model = await heed.fromPretrained('org/model');
    expect((await model.embed(text)).shape[0]).toBe(1);
  });

  test('quantize, prune and TextIndex.load check digests and keep files', async () => {
    using heed = await load({ hub: { remoteHost: hub.base, cache } });
    const integrity = { 'model.safetensors': `sha256-${'0'.repeat(64)}` };
    for (const call of [
      () => heed.quantize('org/model', { integrity }),
      () => heed.prune('org/model', { keep: [text], integrity }),
    ])
      await expect(call()).rejects.toMatchObject({ code: 'INVALID_FILE', message: expect.stringContaining('SHA-256') });
    await expect(
      heed.quantize('org/model', { integrity: { 'none.json': integrity['model.safetensors'] } }),
    ).rejects.toThrow(/integrity/);
    await heed.quantize('org/model');
    expect((await listCache({ cache }))[0]!.files.map(({ path }) => path)).toContain('model.safetensors');
  });
});
