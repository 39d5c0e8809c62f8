import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { HeedError, type LoadOptions, load, pipeline } from 'heed';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { tinyModel } from './models/tiny.js';

const file = new URL('../../dist/heed-simd128.wasm', import.meta.url);
let bytes: Uint8Array<ArrayBuffer>;
let server: Server;
let base: string;

beforeAll(async () => {
  bytes = new Uint8Array(await readFile(file));
  server = createServer((request, response) => {
    if (request.url === '/heed.wasm')
      response.end(bytes); // without a content type, like simple servers
    else if (request.url === '/page') response.end('\n<!doctype html><title>Home</title>');
    else if (request.url === '/broken') {
      response.writeHead(200, { 'content-length': '1000' });
      response.write('abc', () => response.destroy()); // once it has been sent
    } else response.writeHead(404).end('nothing here');
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => server.close());
afterEach(() => vi.restoreAllMocks());

/** Sizes of a linear layer that does not fit into the memory that any of these instances has now, free or not. */
function largerThan(memoryBytes: number[]) {
  const inFeatures = 2048;
  return { inFeatures, outFeatures: Math.ceil(Math.max(...memoryBytes) / (4 * inFeatures)) };
}

/** Loads a separate instance and checks that it works. */
async function works(options: LoadOptions): Promise<void> {
  const heed = await load({ build: 'simd128', ...options });
  expect(heed.softmax([0, 0]).toArray()).toEqual([0.5, 0.5]);
  heed.dispose();
}

describe('load', () => {
  it('says what runs', async () => {
    const { info } = await load();
    expect(['simd128', 'relaxed-simd']).toContain(info.build);
    expect(info.version).toMatch(/^\d+\.\d+\.\d+/);
    expect(info.reason).toMatch(/relaxed SIMD/);
    expect(info.compiler).toMatch(/\d+\.\d+\.\d+/);
    expect(info.memoryBytes).toBeGreaterThan(0);
  });

  it('shares one instance among calls whose options lead to the same', async () => {
    const { build } = (await load()).info;
    const heeds = [
      await load(),
      await load({ threads: 1 }),
      await load({ build }),
      await load({ threads: 2 }),
      await load({ threads: 2, build }),
      await load({ build: 'simd128', threads: 1 }),
    ];
    const before = heeds.map(({ info }) => info.memoryBytes);
    using layer = new heeds[0]!.Linear(largerThan(before));
    expect(layer.parameterCount).toBeGreaterThan(0);
    const grown = heeds.map(({ info }, i) => info.memoryBytes > before[i]!);
    expect(grown).toEqual([true, true, true, false, false, build === 'simd128']);
    using other = new heeds[3]!.Linear(largerThan(before));
    expect(other.parameterCount).toBeGreaterThan(0);
    expect(heeds[4]!.info.memoryBytes).toBeGreaterThan(before[4]!);
    const reasons = heeds.map(({ info }) => [info.threads, info.threadsReason, info.reason]);
    const why = heeds[0]!.info.reason;
    expect(why).toMatch(/relaxed SIMD/);
    expect(reasons).toEqual([
      [1, 'the default', why],
      [1, 'asked for', why],
      [1, 'the default', 'asked for'],
      [2, 'asked for', why],
      [2, 'asked for', 'asked for'],
      [1, 'asked for', 'asked for'],
    ]);
    for (const heed of heeds) heed.dispose();
  });

  it('stops waiting when its signal fires, without disturbing others', async () => {
    const reason = new Error('enough');
    await expect(load({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    await expect(load({ signal: 7 as never })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    const held: (() => void)[] = [];
    const slow = createServer((request, response) => {
      asked.push(request);
      held.push(() => response.end(bytes));
    });
    const asked: unknown[] = [];
    await new Promise<void>((done) => slow.listen(0, '127.0.0.1', done));
    const wasm = `http://127.0.0.1:${(slow.address() as AddressInfo).port}/heed.wasm`;
    const [first, second] = [new AbortController(), new AbortController()];
    const stopped = load({ wasm, signal: first.signal });
    const other = load({ wasm });
    await vi.waitFor(() => expect(held).toHaveLength(1), { timeout: 60_000 });
    first.abort(reason);
    await expect(stopped).rejects.toBe(reason);
    held[0]!();
    const heed = await other;
    expect(heed.softmax([0, 0]).toArray()).toEqual([0.5, 0.5]);
    heed.dispose();
    // If no caller waits any more, the download is aborted, and the next call starts over.
    const alone = load({ wasm, signal: second.signal });
    await vi.waitFor(() => expect(held).toHaveLength(2), { timeout: 60_000 });
    const ended = new Promise((resolve) => (asked[1] as import('node:http').IncomingMessage).on('close', resolve));
    second.abort(reason);
    await expect(alone).rejects.toBe(reason);
    await ended;
    const again = load({ wasm });
    await vi.waitFor(() => expect(held).toHaveLength(3), { timeout: 60_000 });
    held[2]!();
    (await again).dispose();
    slow.closeAllConnections();
    slow.close();
  });

  it('shares one instance among calls', async () => {
    const wasm = new Uint8Array(bytes);
    const [a, b] = await Promise.all([load(), load({})]);
    const [c, d] = await Promise.all([load({ build: 'simd128', wasm }), load({ build: 'simd128', wasm })]);
    const all = [a, b, await load({ build: 'auto' }), c, d];
    const before = all.map(({ info }) => info.memoryBytes);
    using layer = new a.Linear(largerThan(before));
    expect(layer.parameterCount).toBeGreaterThan(0);
    const grown = all.map(({ info }, i) => info.memoryBytes > before[i]!);
    expect(grown).toEqual([true, true, true, false, false]);
    for (const heed of all) heed.dispose();
  });

  it('counts its callers: what one disposes of goes on for the others', async () => {
    const wasm = new Uint8Array(bytes);
    const options = { build: 'simd128', wasm } as const;
    const disposed = expect.objectContaining({ name: 'HeedError', code: 'DISPOSED' });
    const [a, b] = await Promise.all([load(options), load(options)]);
    const model = await b.fromPretrained(tinyModel());
    const expected = await model.embed('the fox');
    const layer = new b.Linear({ inFeatures: 1, outFeatures: 1, seed: 1 });
    {
      using other = a;
      expect(other.softmax([0, 0]).toArray()).toEqual([0.5, 0.5]);
    }
    a.dispose();
    a.dispose();
    expect(() => a.softmax([1])).toThrow(disposed);
    expect(await model.embed('the fox')).toEqual(expected);
    expect(layer.forward([1]).shape).toEqual([1]);
    expect(b.softmax([1]).toArray()).toEqual([1]);
    // Later calls still share the instance.
    const c = await load(options);
    const { memoryBytes } = c.info;
    using large = new c.Linear({ inFeatures: 2048, outFeatures: 2048 });
    expect(b.info.memoryBytes).toBeGreaterThan(memoryBytes);
    b.dispose();
    expect(large.disposed).toBe(false);
    expect(model.disposed).toBe(true);
    expect(layer.disposed).toBe(true);
    await expect(model.embed('the fox')).rejects.toThrow(disposed);
    expect(() => layer.forward([1])).toThrow(disposed);
    c.dispose();
    expect(large.disposed).toBe(true);
    using fresh = await load(options);
    expect(fresh.info.memoryBytes).toBeLessThanOrEqual(memoryBytes);
  });

  it('frees what a caller made when it disposes, beside others', async () => {
    const options = { build: 'simd128', wasm: new Uint8Array(bytes) } as const;
    using kept = await load(options);
    let before = 0;
    for (let i = 0; i < 20; i++) {
      const heed = await load(options);
      // Neither the layer nor the model is disposed of explicitly.
      new heed.Linear({ inFeatures: 1024, outFeatures: 1024 });
      await heed.fromPretrained(tinyModel());
      heed.dispose();
      if (i === 2) before = kept.info.memoryBytes;
    }
    expect(kept.info.memoryBytes).toBe(before);
  });

  it('lets one caller dispose while another still loads, and a failed call spoils no call after it', async () => {
    const options = { build: 'simd128', wasm: new Uint8Array(bytes) } as const;
    const first = load(options).then((heed) => heed.dispose());
    using second = await load(options);
    await first;
    expect(second.softmax([1]).toArray()).toEqual([1]);

    let fails = true;
    vi.spyOn(WebAssembly, 'compile').mockImplementation((source) =>
      fails ? Promise.reject(new Error('busy')) : Promise.resolve(new WebAssembly.Module(source)),
    );
    const flaky = { build: 'simd128', wasm: new Uint8Array(bytes) } as const;
    const again = load(flaky).catch(() => {
      fails = false;
      return load(flaky); // at once, before the other caller receives the failure
    });
    await expect(load(flaky)).rejects.toMatchObject({ code: 'LOAD_FAILED' });
    using heed = await again;
    expect(heed.softmax([1]).toArray()).toEqual([1]);
  });

  it('refuses a model that was loaded while its caller disposed', async () => {
    const options = { build: 'simd128', wasm: new Uint8Array(bytes) } as const;
    using kept = await load(options);
    const heed = await load(options);
    const loading = heed.fromPretrained(tinyModel());
    heed.dispose();
    await expect(loading).rejects.toMatchObject({ code: 'DISPOSED' });
    expect(kept.softmax([1]).toArray()).toEqual([1]);
  });

  it('counts what was forgotten without dispose(), too', async () => {
    const options = { build: 'simd128', wasm: new Uint8Array(bytes) } as const;
    const forget = async () => {
      const heed = await load(options);
      return new heed.Linear({ inFeatures: 2048, outFeatures: 2048 }).parameterCount;
    };
    await forget();
    const shared = async () => {
      (globalThis as { gc?: () => void }).gc!();
      using heed = await load(options);
      return heed.info.memoryBytes;
    };
    await expect.poll(shared, { timeout: 20_000 }).toBeLessThan(2 ** 24);
  });

  it('frees what a pipeline held, and no more', async () => {
    using kept = await load();
    const pipe = await pipeline('feature-extraction', tinyModel());
    const other = await pipeline('feature-extraction', tinyModel());
    await pipe.dispose();
    await pipe.dispose();
    expect(pipe.model.disposed).toBe(true);
    await expect(pipe('a')).rejects.toMatchObject({ code: 'DISPOSED' });
    expect((await other('a')).dims).toEqual([1, 3, 24]);
    await other.dispose();
    expect(kept.softmax([1]).toArray()).toEqual([1]);
  });

  it('takes a URL, its string, a path, bytes, a response and a module', async () => {
    await works({ wasm: file });
    await works({ wasm: file.href });
    await works({ wasm: fileURLToPath(file) });
    await works({ wasm: `${base}/heed.wasm` });
    await works({ wasm: new URL(`${base}/heed.wasm`) });
    await works({ wasm: bytes });
    await works({ wasm: new Uint8Array(bytes).buffer });
    await works({ wasm: new DataView(new Uint8Array(bytes).buffer) });
    await works({ wasm: await fetch(`${base}/heed.wasm`) });
    await works({ wasm: await WebAssembly.compile(bytes) });
  });

  it('copies the bytes before it waits', async () => {
    const wasm = new Uint8Array(bytes);
    const loading = load({ build: 'simd128', wasm });
    wasm.fill(0);
    (await loading).dispose();
  });

  it('has types for the sources that it takes', () => {
    const sources = (module: WebAssembly.Module, response: Response, buffer: ArrayBuffer): LoadOptions[] => [
      { wasm: module },
      { wasm: response },
      { wasm: buffer },
      { wasm: new Uint8Array(buffer) },
      { wasm: new URL('heed.wasm', 'http://localhost') },
      { wasm: 'heed.wasm' },
      // @ts-expect-error a number
      { wasm: 3 },
      // @ts-expect-error another object
      { wasm: { path: 'heed.wasm' } },
      // @ts-expect-error a Map
      { wasm: new Map() },
    ];
    expect(sources).toBeTypeOf('function');
  });

  it('a failed call does not spoil the next', async () => {
    const wasm = `${base}/page`;
    await expect(load({ wasm })).rejects.toThrow(HeedError);
    await expect(load({ wasm })).rejects.toThrow(HeedError);
    const heed = await load();
    expect(heed.softmax([1]).toArray()).toEqual([1]);
  });

  it('gives a fresh instance after dispose()', async () => {
    const wasm = new Uint8Array(bytes);
    const first = await load({ build: 'simd128', wasm });
    const layer = new first.Linear({ inFeatures: 1, outFeatures: 1 });
    first.dispose();
    first.dispose();
    const disposed = expect.objectContaining({ name: 'HeedError', code: 'DISPOSED' });
    expect(() => first.softmax([1])).toThrow(disposed);
    expect(() => first.info).toThrow(disposed);
    expect(() => new first.Linear({ inFeatures: 1, outFeatures: 1 })).toThrow(disposed);
    expect(() => layer.forward([1])).toThrow(disposed);
    layer.dispose();
    const second = await load({ build: 'simd128', wasm });
    expect(second).not.toBe(first);
    expect(second.softmax([1]).toArray()).toEqual([1]);
    second.dispose();
  });

  it('refuses what is no module, and says what it got', async () => {
    const cases: [LoadOptions['wasm'], RegExp][] = [
      [
        `${base}/page`,
        /expected heed's WebAssembly module, got an HTML page from http:.*\/page\. Servers may send a page/,
      ],
      [`${base}/missing`, /expected heed's module from http:.*\/missing, got status 404\. Give the URL/],
      [`${base}/broken`, /expected the whole module from http:.*\/broken, got a part of it/],
      [
        'http://127.0.0.1:1/heed.wasm',
        /expected heed's module at http:\/\/127\.0\.0\.1:1\/heed\.wasm, got no answer .*\. Give the URL/,
      ],
      ['/no/such/heed.wasm', /expected heed's module at file:.*, got no answer .*ENOENT/],
      [await fetch(`${base}/page`), /expected heed's WebAssembly module, got an HTML page from http:.*\/page/],
      [new Uint8Array(0), /expected .*, got no bytes in the given bytes/],
      [bytes.subarray(0, 1000), /expected heed's own module, got a broken or truncated module in the given bytes/],
      [Uint8Array.of(1, 2, 3, 4), /expected .*, got 4 bytes that are not WebAssembly/],
      [Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0), /cannot be instantiated/],
      [await WebAssembly.compile(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0)), /cannot be instantiated/],
      // Imports a function that heed does not provide.
      [
        Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 2, 7, 1, 1, 0x78, 1, 0x79, 0, 0),
        /cannot be instantiated/,
      ],
    ];
    for (const [wasm, message] of cases) {
      const error = await load({ build: 'simd128', wasm }).catch((error: HeedError) => error as HeedError);
      expect(error).toMatchObject({ name: 'HeedError', code: 'LOAD_FAILED', message: expect.stringMatching(message) });
      // The engine's message is in the cause.
      if (String(message).includes('start')) expect((error as HeedError).message).not.toMatch(/Error|undefined/);
    }
  });

  it.each([
    [{ wasm: 3 }, /load\.wasm: expected .*, got 3/],
    [{ wasm: {} }, /load\.wasm: expected a URL, .*, got an object/],
    [{ wasm: '' }, /load\.wasm: expected .*, got ''/],
    [{ build: 'fast' }, /load\.build: expected .*, got 'fast'/],
    [{ bulid: 'auto' }, /expected 'build' .*, got the unknown option 'bulid'/],
    [7, /load: expected .*, got 7/],
  ])('refuses %o', async (options, message) => {
    await expect(load(options as LoadOptions)).rejects.toThrow(
      expect.objectContaining({ name: 'HeedError', code: 'INVALID_ARGUMENT', message: expect.stringMatching(message) }),
    );
  });
});
