/** Missing files and unreachable servers, with and without a cache; and the files that the cache stores. */
import { mkdtempSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { load } from 'heed';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../../web/src/io/safetensors.js';
import { bytesOf, expectClose, fixture, readSafetensors } from './fixtures.js';
import { type Answer, bert, cutOff, except, openServer, page, serving, status } from './server.js';

const heed = await load();
const server = await openServer();
afterAll(() => server.close());
const model = `${server.base}model`;
const { expected, input } = fixture('bert');

/** A folder whose vectors differ without its modules.json. */
const sentence = fixture('sentence');
const { 'input.json': _input, 'expected.safetensors': _expected, ...modules } = bytesOf(sentence.folder);

type Source = Parameters<typeof heed.fromPretrained>[0];

async function expectRight(source: Source, options = {}): Promise<void> {
  using loaded = await heed.fromPretrained(source, options);
  expectClose(await loaded.embed(input, { normalize: true }), expected.get('mean'));
}

async function expectVectors(source: Source, options = {}): Promise<void> {
  using loaded = await heed.fromPretrained(source, options);
  expectClose(await loaded.embed(sentence.input), sentence.expected.get('vectors'));
}

async function expectFailure(source: Source, options: object, code: string, message: RegExp): Promise<void> {
  const failed = heed.fromPretrained(source, options).then((loaded) => loaded.dispose());
  await expect(failed).rejects.toMatchObject({ name: 'HeedError', code, message: expect.stringMatching(message) });
}

let cache: string;
beforeEach(() => {
  cache = join(mkdtempSync(join(tmpdir(), 'heed-cache-')), 'kept');
  server.answer = serving(bert);
  server.asked.length = 0;
  server.urls.length = 0;
});
afterEach(() => rmSync(cache, { recursive: true, force: true }));

/** The cached files, without the records of folders. */
const kept = () => readdirSync(cache).filter((name) => !name.endsWith('.json'));
const largest = () =>
  join(cache, kept().sort((a, b) => statSync(join(cache, b)).size - statSync(join(cache, a)).size)[0]!);

describe('an unreachable file is not treated as missing', () => {
  test.each([500, 503, 429, 401, 408])('status %i', async (code) => {
    server.answer = except(/modules\.json/, status(code), serving(modules));
    for (const options of [{}, { cache }, { cache }])
      await expectFailure(model, options, 'NETWORK', new RegExp(`modules\\.json: expected status 200, got ${code}`));
    server.answer = serving(modules);
    await expectVectors(model, { cache });
  });

  test('a connection that breaks', async () => {
    server.answer = except(/modules\.json/, cutOff, serving(modules));
    for (const options of [{}, { cache }, { cache }])
      await expectFailure(model, options, 'NETWORK', /modules\.json: cannot be fetched/);
  });

  test('a host that denies access after config.json was cached', async () => {
    server.answer = except(/model\.safetensors/, status(503), serving(modules));
    await expectFailure(model, { cache }, 'NETWORK', /model\.safetensors/);
    expect(kept()).toEqual([]);
    for (const code of [403, 503]) {
      server.answer = status(code);
      await expectFailure(model, { cache }, 'NETWORK', new RegExp(`expected status 200, got ${code}`));
    }
    server.answer = (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(page);
    await expectFailure(model, { cache }, 'NOT_FOUND', /HTML page/);
    server.answer = serving(modules);
    await expectVectors(model, { cache });
  });

  test('of weights in shards', async () => {
    const { 'model.safetensors': weights, ...rest } = bert;
    const index = JSON.stringify({ weight_map: { x: 'model-1.safetensors' } });
    const files = { ...rest, 'model.safetensors.index.json': index, 'model-1.safetensors': weights! };
    for (const name of [/^model\.safetensors$/, /index\.json$/, /model-1/]) {
      server.answer = except(name, status(503), serving(files));
      await expectFailure(model, {}, 'NETWORK', /expected status 200, got 503/);
      await expectFailure(model, { cache }, 'NETWORK', /expected status 200, got 503/);
    }
    server.answer = serving(files);
    await expectRight(model, { cache });
  });

  test('of a record of addresses', async () => {
    const urls = Object.fromEntries(Object.keys(modules).map((name) => [name, new URL(`${model}/${name}`)]));
    server.answer = except(/modules\.json/, status(503), serving(modules));
    await expectFailure(urls, {}, 'NETWORK', /modules\.json: expected status 200, got 503/);
    server.answer = serving(modules);
    await expectVectors(urls);
  });

  test('of a local folder', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'heed-folder-'));
    for (const [name, bytes] of Object.entries(bert)) writeFileSync(join(folder, name), bytes);
    const { symlinkSync } = await import('node:fs');
    symlinkSync('modules.json', join(folder, 'modules.json')); // a link to itself neither exists nor is missing
    await expectFailure(folder, {}, 'NOT_FOUND', /modules\.json: cannot be read \(ELOOP/);
    rmSync(join(folder, 'modules.json'));
    await expectRight(folder);
    rmSync(folder, { recursive: true });
  });
});

describe('a file is missing', () => {
  test.each([404, 410, 403])('by status %i, where others are served', async (code) => {
    server.answer = serving(bert, code);
    await expectRight(model);
    await expectRight(model, { cache });
    const { 'config.json': _, ...rest } = bert;
    server.answer = serving({ ...rest, 'modules.json': '[]' }, code);
    await expectFailure(model, {}, 'NOT_FOUND', new RegExp(`config\\.json: expected the file, got status ${code}`));
  });

  test('by status 403, however late the others are served', async () => {
    // The optional files are denied before the first file is served.
    let refusals = 0;
    const held: (() => void)[] = [];
    server.answer = (request, response, name) => {
      const serve = () => serving(bert)(request, response, name);
      if (name in bert) return void (refusals < 5 ? held.push(serve) : serve());
      response.writeHead(403).end(() => {
        if (++refusals === 5) for (const release of held) release();
      });
    };
    await expectRight(model);
  });

  test.each([403, 200])('by status %i, with the other files kept', async (code) => {
    const refused: Answer = (_, response) => response.writeHead(code, { 'content-type': 'text/html' }).end(page);
    server.answer = except(/^(config\.json|model\.safetensors)$/, serving(bert), refused);
    await expectRight(model, { cache });
    await expectRight(model, { cache, refresh: true });
  });

  test('by status 403 for everything: the host cannot be reached', async () => {
    server.answer = status(403);
    await expectFailure(model, {}, 'NETWORK', /config\.json: expected status 200, got 403/);
  });

  test('as the server said before it could not be reached any more', async () => {
    for (const code of [404, 403]) {
      server.answer = serving(bert, code);
      await expectRight(model, { cache });
      for (const answer of [cutOff, status(503), status(403)]) {
        server.answer = answer;
        await expectRight(model, { cache });
      }
      rmSync(cache, { recursive: true });
    }
  });

  test('until `refresh` finds it', async () => {
    const { 'modules.json': _, ...without } = modules;
    server.answer = serving(without);
    using first = await heed.fromPretrained(model, { cache });
    server.answer = serving(modules);
    using second = await heed.fromPretrained(model, { cache });
    expect((await second.embed(sentence.input)).data).toEqual((await first.embed(sentence.input)).data);
    await expectVectors(model, { cache, refresh: true });
    server.answer = cutOff;
    await expectVectors(model, { cache });
  });
});

describe('a cache', () => {
  test('keeps loaded files for use without a connection', async () => {
    await expectRight(model, { cache });
    expect(kept()).toHaveLength(2);
    server.answer = cutOff;
    await expectRight(model, { cache });
  });

  test('keeps files apart by the query of their addresses', async () => {
    const other = {
      ...bert,
      'config.json': JSON.stringify({
        ...JSON.parse(Buffer.from(bert['config.json']!).toString()),
        layer_norm_eps: 0.5,
      }),
    };
    server.answer = (request, response, name) =>
      serving(request.url!.endsWith('?v=2') ? other : bert)(request, response, name);
    await expectRight(`${model}?v=1`, { cache });
    const outside = heed.fromPretrained(`${model}?v=2`, { cache });
    using loaded = await outside;
    using right = await heed.fromPretrained(other);
    expect((await loaded.embed(input)).data).toEqual((await right.embed(input)).data);
    await expectRight(`${model}?v=1`, { cache });
    expect(kept()).toHaveLength(4);
  });

  test('keeps a record of addresses', async () => {
    const urls = Object.fromEntries(Object.keys(bert).map((name) => [name, new URL(`${model}/${name}?of=record`)]));
    await expectRight(urls, { cache });
    server.answer = cutOff;
    await expectRight(urls, { cache });
    await expectRight({ ...urls, 'config.json': bert['config.json']! }, { cache });
  });

  test('that has the whole folder is refreshed through a record of some of its addresses', async () => {
    await expectRight(model, { cache });
    const altered = { ...bert, 'config.json': `${Buffer.from(bert['config.json']!)} ` };
    server.answer = (_, response, name) => {
      const content = (altered as Record<string, Uint8Array | string>)[name];
      response.writeHead(content === undefined ? 404 : 200, { etag: '"2"' }).end(content && Buffer.from(content));
    };
    const urls = Object.fromEntries(Object.keys(bert).map((name) => [name, new URL(`${model}/${name}`)]));
    await expectRight(urls, { cache, refresh: true });
    server.answer = cutOff;
    await expectRight(urls, { cache });
  });

  test('keeps a folder packed into one file, and replaces it when it is damaged', async () => {
    const tensors = [...readSafetensors(join(fixture('bert').folder, 'model.safetensors'))].map(
      ([name, { shape, data }]) => ({ name, shape, data, dtype: 'F32' as const }),
    );
    const packed = writeSafetensors(tensors, { 'config.json': Buffer.from(bert['config.json']!).toString() });
    server.answer = serving({ 'packed.safetensors': packed });
    const url = `${model}/packed.safetensors`;
    await expectRight(url, { cache });
    await expectRight(url, { cache });
    expect(server.asked).toHaveLength(1);
    for (const length of [packed.length - 100, 100]) {
      server.answer = cutOff;
      await expectRight(url, { cache });
      truncateSync(largest(), length);
      await expectFailure(url, { cache }, 'INVALID_FILE', /truncated/);
      await expectFailure(url, { cache }, 'NETWORK', /cannot be fetched/);
      server.answer = serving({ 'packed.safetensors': packed });
      await expectRight(url, { cache });
    }
  });

  test('keeps nothing that is broken', async () => {
    const weights = bert['model.safetensors']!;
    const ending = (name: RegExp, body: Uint8Array | string) =>
      except(name, (_, response) => void response.writeHead(200).end(body), serving(bert));
    for (const wrong of [
      ending(/^model\.safetensors$/, weights.subarray(0, 5000)),
      ending(/^config\.json$/, '{"model_type":'),
      ending(/^model\.safetensors$/, page.repeat(9)),
    ]) {
      server.answer = wrong;
      await expect(heed.fromPretrained(model, { cache })).rejects.toMatchObject({ name: 'HeedError' });
      server.answer = serving(bert);
      await expectRight(model, { cache });
      rmSync(cache, { recursive: true });
    }
  });

  test('replaces a damaged file', async () => {
    await expectRight(model, { cache });
    truncateSync(largest(), 3000);
    await expectFailure(model, { cache }, 'INVALID_FILE', /truncated/);
    await expectRight(model, { cache });
  });

  test('is not used for blob: URLs', async () => {
    for (const option of [cache, false])
      await expectFailure('blob:x', { cache: option }, 'INVALID_ARGUMENT', /^source: /);
  });

  test('that cannot be written does not make a load fail', async () => {
    await expectRight(model, { cache: '/dev/null/heed' });
    await expectFailure(model, { cache: 3 }, 'INVALID_ARGUMENT', /cache/);
  });
});
