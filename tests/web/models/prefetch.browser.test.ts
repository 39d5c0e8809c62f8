/** `load({ prefetch: true })`: the bundled model's download begins with that of the module, and is used once. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSite, type Site } from './site.js';

let site: Site;
beforeAll(async () => {
  site = await openSite(() => false);
});
afterAll(() => site?.close());

declare const heed: typeof import('heed');

const isModel = (url: string) => url.endsWith('/model/model.safetensors');

test.each([{}, { worker: true }])('one download, %j', async (options) => {
  const urls: string[] = [];
  const { page } = site;
  const note = (request: { url(): string }) => urls.push(request.url());
  page.on('request', note);
  const found = await page.evaluate(async (options) => {
    const runtime = await heed.load({ prefetch: true });
    const model = await runtime.fromPretrained(undefined, options);
    const { shape } = await model.embed('a fox');
    runtime.dispose();
    return { shape, dtype: model.config.dtype };
  }, options);
  page.off('request', note);
  expect(found).toEqual({ shape: [1, 384], dtype: 'q8' });
  expect(urls.filter(isModel)).toHaveLength(1);
});

test('it takes the download that a link of the page has begun', async () => {
  const found = await site.page.evaluate(async () => {
    performance.clearResourceTimings();
    const href = new URL('/model/model.safetensors', location.href).href;
    document.head.append(
      Object.assign(document.createElement('link'), { rel: 'preload', as: 'fetch', crossOrigin: '', href }),
    );
    const runtime = await heed.load({ prefetch: true });
    const model = await runtime.fromPretrained(undefined, { worker: true });
    const entries = performance.getEntriesByType('resource') as PerformanceResourceTiming[];
    runtime.dispose();
    const downloads = entries.filter(({ name }) => name === href).map(({ initiatorType }) => initiatorType);
    return { width: model.dimensions, downloads };
  });
  expect(found).toEqual({ width: 384, downloads: ['link'] });
});

test('it begins before the module is loaded, by the fetch of `hub`', async () => {
  const found = await site.page.evaluate(async () => {
    const urls: string[] = [];
    const counted = (url: string, init: object) => {
      urls.push(url);
      return fetch(url, init);
    };
    const hub = { fetch: counted };
    const loading = heed.load({ prefetch: true, hub });
    await Promise.resolve();
    const atOnce = urls.length;
    const runtime = await loading;
    const first = await runtime.fromPretrained();
    const afterOne = urls.length;
    const second = await runtime.fromPretrained();
    const result = { atOnce, afterOne, afterTwo: urls.length, dims: [first.dimensions, second.dimensions] };
    runtime.dispose();
    return result;
  });
  expect(found).toEqual({ atOnce: 1, afterOne: 1, afterTwo: 2, dims: [384, 384] });
});

test('a download that fails is made again', async () => {
  const found = await site.page.evaluate(async () => {
    let calls = 0;
    const fails = (url: string, init: object) =>
      ++calls === 1 ? Promise.reject(new TypeError('offline')) : fetch(url, init);
    const runtime = await heed.load({ prefetch: true, hub: { fetch: fails } });
    const model = await runtime.fromPretrained();
    const result = { calls, width: model.dimensions };
    runtime.dispose();
    return result;
  });
  expect(found).toEqual({ calls: 2, width: 384 });
});

test('a signal ends it', async () => {
  const found = await site.page.evaluate(async () => {
    const never = () => new Promise<Response>(() => {});
    const runtime = await heed.load({ prefetch: true, hub: { fetch: never } });
    const stop = new AbortController();
    const loading = runtime.fromPretrained(undefined, { signal: stop.signal });
    setTimeout(() => stop.abort(new Error('enough')));
    const reason = await loading.catch((error: Error) => error.message);
    runtime.dispose();
    return reason;
  });
  expect(found).toBe('enough');
});
