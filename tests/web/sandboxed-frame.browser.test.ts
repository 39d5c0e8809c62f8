/** heed in a sandboxed frame, whose origin is opaque: `self.origin` is 'null', and storage is refused. */
import type { Frame } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openSite, type Site } from './models/site.js';
import { tinyModel } from './models/tiny.js';

const files = tinyModel();
const requested: { path: string; headers: object }[] = [];
let site: Site;
let frame: Frame;
beforeAll(async () => {
  site = await openSite(
    (path, request, response) => {
      requested.push({ path, headers: request.headers });
      const file = files[path.replace('tiny/', '')];
      if (file !== undefined) response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(file);
      return file !== undefined;
    },
    // Module scripts and files of a frame with an opaque origin are requests to another origin.
    { headers: { 'access-control-allow-origin': '*' }, policy: "object-src 'none'" },
  );
  const attached = site.page.waitForEvent('frameattached');
  await site.page.evaluate(() => {
    const frame = document.createElement('iframe');
    frame.setAttribute('sandbox', 'allow-scripts');
    frame.src = '/';
    document.body.append(frame);
  });
  frame = await attached;
  await frame.waitForFunction('globalThis.heed');
});
afterAll(() => site.close());

test('its origin is opaque', async () => {
  expect(await frame.evaluate('self.origin')).toBe('null');
  expect(await frame.evaluate('location.origin')).toBe(site.origin);
});

describe.each([{}, { worker: true }, { workers: 2 }, { cache: true }])('a model with %j', (options) => {
  test('loads and embeds', async () => {
    const shape = await frame.evaluate(async (options) => {
      const { load } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
      const heed = await load({ build: 'simd128' });
      const model = await heed.fromPretrained(new URL('/models/tiny', location.href), options);
      const { shape } = await model.embed(['a fox', 'the']);
      heed.dispose();
      return shape;
    }, options);
    expect(shape).toEqual([2, 24]);
  });
});

test.each(['listCache', 'clearCache'] as const)('%s rejects with a HeedError', async (name) => {
  const error = await frame.evaluate(async (name) => {
    const { heed } = globalThis as unknown as { heed: typeof import('heed') };
    return heed[name]().then(
      () => null,
      (error) => ({ isOurs: error instanceof heed.HeedError, code: error.code, message: error.message }),
    );
  }, name);
  expect(error).toMatchObject({
    isOurs: true,
    code: 'UNSUPPORTED',
    message: expect.stringMatching(new RegExp(`^${name}: the cache cannot be opened`)),
  });
});
