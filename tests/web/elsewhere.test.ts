/**
 * Without Node's modules, heed uses the APIs of browsers and edge runtimes. Real pages are tested in *.browser.test.ts.
 */
import { readFileSync } from 'node:fs';
import { Worker as Thread } from 'node:worker_threads';
import type { Heed } from 'heed';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { tinyModel } from './models/tiny.js';

const files = tinyModel();
const bytes = readFileSync(new URL('../../dist/heed-simd128.wasm', import.meta.url));
const many = Array.from({ length: 20_000 }, (_, i) => `the quick brown fox ${i}`);
let heed: Heed;
let load: typeof import('heed').load;

beforeAll(async () => {
  // Must run before heed looks for Node's modules.
  Object.assign(process, { getBuiltinModule: undefined });
  ({ load } = await import('heed'));
  heed = await load({ build: 'simd128', wasm: new Uint8Array(bytes) });
});

let online: boolean;
let asked: string[];
beforeEach(() => {
  online = true;
  asked = [];
  vi.stubGlobal('location', { href: 'https://app.example/page/index.html' });
  vi.stubGlobal('fetch', async (url: URL) => {
    asked.push(url.href);
    if (!online) throw new TypeError('Failed to fetch');
    const file = files[url.pathname.replace('/page/model/', '')];
    if (file === undefined) return new Response('nothing here', { status: 404 });
    const body = Uint8Array.from(typeof file === 'string' ? Buffer.from(file) : file);
    let at = 0;
    const stream = new ReadableStream({
      pull(controller) {
        if (at >= body.length) return controller.close();
        controller.enqueue(body.slice(at, at + 4096));
        at += 4096;
      },
    });
    return new Response(stream, { headers: { 'content-length': String(body.length) } });
  });
});
afterEach(() => vi.unstubAllGlobals());

async function expectLoads(options: object = {}, source = './model'): Promise<void> {
  using model = await heed.fromPretrained(source, options);
  expect((await model.embed('the fox')).shape).toEqual([1, 24]);
}

test("a folder's address is relative to the page", async () => {
  await expectLoads();
  expect(asked).toContain('https://app.example/page/model/config.json');
  await expect(heed.fromPretrained('https://')).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
});

test.each([{}, { cache: true }])(
  'an id of a hub without a host, where a server answers every path with a page, with %j: the error says what to do',
  async (options) => {
    const html = async () =>
      new Response('<!doctype html><title>app</title>', { headers: { 'content-type': 'text/html' } });
    const missing = async () => new Response('none', { status: 404 });
    for (const answer of [html, missing]) {
      vi.stubGlobal('fetch', answer);
      await expect(heed.fromPretrained('org/name', options)).rejects.toMatchObject({
        code: 'NOT_FOUND',
        message: expect.stringMatching(/org\/name\/config\.json.* If 'org\/name' is a model of a hub.*`remoteHost`/),
      });
    }
  },
);

test("the module's address is refused where there is nothing that it could be relative to", async () => {
  vi.stubGlobal('location', undefined);
  await expect(load({ wasm: 'heed.wasm' })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: "load.wasm: expected a URL, got 'heed.wasm'",
  });
});

describe('the Cache API', () => {
  /** A browser's cache storage with a quota of `room` bytes. */
  function storage(room: number) {
    const kept = new Map<string, Map<string, { body: Uint8Array; headers: Headers }>>();
    const open = async (name: string) => {
      const cache = kept.get(name) ?? new Map<string, { body: Uint8Array; headers: Headers }>();
      kept.set(name, cache);
      return {
        async match(key: string) {
          const found = cache.get(key);
          return found && new Response(Uint8Array.from(found.body), { headers: found.headers });
        },
        async put(key: string, response: Response) {
          const used = [...kept.values()]
            .flatMap((one) => [...one.values()])
            .reduce((n, { body }) => n + body.length, 0);
          const reader = response.body!.getReader();
          const chunks: Uint8Array[] = [];
          let size = used;
          for (let next = await reader.read(); !next.done; next = await reader.read()) {
            chunks.push(next.value);
            size += next.value.length;
            if (size <= room) continue;
            const full = new DOMException('no room', 'QuotaExceededError');
            await reader.cancel(full);
            throw full;
          }
          cache.set(key, { body: Uint8Array.from(Buffer.concat(chunks)), headers: response.headers });
        },
        delete: async (key: string) => cache.delete(key),
      };
    };
    vi.stubGlobal('caches', { open });
    return kept;
  }

  test.each([
    [true, 'heed'],
    ['mine', 'mine'],
  ])('keeps files for when there is no connection: %s', async (cache, name) => {
    const kept = storage(Infinity);
    await expectLoads({ cache });
    expect([...kept.keys()]).toEqual([name]);
    // The other entry, without bytes, is the folder's record.
    const whole = [...kept.get(name)!]
      .filter(([, { body }]) => body.length > 0)
      .map(([key]) => key.replace(/\?heed=[\w-]+$/, ''));
    expect(whole.sort()).toEqual(
      ['config.json', 'model.safetensors', 'tokenizer.json'].map((file) => `https://app.example/page/model/${file}`),
    );
    online = false;
    await expectLoads({ cache });
    await expect(heed.fromPretrained('./other', { cache })).rejects.toMatchObject({ code: 'NETWORK' });
  });

  test("that is full, or not there, stands in nobody's way", async () => {
    const kept = storage(20_000);
    await expectLoads({ cache: true });
    expect([...kept.get('heed')!.keys()].join()).not.toContain('model.safetensors');
    vi.stubGlobal('caches', { open: () => Promise.reject(new DOMException('blocked', 'SecurityError')) });
    await expectLoads({ cache: true });
    vi.stubGlobal('caches', undefined); // as on a page without https
    await expectLoads({ cache: true });
  });

  test.each([
    ['weights that are cut short', 'model.safetensors', (body: Uint8Array) => body.subarray(0, 5000)],
    ['a tokenizer that is cut short', 'tokenizer.json', (body: Uint8Array) => body.subarray(0, 500)],
    ['a configuration of another model', 'config.json', () => Buffer.from('{"model_type":"bert"}')],
  ])('forgets %s', async (_, name, spoil) => {
    const kept = storage(Infinity);
    await expectLoads({ cache: true });
    const [, entry] = [...kept.get('heed')!].find(([key]) => key.startsWith(`https://app.example/page/model/${name}`))!;
    entry.body = spoil(entry.body);
    entry.headers.delete('content-length');
    await expect(heed.fromPretrained('./model', { cache: true })).rejects.toMatchObject({ code: 'INVALID_FILE' });
    await expectLoads({ cache: true });
    online = false;
    await expectLoads({ cache: true });
  });

  test('keeps what it has when a load is cancelled', async () => {
    storage(Infinity);
    await expectLoads({ cache: true });
    const stop = new AbortController();
    const load = heed.fromPretrained('./model', {
      cache: true,
      signal: stop.signal,
      onProgress: ({ file }) => file.name.endsWith('.safetensors') && stop.abort(new Error('enough')),
    });
    await expect(load).rejects.toThrow('enough');
    online = false;
    await expectLoads({ cache: true });
  });
});

describe('workers', () => {
  /** A fake of a browser's Worker: a thread in which the script finds a browser's worker scope. */
  class WebWorker extends EventTarget {
    private readonly thread: Thread;

    constructor(url: URL, options?: { type: string }) {
      super();
      expect(options).toEqual({ type: 'module' });
      const scope = `
        const { parentPort } = require('node:worker_threads');
        process.getBuiltinModule = undefined;
        globalThis.postMessage = (message, transfer) => parentPort.postMessage(message, transfer);
        globalThis.addEventListener = (type, listener) => parentPort.on(type, (data) => listener({ data }));
        import(${JSON.stringify(url.href)});`;
      this.thread = new Thread(scope, { eval: true });
      this.thread.on('message', (data) => this.emit('message', { data }));
      this.thread.on('error', (error) => this.emit('error', { message: (error as Error).message }));
    }

    emit(type: string, fields: object) {
      return this.dispatchEvent(Object.assign(new Event(type, { cancelable: true }), fields));
    }

    postMessage(message: unknown, transfer?: never[]) {
      this.thread.postMessage(message, transfer);
    }

    terminate() {
      void this.thread.terminate();
    }
  }

  test('return the same as this thread, one or as many as there are cores', async () => {
    vi.stubGlobal('Worker', WebWorker);
    vi.stubGlobal('navigator', { hardwareConcurrency: 2 });
    using here = await heed.fromPretrained(files);
    using there = await heed.fromPretrained(files, { worker: true });
    using pool = await heed.fromPretrained(files, { workers: 'auto' });
    expect(pool.workers).toEqual({ count: 2, reason: '2 cores' });
    const texts = many.slice(0, 40);
    const wanted = await here.embed(texts);
    expect(await there.embed(texts)).toEqual(wanted);
    expect(await pool.embed(texts)).toEqual(wanted);
    await expect(there.embed(['a '.repeat(99)], { truncation: false })).rejects.toMatchObject({ code: 'TOO_LONG' });
  });

  test('get absolute URLs of folders', async () => {
    const sent: unknown[] = [];
    const worker = Object.assign(new EventTarget(), {
      postMessage(request: { id: number; method: string; args: unknown[] }) {
        if (request.method === 'load') sent.push(request.args[0]);
        const error = { packed: true, name: 'HeedError', code: 'NOT_FOUND', message: 'x: none' };
        worker.dispatchEvent(new MessageEvent('message', { data: { type: 'error', id: request.id, error } }));
      },
      terminate: vi.fn(),
    });
    await expect(heed.fromPretrained('./model', { worker })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(sent).toEqual(['https://app.example/page/model']);
    expect(worker.terminate).toHaveBeenCalledOnce();
  });

  test('that fail reject pending calls', async () => {
    const dying = async (die: (worker: WebWorker) => void) => {
      const url = new URL('./worker.js', import.meta.resolve('heed'));
      const worker = new WebWorker(url, { type: 'module' });
      using model = await heed.fromPretrained(files, { worker });
      return await model.embed(many, { onProgress: () => die(worker) });
    };
    await expect(dying((worker) => worker.emit('messageerror', {}))).rejects.toMatchObject({
      code: 'WORKER_FAILED',
      message: expect.stringContaining('the worker sent a message that cannot be read'),
    });
    let reported = true;
    const failing = dying((worker) => {
      reported = worker.emit('error', { message: 'out of stack' });
    });
    await expect(failing).rejects.toMatchObject({
      code: 'WORKER_FAILED',
      message: expect.stringContaining('worker: the worker failed (out of stack)'),
    });
    expect(reported).toBe(false); // the call rejects; the error is not logged as uncaught
  });

  test("of the caller keep the caller's handlers and may exchange other messages", async () => {
    const worker = new WebWorker(new URL('./worker.js', import.meta.resolve('heed')), { type: 'module' });
    const [onmessage, onerror, onmessageerror] = [vi.fn(), vi.fn(), vi.fn()];
    Object.assign(worker, { onmessage, onerror, onmessageerror });
    using model = await heed.fromPretrained(files, { worker });
    expect(worker).toMatchObject({ onmessage, onerror, onmessageerror });
    const pending = model.embed('the fox');
    for (const data of [null, 'hello', { id: 1 }, { id: 1, type: 'hello' }, { id: 7, type: 'result' }]) {
      worker.emit('message', { data });
      worker.postMessage(data);
    }
    expect((await pending).shape).toEqual([1, 24]);
    expect((await model.embed('the fox')).shape).toEqual([1, 24]);
  });

  test('that cannot be sent a message reject that call only', async () => {
    const worker = new WebWorker(new URL('./worker.js', import.meta.resolve('heed')), { type: 'module' });
    using model = await heed.fromPretrained(files, { worker });
    const pending = model.embed(many);
    const refusing = vi.spyOn(worker, 'postMessage').mockImplementation(() => {
      throw new DOMException('no clone of it', 'DataCloneError');
    });
    const refused = await model.embed('a').catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'INVALID_ARGUMENT', message: expect.stringContaining('no clone of it') });
    expect(refused).toMatchObject({ cause: { name: 'DataCloneError' } });
    refusing.mockRestore();
    expect((await pending).shape).toEqual([many.length, 24]);
    expect((await model.embed('a')).shape).toEqual([1, 24]);
  });

  test('that do not exist or cannot start are reported', async () => {
    vi.stubGlobal('Worker', undefined);
    await expect(heed.fromPretrained(files, { worker: true })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('this environment has no workers'),
    });
    class Refused {
      constructor() {
        throw new DOMException('blocked by the policy of the page', 'SecurityError');
      }
    }
    vi.stubGlobal('Worker', Refused);
    await expect(heed.fromPretrained(files, { worker: true })).rejects.toMatchObject({
      code: 'WORKER_FAILED',
      message: expect.stringContaining('cannot be started (blocked by the policy of the page)'),
    });
  });

  test('are one where the engine does not tell its cores', async () => {
    vi.stubGlobal('Worker', WebWorker);
    vi.stubGlobal('navigator', undefined);
    using model = await heed.fromPretrained(files, { workers: 'auto' });
    expect(model.workers).toMatchObject({ count: 1, reason: expect.stringContaining('does not report') });
  });
});

test.each([['with'], ['without']])('a call lets the page breathe, %s message channels', async (which) => {
  vi.stubGlobal('setImmediate', undefined);
  if (which === 'without') vi.stubGlobal('MessageChannel', undefined);
  using model = await heed.fromPretrained(files);
  const before = await model.embed('the fox');
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Error('enough'))); // when the call first yields to the event loop
  await expect(model.embed(many, { signal: stop.signal })).rejects.toThrow('enough');
  expect(await model.embed('the fox')).toEqual(before);
});
