/** See revisions.ts. With the Cache API, in memory. */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { MemoryCaches } from './memory-caches.js';
import { server, serving, testRevisions, vectors } from './revisions.js';
import { bert, cutOff } from './server.js';

Object.assign(process, { getBuiltinModule: undefined }); // must run before heed looks for Node's modules
afterEach(() => vi.unstubAllGlobals());

testRevisions(() => {
  vi.stubGlobal('caches', new MemoryCaches());
  return true;
}, false);

describe('the Cache API', () => {
  test('an entry that the browser has removed: the folder is downloaded as a whole', async () => {
    const caches = new MemoryCaches();
    vi.stubGlobal('caches', caches);
    server.answer = serving('a');
    const right = await vectors({ cache: true });
    for (const key of caches.keysOf('heed')) {
      caches.remove('heed', key);
      server.answer = serving('a');
      expect(await vectors({ cache: true })).toEqual(right);
      server.answer = cutOff;
      expect(await vectors({ cache: true })).toEqual(right);
    }
  });

  test('one that is deleted or cleared during a load', async () => {
    const caches = new MemoryCaches();
    vi.stubGlobal('caches', caches);
    const right = await (async () => {
      server.answer = serving('a');
      return vectors({ cache: true });
    })();
    for (let n = 0; n < 4; n++) {
      await caches.delete('heed');
      let count = 0;
      server.answer = (...args) => {
        if (count++ === n) void caches.delete('heed');
        serving('a')(...args);
      };
      expect(await vectors({ cache: true })).toEqual(right);
      server.answer = serving('a');
      expect(await vectors({ cache: true })).toEqual(right);
    }
  });

  test('two loads at once', async () => {
    vi.stubGlobal('caches', new MemoryCaches());
    server.answer = serving('a');
    const [first, second] = await Promise.all([vectors({ cache: true }), vectors({ cache: true })]);
    expect(first).toEqual(second);
    server.answer = cutOff;
    expect(await vectors({ cache: true })).toEqual(first);
  });

  test('is listed without reading a body, and stops for a signal', async () => {
    const caches = new MemoryCaches();
    vi.stubGlobal('caches', caches);
    server.answer = serving('a');
    await vectors({ cache: true });
    caches.reads = 0;
    const [kept] = await (await import('heed')).listCache({ signal: new AbortController().signal });
    expect(kept!.bytes).toBe(bert['config.json']!.length + bert['model.safetensors']!.length);
    expect(caches.reads).toBe(0);
    const reason = new Error('enough');
    await expect((await import('heed')).listCache({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });
});
