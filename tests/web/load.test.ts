import { readFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { HeedError, type LoadOptions, load } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const file = new URL('../../dist/heed-simd128.wasm', import.meta.url);
let bytes: Uint8Array<ArrayBuffer>;
let server: Server;
let base: string;

beforeAll(async () => {
  bytes = new Uint8Array(await readFile(file));
  server = createServer((request, response) => {
    if (request.url === '/heed.wasm')
      response.end(bytes); // without a content type, as simple servers answer
    else if (request.url === '/page') response.end('\n<!doctype html><title>Home</title>');
    else if (request.url === '/broken') {
      response.writeHead(200, { 'content-length': '1000' });
      response.write('abc');
      setTimeout(() => response.destroy(), 20);
    } else response.writeHead(404).end('nothing here');
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => server.close());

/** An instance of its own, that works. */
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

  it('shares one instance among calls', async () => {
    const [a, b] = await Promise.all([load(), load({})]);
    expect(a).toBe(b);
    expect(await load({ build: 'auto' })).toBe(a);
    const wasm = new Uint8Array(bytes);
    const [c, d] = await Promise.all([load({ build: 'simd128', wasm }), load({ build: 'simd128', wasm })]);
    expect(c).toBe(d);
    expect(c).not.toBe(a);
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
    queueMicrotask(() => setTimeout(() => wasm.fill(0)));
    await (await loading).dispose();
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
        /got an HTML page from http:.*\/page; expected heed's WebAssembly module; the server answers with a page/,
      ],
      [`${base}/missing`, /got status 404 from http:.*\/missing/],
      [`${base}/broken`, /\/broken broke off/],
      ['http://127.0.0.1:1/heed.wasm', /got no answer from http:\/\/127\.0\.0\.1:1\/heed\.wasm/],
      ['/no/such/heed.wasm', /got no answer from file:.*ENOENT/],
      [await fetch(`${base}/page`), /got an HTML page from http:.*\/page/],
      [new Uint8Array(0), /got no bytes in the given bytes/],
      [bytes.subarray(0, 1000), /got a broken or truncated module in the given bytes/],
      [Uint8Array.of(1, 2, 3, 4), /got 4 bytes that are no WebAssembly/],
      [Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0), /does not start/],
      [await WebAssembly.compile(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0)), /does not start/],
      // Imports a function that heed does not give.
      [
        Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 4, 1, 0x60, 0, 0, 2, 7, 1, 1, 0x78, 1, 0x79, 0, 0),
        /does not start/,
      ],
    ];
    for (const [wasm, message] of cases) {
      const error = await load({ build: 'simd128', wasm }).catch((error: HeedError) => error as HeedError);
      expect(error).toMatchObject({ name: 'HeedError', code: 'LOAD_FAILED', message: expect.stringMatching(message) });
      // The engine's own words are the cause.
      if (String(message).includes('start')) expect((error as HeedError).message).not.toMatch(/Error|undefined/);
    }
  });

  it.each([
    [{ wasm: 3 }, /load\.wasm: got 3/],
    [{ wasm: {} }, /wasm: got an object; expected a URL/],
    [{ wasm: '' }, /load\.wasm: got ''/],
    [{ build: 'fast' }, /load\.build: got 'fast'/],
    [{ bulid: 'auto' }, /unknown option 'bulid'; expected 'build'/],
    [7, /load: got 7/],
  ])('refuses %o', async (options, message) => {
    await expect(load(options as LoadOptions)).rejects.toThrow(
      expect.objectContaining({ name: 'HeedError', code: 'INVALID_ARGUMENT', message: expect.stringMatching(message) }),
    );
  });
});
