import { createHash } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { type LoadProgress, load } from 'heed';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { Sha256 } from '../../../web/src/io/sha256.js';
import { bytesOf, expectClose, fixture, fixtures } from './fixtures.js';

const heed = await load();
const files = bytesOf(`${fixtures}bert`);
const { expected, input } = fixture('bert');

type Answer = (request: IncomingMessage, response: ServerResponse, name: string) => void;
let answer: Answer;
const asked: string[] = [];
const server = createServer((request, response) => {
  const name = decodeURIComponent(request.url!.split('?')[0]!.replace(/^\/model\//, ''));
  asked.push(name);
  // Otherwise a connection broken by one test could be reused by the next.
  response.shouldKeepAlive = false;
  answer(request, response, name);
});
let base: string;
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
});
afterAll(() => {
  server.closeAllConnections(); // left over from a failed test
  server.close();
});

const serve: Answer = (_, response, name) => {
  const bytes = files[name];
  if (!bytes) return void response.writeHead(404, { 'content-type': 'text/plain' }).end('nothing here');
  response
    .writeHead(200, { 'content-length': bytes.length, 'content-type': 'application/octet-stream', etag: '"1"' })
    .end(bytes);
};
const page = '<!DOCTYPE html><html><body>app</body></html>';

const progress = new EventEmitter();
const onProgress = ({ file: { name, done } }: LoadProgress) => progress.emit(name.split('/').at(-1)!, done);
/**
 * Sends a file's bytes up to `end`, and breaks the connection once they have been read, because unread bytes would be
 * lost.
 */
function sendAndBreak(response: ServerResponse, name: string, from: number, end: number): void {
  response.write(files[name]!.subarray(from, end));
  progress.on(name, (loaded: number) => {
    if (loaded >= end) response.destroy();
  });
}

async function expectRight(source: Parameters<typeof heed.fromPretrained>[0], options = {}): Promise<void> {
  using model = await heed.fromPretrained(source, options);
  expectClose(await model.embed(input, { normalize: true }), expected.get('mean'));
}

describe('a folder URL', () => {
  test('with and without a slash, as string and as URL', async () => {
    answer = serve;
    await expectRight(`${base}model/`);
    await expectRight(`${base}model`);
    await expectRight(new URL(`${base}model`));
  });

  test('asks for nothing outside the folder', () => {
    expect(asked.every((name) => !name.startsWith('/'))).toBe(true);
  });

  test('reports progress with a total that is known at once', async () => {
    answer = serve;
    const seen: LoadProgress[] = [];
    await expectRight(`${base}model`, { onProgress: (p: LoadProgress) => seen.push(p) });
    const total = files['config.json']!.length + files['model.safetensors']!.length;
    expect(new Set(seen.map((p) => p.total))).toEqual(new Set([total]));
    expect(seen.at(-1)!.done).toBe(total);
    expect(seen.map((p) => p.done)).toEqual(seen.map((p) => p.done).sort((a, b) => a - b));
  });

  test('on a server that answers missing files with its page', async () => {
    answer = (request, response, name) =>
      files[name] ? serve(request, response, name) : response.writeHead(200, { 'content-type': 'text/html' }).end(page);
    await expectRight(`${base}model`);
  });

  test('that is a page', async () => {
    answer = (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(page);
    await expect(heed.fromPretrained(`${base}model`)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringMatching(/model\/config\.json.*HTML page/),
    });
  });

  test('whose weights are a page that claims to be bytes', async () => {
    answer = (request, response, name) =>
      name === 'model.safetensors'
        ? response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(page.repeat(100))
        : serve(request, response, name);
    await expect(heed.fromPretrained(`${base}model`)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('HTML page'),
    });
  });

  test('that is not there', async () => {
    answer = (_, response) => response.writeHead(404).end();
    await expect(heed.fromPretrained(`${base}model`)).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('404'),
    });
  });

  test('on a server that fails', async () => {
    answer = (_, response) => response.writeHead(500).end();
    await expect(heed.fromPretrained(`${base}model`)).rejects.toMatchObject({
      code: 'NETWORK',
      message: expect.stringContaining('500'),
    });
    await expect(heed.fromPretrained('http://127.0.0.1:1/model')).rejects.toMatchObject({ code: 'NETWORK' });
  });

  test('whose connection breaks is taken up where it broke', async () => {
    let broken = 0;
    answer = (request, response, name) => {
      const bytes = files[name];
      if (name !== 'model.safetensors' || !bytes) return serve(request, response, name);
      const from = Number(/bytes=(\d+)-/.exec(request.headers.range ?? '')?.[1] ?? 0);
      const headers = {
        'content-length': bytes.length - from,
        etag: '"1"',
        'content-range': `bytes ${from}-${bytes.length - 1}/${bytes.length}`,
      };
      response.writeHead(from > 0 ? 206 : 200, headers);
      if (broken++ < 2) sendAndBreak(response, name, from, from + 20_000);
      else response.end(bytes.subarray(from));
    };
    await expectRight(`${base}model`, { onProgress });
    expect(broken).toBe(3);
  });

  test('whose connection breaks for good', async () => {
    answer = (request, response, name) => {
      if (name !== 'model.safetensors') return serve(request, response, name);
      response.writeHead(200, { 'content-length': files[name]!.length });
      sendAndBreak(response, name, 0, 30_000);
    };
    await expect(heed.fromPretrained(`${base}model`, { onProgress })).rejects.toMatchObject({
      code: 'NETWORK',
      message: expect.stringMatching(/expected \d+ bytes, got 30000 /),
    });
    answer = serve;
    await expectRight(`${base}model`);
  });

  test('whose file changed while the connection was broken', async () => {
    let answers = 0;
    answer = (request, response, name) => {
      if (name !== 'model.safetensors') return serve(request, response, name);
      if (answers++ > 0) return void response.writeHead(200, { etag: '"2"' }).end(files[name]);
      response.writeHead(200, { 'content-length': files[name]!.length, etag: '"1"' });
      sendAndBreak(response, name, 0, 30_000);
    };
    await expect(heed.fromPretrained(`${base}model`, { onProgress })).rejects.toMatchObject({
      code: 'NETWORK',
      message: expect.stringMatching(/expected \d+ bytes, got 30000 \(and status 200 for the rest\)/),
    });
    expect(answers).toBe(2);
  });

  test('whose weights go on after their end', async () => {
    answer = (request, response, name) =>
      name === 'model.safetensors'
        ? void response.writeHead(200).end(Buffer.concat([files[name]!, new Uint8Array(3)])) // with a length that is not announced
        : serve(request, response, name);
    await expect(heed.fromPretrained(`${base}model`)).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining('expected the end of the file, got bytes after the last tensor'),
    });
  });

  test.each([
    [
      'model.safetensors',
      -100,
      'INVALID_FILE',
      /expected at most the \d+ bytes that Content-Length names, got at least \d+/,
    ],
    ['config.json', 100, 'NETWORK', /expected \d+ bytes, got \d+ \(the connection ended early\)/],
  ])('whose service worker miscounts %s by %i bytes', async (miscounted, excess, code, message) => {
    vi.stubGlobal('fetch', async (url: URL) => {
      const bytes = files[url.pathname.split('/').at(-1)!];
      if (!bytes || url.pathname.includes('Pooling')) return new Response('', { status: 404 });
      const length = bytes.length + (url.pathname.endsWith(miscounted) ? excess : 0);
      return new Response(bytes.slice(), { headers: { 'content-length': String(length) } });
    });
    try {
      await expect(heed.fromPretrained(`${base}model`)).rejects.toMatchObject({
        code,
        message: expect.stringMatching(message),
      });
    } finally {
      vi.unstubAllGlobals();
    }
  });

  test('stops when the signal fires', async () => {
    let closed: Promise<unknown> | undefined;
    answer = (request, response, name) => {
      if (name !== 'model.safetensors') return serve(request, response, name);
      closed = once(response, 'close');
      response.writeHead(200).write(files[name]!.subarray(0, 1000));
    };
    const stop = new AbortController();
    const read = ({ file }: LoadProgress) =>
      file.name.endsWith('model.safetensors') && stop.abort(new Error('never mind'));
    await expect(heed.fromPretrained(`${base}model`, { signal: stop.signal, onProgress: read })).rejects.toThrow(
      'never mind',
    );
    await closed; // by the loader, which needs no more bytes
    await expect(heed.fromPretrained(`${base}model`, { signal: AbortSignal.abort(new Error('no')) })).rejects.toThrow(
      'no',
    );
  });

  test('of a hub that the caller names', async () => {
    answer = (request, response, name) => serve(request, response, name.replace('/org/name/resolve/main/', ''));
    await expectRight('org/name', { remoteHost: base.slice(0, -1) });
    expect(asked.at(-1)).toContain('/org/name/resolve/main/');
  });
});

describe('integrity', () => {
  const hash = (name: string) => createHash('sha256').update(files[name]!);
  const integrity = {
    'config.json': `sha256-${hash('config.json').digest('hex')}`,
    'model.safetensors': `sha256-${hash('model.safetensors').digest('base64')}`,
  };
  /** The weights with one bit of the last tensor flipped, which only the digest can detect. */
  const altered = files['model.safetensors']!.slice();
  altered[altered.length - 4]! ^= 1;

  test('lets pass what is as it should be, from everywhere', async () => {
    answer = serve;
    await expectRight(files, { integrity });
    await expectRight(`${base}model`, { integrity });
    await expectRight(`${fixtures}bert`, { integrity });
    await expectRight(`${base}model`, { integrity, worker: true });
  });

  test('refuses a file that differs, and keeps nothing of it', async () => {
    const cache = mkdtempSync(join(tmpdir(), 'heed-integrity-'));
    const wrong: Answer = (request, response, name) =>
      name === 'model.safetensors'
        ? void response.writeHead(200, { 'content-length': altered.length }).end(altered)
        : serve(request, response, name);
    const expectRefused = async (source: Parameters<typeof expectRight>[0], options = {}) =>
      expect(heed.fromPretrained(source, { integrity, ...options })).rejects.toMatchObject({
        name: 'HeedError',
        code: 'INVALID_FILE',
        message: expect.stringMatching(
          /model\.safetensors: expected SHA-256 [\da-f]{64}, as `integrity` says, got [\da-f]{64}/,
        ),
      });
    await expectRefused({ ...files, 'model.safetensors': altered });
    answer = wrong;
    await expectRefused(`${base}model`, { cache });
    expect(readdirSync(cache)).toEqual([]);
    await expectRefused(`${base}model`, { worker: true });
    // A file cached without a digest is not used by a load with one.
    (await heed.fromPretrained(`${base}model`, { cache })).dispose();
    answer = serve;
    await expectRight(`${base}model`, { cache, integrity });
    answer = (_, response) => response.destroy();
    await expectRight(`${base}model`, { cache, integrity });
    // If the cached file is damaged, one load fails and the next fetches it again.
    const largest = () => readdirSync(cache).filter((name) => statSync(join(cache, name)).size === altered.length);
    for (const name of largest()) writeFileSync(join(cache, name), altered);
    await expectRefused(`${base}model`, { cache });
    answer = serve;
    await expectRight(`${base}model`, { cache, integrity });
    rmSync(cache, { recursive: true });
  });

  test('is a mistake where it names no file, or no digest', async () => {
    for (const [wrong, message] of [
      [{ 'model.safetensor': integrity['model.safetensors'] }, "'model.safetensor'"],
      [
        { 'config.json': 'md5-abc' },
        "integrity['config.json']: expected 'sha256-' and the digest in 44 characters of base64 or 64 of hex, got 'md5-abc'",
      ],
      [{ 'config.json': 3 }, "integrity['config.json']"],
      ['sha256-abc', 'integrity'],
    ] as const)
      await expect(heed.fromPretrained(files, { integrity: wrong } as object)).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: expect.stringContaining(message),
      });
  });

  test('is computed as the platform does', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 8 }), (chunks) => {
        const [own, platform] = [new Sha256(), createHash('sha256')];
        for (const chunk of chunks) {
          own.update(chunk);
          platform.update(chunk);
        }
        expect(own.hex()).toBe(platform.digest('hex'));
      }),
      { numRuns: 500 },
    );
  });
});

test('options in the place of the source are recognized', async () => {
  const options = { dtype: 'q8' } as unknown as Record<string, Uint8Array>;
  await expect(heed.fromPretrained(options)).rejects.toThrow(
    "source: expected 'config.json' among its files, got 'dtype'. Options are the second argument; undefined as the first one is the bundled model",
  );
  await expect(heed.fromPretrained({ 'other.json': '{}' })).rejects.toThrow(/got 'other\.json'$/);
});
