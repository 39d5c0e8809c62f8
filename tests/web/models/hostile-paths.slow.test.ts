/**
 * Names of files that a model's files contain: none leads out of the model's folder, on a server or on disk, and a token
 * is sent with no other request.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, resolve, sep } from 'node:path';
import { HeedError, load, loadTokenizer } from 'heed';
import { load as loadTraining } from 'heed/train';
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { onnxFile, tensorsOf } from './onnx-writer.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const json = (value: unknown) => JSON.stringify(value);
type Files = Record<string, Uint8Array | string>;
const tiny = tinyModel();
const { 'model.safetensors': weights, ...others } = tiny as Record<string, Uint8Array>;
const tensors = tensorsOf(weights!);
const vectorOf = async (source: string | Files, options: object = {}) => {
  using model = await heed.fromPretrained(source, options);
  return (await model.embed('the quick fox')).toArray();
};
const expected = await vectorOf(tiny);

/** Everything is in this folder: model, which is the model's, and secret, which nobody may read. */
const root = mkdtempSync(join(tmpdir(), 'heed-paths-'));
const folder = join(root, 'a/b/model');
function write(path: string, content: Uint8Array | string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}
for (const [name, content] of Object.entries(tiny)) write(join(root, 'a/secret', name), content);
write(join(root, 'a/secret/data'), new Uint8Array(1 << 20));

/** All requests to any of the hosts: address, path as it was sent, and token. */
let requests: { host: string; path: string; token: string | undefined }[] = [];
async function openHost() {
  const server = createServer((request, response) => {
    const { host = '', authorization } = request.headers;
    requests.push({ host, path: request.url!, token: authorization });
    response.shouldKeepAlive = false;
    let content: Uint8Array | undefined;
    try {
      // Decodes more than it should, as some proxies do, so that an escape would succeed.
      content = readFileSync(join(root, decodeURIComponent(decodeURIComponent(request.url!.split('?')[0]!))));
    } catch {}
    try {
      content ??= readFileSync(join(root, decodeURIComponent(request.url!.split('?')[0]!)));
    } catch {}
    if (!content) return void response.writeHead(404, { 'content-type': 'text/plain' }).end('none');
    response.writeHead(200, { 'content-length': content.length, etag: '"1"' }).end(content);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}
const [host, elsewhere] = [await openHost(), await openHost()];
const address = `http://${host}/a/b/model/`;

/** Names that lead to secret, to another host or to another path if they are resolved as URLs or as paths. */
const up = ['..', '%2e%2e', '.%2E', '.\t.', '\n..', '..\r', '%252e%252e', '.%09.', '%2525252e.', '.. ', '...'];
const hostile = [
  ...up.map((part) => `${part}/${part}/secret`),
  'x/../../../secret',
  'x/%2e./.%2e/%2e%2e/secret',
  '..\\..\\secret',
  '..%5c..%5csecret',
  '..%2f..%2fsecret',
  'x%2f..%2f..%2f..%2fsecret',
  'x/%00/../../../secret',
  '/a/secret',
  '\\a\\secret',
  `//${elsewhere}/a/secret`,
  `\\\\${elsewhere}\\a\\secret`,
  `/\t/${elsewhere}/a/secret`,
  `\t//${elsewhere}/a/secret`,
  `http://${elsewhere}/a/secret`,
  `http:${elsewhere}/a/secret`,
  `ht\ntp://${elsewhere}/a/secret`,
  ` http://${elsewhere}/a/secret`,
  `http:\\\\${elsewhere}\\a\\secret`,
  `file://${join(root, 'a/secret')}`,
  'C:/a/secret',
  'C:secret',
  'a:b',
  './secret',
  'x//secret',
  '.',
  '..',
  '%2e',
  '~/../../../secret',
  'x\0/../../../secret',
  '\uD800',
  `${'../'.repeat(3000)}secret`,
  `%${'25'.repeat(3000)}2e`,
  '?/../../secret',
  '#/../../secret',
  '..?',
  '..#',
];

/** A folder's files for each place with a name of another file. Those that are not read make no request. */
const places: Record<string, (name: string) => Files> = {
  'the module of the model': (path) => ({ 'modules.json': json([{ type: 'x.Transformer', path }]) }),
  'the module of the pooling': (path) => ({
    ...tiny,
    'modules.json': json([
      { type: 'x.Transformer', path: '' },
      { type: 'x.Pooling', path },
    ]),
  }),
  'a static embedding': (path) => ({ 'modules.json': json([{ type: 'x.StaticEmbedding', path }]) }),
  'a shard': (name) => ({
    ...others,
    'model.safetensors.index.json': json({
      weight_map: { x: `${name}/model.safetensors`, y: `${name}.safetensors`, z: name },
    }),
  }),
  'external data of an ONNX file': (name) => ({ ...others, 'model.onnx': external(name) }),
  'external data of an ONNX file in a folder': (name) => ({ ...others, 'onnx/model.onnx': external(`${name}/data`) }),
};

/** An ONNX file whose larger tensors are in another file. */
function external(location: string): Uint8Array {
  let at = 0;
  return onnxFile(
    tensors.map(({ name, dims, raw }) => {
      if (raw!.length < 100) return { name, dims, raw: raw! };
      at += raw!.length;
      return { name, dims, external: { location, offset: `${at - raw!.length}`, length: `${raw!.length}` } };
    }),
  );
}

/** The paths that the file system was asked for. */
let read: string[] = [];
beforeEach(() => {
  requests = [];
  read = [];
  const files = process.getBuiltinModule('node:fs').promises;
  for (const name of ['stat', 'open', 'readdir'] as const) {
    const real = files[name] as (...given: unknown[]) => unknown;
    vi.spyOn(files, name as 'stat').mockImplementation(((...given: unknown[]) => {
      read.push(resolve(String(given[0])));
      return real.apply(files, given);
    }) as never);
  }
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true, force: true });
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** What a path becomes once all its escapes have been decoded. */
function decoded(path: string): string {
  for (let each = path; ; ) {
    const next = each.replace(/%([\da-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
    if (next === each) return new URL(each.replaceAll('\\', '/'), 'http://x/').pathname;
    each = next;
  }
}

function expectNothingOutside(): void {
  for (const { host: to, path, token } of requests) {
    expect(to).toBe(host);
    expect(path.startsWith('/a/b/model/'), path).toBe(true);
    expect(decoded(path).startsWith('/a/b/model/'), path).toBe(true);
    expect(token).toBe('Bearer hf_secret');
  }
  const own = read.filter((path) => !path.includes(`${sep}node_modules${sep}`) && !path.startsWith(process.cwd()));
  for (const path of own) expect(`${path}${sep}`.startsWith(`${folder}${sep}`), path).toBe(true);
}

/** Waits for the call, which may succeed or fail with an error of heed. */
async function attempt(body: () => Promise<unknown>): Promise<void> {
  try {
    const made = (await body()) as { dispose?(): void } | null;
    made?.dispose?.();
  } catch (error) {
    expect(error, String((error as Error).stack)).toBeInstanceOf(HeedError);
    expect((error as HeedError).code).toMatch(/^(INVALID_FILE|INVALID_ARGUMENT|NOT_FOUND|UNSUPPORTED|SHAPE_MISMATCH)$/);
  }
}

describe.each(Object.keys(places))('%s', (place) => {
  test.each(hostile.map((name) => [json(name.slice(0, 60)), name]))('%s', async (_, name) => {
    const files = places[place]!(name);
    for (const [path, content] of Object.entries(files)) write(join(folder, path), content);
    const calls: ((source: string, options: object) => Promise<unknown>)[] = [
      (source, options) => heed.fromPretrained(source, options),
      ...(place.includes('module')
        ? [
            (source: string, options: object) => loadTokenizer(source, options),
            (source: string, options: object) => heed.quantize(source, options),
          ]
        : [(source: string, options: object) => heed.inspect(source, options)]),
    ];
    for (const call of calls) {
      await attempt(() => call(address, { token: 'hf_secret' }));
      await attempt(() => call(folder, {}));
    }
    expect(requests.length).toBeGreaterThan(2);
    expectNothingOutside();
  });
});

test.each(hostile.map((name) => [json(name.slice(0, 60)), name]))('the option `weights`: %s', async (_, name) => {
  for (const [path, content] of Object.entries(tiny)) write(join(folder, path), content);
  for (const file of [`${name}/model.safetensors`, `${name}/model.onnx`, name]) {
    await attempt(() => heed.fromPretrained(address, { token: 'hf_secret', weights: file }));
    await attempt(() => heed.fromPretrained(folder, { weights: file }));
  }
  expectNothingOutside();
});

test('paged embeddings and the saving of trained models', async () => {
  const training = await loadTraining();
  for (const name of hostile.slice(0, 8)) {
    const files = places['the module of the pooling']!(name);
    for (const [path, content] of Object.entries(files)) write(join(folder, path), content);
    await attempt(() => heed.fromPretrained(address, { token: 'hf_secret', embeddings: 'paged' }));
    await attempt(async () => {
      using model = await training.fromPretrained(address, { token: 'hf_secret' });
      await model.save();
    });
  }
  expectNothingOutside();
});

test('names in a packed file and in a record do not lead out of a folder that is written', async () => {
  const out = join(root, 'a/b/out/model');
  for (const name of ['x\\..\\escaped.json', '/escaped.json', 'x//escaped.json', 'x%2f..%2f..%2fescaped.json']) {
    const source = { ...tiny, [name]: '{}' } as never;
    await expect(heed.quantize(source, { out })).rejects.toMatchObject({ name: 'HeedError' });
    await expect(heed.quantize(source)).rejects.toMatchObject({ name: 'HeedError' });
    await expect(heed.prune(source, { out, keep: ['a'] })).rejects.toMatchObject({ name: 'HeedError' });
  }
  const { report } = await heed.quantize({ ...tiny, 'x/../../escaped.json': '{}' }, { out });
  expect(report.leftOut).toContain('x/../../escaped.json'); // as hidden files
  expect(readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => /escaped/.test(name))).toEqual([]);
});

test.each(['..', '.', '', '../../..', '%2e%2e', 'a/../..', '..\t'])('the revision %j', async (revision) => {
  const hub = { remoteHost: `http://${host}/`, token: 'hf_secret' };
  await expect(heed.fromPretrained('a/b', { ...hub, revision })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  expect(requests).toEqual([]);
});

test('a token is sent to no URL of a record, and no other folder of the host', async () => {
  for (const [path, content] of Object.entries(tiny)) write(join(folder, path), content);
  const urls = Object.fromEntries(
    Object.keys(tiny).map((name) => [name, new URL(`http://${elsewhere}/a/secret/${name}`)]),
  );
  expect(await vectorOf(urls as never, { token: 'hf_secret' })).toEqual(expected);
  expect(new Set(requests.map(({ token }) => token))).toEqual(new Set([undefined]));
});

describe('names with characters that have a meaning in URLs', () => {
  const names = [
    'a b',
    'ä',
    '100%',
    '%41',
    'a#b',
    'a?b=c',
    'a+b&c',
    "it's (1)",
    'a..b',
    '.x',
    '..x',
    'ab:c',
    '@',
    '~',
    '$&',
  ];

  test.each(names)('%s', async (name) => {
    const files: Files = {
      ...others,
      'model.onnx': external(`${name}/${name}.bin`),
      [`${name}/${name}.onnx`]: onnxFile(tensors),
      [`${name}/${name}.safetensors`]: weights!,
      [`${name}/${name}.bin`]: concatenated(),
    };
    for (const [path, content] of Object.entries(files)) write(join(folder, path), content);
    for (const source of [folder, address])
      for (const file of ['model.onnx', `${name}/${name}.onnx`, `${name}/${name}.safetensors`])
        expect(await vectorOf(source, { weights: file, token: 'hf_secret' })).toEqual(expected);
    expect(await vectorOf(files, { weights: 'model.onnx' })).toEqual(expected);
    expectNothingOutside();
    const { files: copied } = await heed.quantize({ ...tiny, [`x/${name}.md`]: 'x' });
    if (!name.startsWith('.')) expect(Object.keys(copied)).toContain(`x/${name}.md`);
  });

  function concatenated(): Uint8Array {
    const parts = tensors.map(({ raw }) => raw!).filter(({ length }) => length >= 100);
    return Uint8Array.from(parts.flatMap((part) => [...part]));
  }
});
