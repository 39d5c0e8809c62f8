/**
 * Files that commands read and write: encodings, formats, locations of texts, indexes, and cached models from a hub.
 */
import * as fs from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { load } from 'heed';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tinyModel } from '../models/tiny.js';
import { makeFolder, run, start } from './support.js';

let folder: string;
const path = (name: string) => join(folder, name);
const heed = (args: string[], input = '') => run([...args, '--model', folder], { input });
const lines = (out: string) =>
  out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
const places = (out: string) => lines(out).map(({ embedding: _, labels: _labels, score: _score, ...place }) => place);

beforeAll(() => {
  folder = makeFolder();
  fs.writeFileSync(path('texts.txt'), 'the fox\na quick x\n');
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

describe('results say where their texts are from', () => {
  test.each<[string, string, string[], Record<string, unknown>[]]>([
    ['a.txt', 'the fox\n\nx\n', [], [{ line: 1 }, { line: 2 }, { line: 3 }]],
    [
      'b.jsonl',
      '{"text":"the fox","id":7}\n\n{"text":"x"}\n',
      [],
      [
        { line: 1, id: 7 },
        { line: 3 }, // empty lines count
      ],
    ],
    ['c.json', '["the fox",{"text":"x","id":"b"}]', [], [{ index: 0 }, { index: 1, id: 'b' }]],
    [
      'd.csv',
      'key,text\nk1,"the\nfox"\nk2,x\n',
      ['--id', 'key'],
      [
        { line: 2, id: 'k1' },
        { line: 4, id: 'k2' }, // the previous text has two lines
      ],
    ],
  ])('%s', async (name, content, options, expected) => {
    fs.writeFileSync(path(name), content);
    for (const command of [['embed'], ['classify', '--json'], ['search', 'x', '--json']]) {
      const { out, err, code } = await heed([...command, path(name), ...options]);
      expect([code, err]).toEqual([0, '']);
      const found = places(out).map(({ text: _, ...place }) => place);
      const byLine = (a: Record<string, unknown>, b: Record<string, unknown>) =>
        Number(a.line ?? a.index) - Number(b.line ?? b.index);
      expect(found.sort(byLine)).toEqual(expected.map((place) => ({ file: path(name), ...place })));
    }
  });

  test('of standard input the line', async () => {
    expect(places((await heed(['embed'], 'the fox\nx\n')).out)).toEqual([
      { text: 'the fox', line: 1 },
      { text: 'x', line: 2 },
    ]);
  });
});

describe('formats', () => {
  test('columns are separated by what --delimiter says', async () => {
    fs.writeFileSync(path('semicolons.csv'), 'n;text\n1;"the; fox"\n');
    const refused = await heed(['embed', path('semicolons.csv')]);
    expect(refused.err).toMatch(
      /expected a column 'text', got n;text\. Name what separates the columns with --delimiter ';'\n$/,
    );
    for (const args of [['embed'], ['quantize', folder, '--out', path('q'), '--json', '--texts']]) {
      const { out, err, code } = await run([
        ...args,
        path('semicolons.csv'),
        ...(args[0] === 'embed' ? ['--model', folder] : []),
        ...['--delimiter', ';'],
      ]);
      expect([code, err]).toEqual([0, '']);
      if (args[0] === 'embed') expect(places(out)[0]!.text).toBe('the; fox');
    }
    fs.writeFileSync(path('tabs.csv'), 'n\ttext\n1\tthe fox\n');
    expect((await heed(['embed', path('tabs.csv')])).err).toContain('--delimiter tab');
    expect((await heed(['embed', path('tabs.csv'), '--delimiter', 'tab'])).code).toBe(0);
    const long = await heed(['embed', path('tabs.csv'), '--delimiter', '::']);
    expect([long.code, long.err]).toEqual([2, "heed: --delimiter: expected one character, or 'tab', got '::'\n"]);
  });

  test.each<[string, string | Buffer, RegExp]>([
    [
      'latin1.txt',
      Buffer.from('the fox\nd\xe9j\xe0\n', 'latin1'),
      /latin1\.txt: .* got bytes that are not UTF-8\. .*iconv/,
    ],
    ['zip.txt', Buffer.from('PK\x03\x04\x00\x00', 'latin1'), /zip\.txt: expected text in UTF-8, .*, got a binary file/],
    ['utf16.txt', Buffer.from('the fox', 'utf16le'), /utf16\.txt: .* with a byte order mark, got a binary file/],
    ['odd.txt', Buffer.from([0xff, 0xfe, 0x41]), /odd\.txt: .* got bytes that are not UTF-16LE/],
    ['cut.txt', Buffer.from([0x61, 0xc3]), /cut\.txt: .* got bytes that are not UTF-8/],
    ['a.json', '{"text":"the fox"}', /a\.json: expected a JSON array of texts or of objects, got \{"text"/],
    ['b.json', '{"text":"the fox"}\n{"text":"x"}', /b\.json: .* not JSON .*--format jsonl/],
    ['c.json', '["x", 3]', /c\.json\[1\]: expected a text or an object, .*, got 3/],
    ['d.jsonl', '[\n"x"\n]', /d\.jsonl:1: .* not JSON\. Read a JSON array with --format json/],
    ['e.jsonl', '{"text":"x","key":[]}', /e\.jsonl:1: expected a text or a number under 'key', got text, key\. .*--id/],
  ])('%s is refused in one line', async (name, content, message) => {
    fs.writeFileSync(path(name), content);
    const { out, err, code } = await heed(['embed', path(name), ...(name.startsWith('e.') ? ['--id', 'key'] : [])]);
    expect([code, out]).toEqual([1, '']);
    expect(err).toMatch(message);
    expect(err).toMatch(/^heed: [^\n]+\n$/);
  });

  test('a text of a single byte, and a character whose bytes come one by one', async () => {
    expect(places((await heed(['embed'], 'x')).out)).toEqual([{ text: 'x', line: 1 }]);
    const { child, ended } = start(['embed', '--model', folder], { input: null });
    for (const byte of Buffer.from('\uFEFFd\u00e9j\u00e0'))
      await new Promise((done) => child.stdin.write(Buffer.of(byte), done));
    child.stdin.end();
    expect(places((await ended).out)).toEqual([{ text: 'd\u00e9j\u00e0', line: 1 }]);
  });
});

describe('--out', () => {
  test.each([
    ['embed', 'a.csv', '.jsonl, .ndjson, .npy'],
    ['embed', 'a.parquet', '.jsonl, .ndjson, .npy'],
    ['classify', 'a.npy', '.jsonl, .ndjson'],
  ])('%s refuses %s', async (command, name, endings) => {
    const { err, code } = await heed([command, path('texts.txt'), '--out', path(name)]);
    expect([code, err]).toEqual([2, `heed: --out: expected a file that ends in ${endings}, got '${path(name)}'\n`]);
    expect(fs.existsSync(path(name))).toBe(false);
  });

  test('a line says what was written', async () => {
    const out = path('written.npy');
    expect(await heed(['embed', path('texts.txt'), '--out', out])).toEqual({
      ...{ code: 0, err: '' },
      out: `${out}: 2 vectors\n`,
    });
    const quiet = await heed(['--quiet', 'embed', path('texts.txt'), '--out', path('quiet.jsonl')]);
    expect(quiet.out).toBe('');
  });

  test.skipIf(process.platform === 'win32')('folders have the permissions that the umask leaves', async () => {
    fs.writeFileSync(path('few.csv'), 'text,label\nthe fox,a\na x,b\nthe brown fox,a\nquick,b\n');
    const trained = await heed(['train', 'classifier', path('few.csv'), '--out', path('kinds'), '--epochs', '1']);
    expect(trained.err).toBe('');
    expect(trained.out).toMatch(/after 1 epoch, /);
    expect(fs.statSync(path('kinds')).mode & 0o777).toBe(0o777 & ~process.umask());
  });
});

describe('an index', () => {
  test('is one file of any name, in folders that are made, and keeps line breaks and ids', async () => {
    fs.writeFileSync(path('in.jsonl'), '{"text":"the\\nfox","id":9}\n{"text":"a quick x","id":"4"}\n');
    const out = path('new/deep/animals.safetensors');
    const made = await heed(['index', path('in.jsonl'), '--out', out]);
    expect([made.code, made.err]).toEqual([0, '']);
    expect(made.out).toMatch(/animals\.safetensors: 2 texts, 24 dimensions, [\d,]+ bytes\n$/);
    expect(fs.readdirSync(path('new/deep'))).toEqual(['animals.safetensors']);
    const [hit] = lines((await heed(['search', 'a quick x', '--index', out, '--json'])).out);
    expect(hit).toEqual({ text: 'a quick x', score: expect.closeTo(1, 2), id: 4 });
    const bytes = fs.readFileSync(out);
    using runtime = await load();
    for (const source of [out, bytes, new Blob([bytes]), new URL(`file://${out}`), Uint8Array.from(bytes).buffer]) {
      const index = await runtime.TextIndex.load(source);
      expect(index.texts).toEqual(['the\nfox', 'a quick x']);
    }
  });

  test('has texts as ids, and texts are replaced, added and removed', async () => {
    const out = path('pages.safetensors');
    const write = (...pages: object[]) =>
      fs.writeFileSync(path('pages.jsonl'), pages.map((p) => JSON.stringify(p)).join('\n'));
    const index = (...more: string[]) => heed(['index', path('pages.jsonl'), '--id', 'url', '--out', out, ...more]);
    write({ url: '/a', text: 'the fox' }, { url: '/b', text: 'a quick x' }, { url: '7', text: 'a x' });
    expect((await index()).code).toBe(0);
    write({ url: '/b', text: 'the brown fox' }, { url: '/c', text: 'quick' });
    expect((await index()).err).toContain('Replace it with --force, or change it with --update');
    const updated = await index('--update', '--json');
    expect([updated.code, updated.err]).toEqual([0, '']);
    expect(JSON.parse(updated.out)).toMatchObject({ texts: 4, dimensions: 24 });
    const found = await heed(['search', 'the brown fox', '--index', out, '--json', '--top', '1']);
    expect(lines(found.out)).toEqual([{ text: 'the brown fox', score: expect.closeTo(1, 2), id: '/b' }]);
    const removed = await run(['index', '--out', out, '--remove', '/a', '7', '--json']);
    expect([removed.code, removed.err]).toEqual([0, '']);
    using runtime = await load();
    using again = await runtime.TextIndex.load(out);
    expect(again.texts).toEqual(['the brown fox', 'quick']);
    expect([...again.entries()].map(({ id }) => id)).toEqual(['/b', '/c']);
    const before = fs.readFileSync(out);
    expect((await run(['index', '--out', out, '--remove', '/a'])).err).toBe(
      "heed: --remove: expected ids of texts in the index, got '/a'\n",
    );
    const others = [
      [['--out', path('none.safetensors'), '--remove', '/a'], '--out: expected an index that exists'],
      [['--out', out], 'file: expected a file'],
      [['--out', out, '--update', '--remove', '/b'], '--update: expected a file'],
      [[path('pages.jsonl'), '--out', out, '--remove', '/b'], '--remove: expected --update'],
      [[path('pages.jsonl'), '--out', out, '--update', '--force'], 'cannot be used with'],
      [[path('pages.jsonl'), '--out', out, '--update', '--prompt', 'x'], 'cannot be used with'],
    ] as const;
    for (const [args, message] of others) {
      const { code, err } = await run(['index', ...args]);
      expect([code, err]).toEqual([expect.any(Number), expect.stringContaining(message)]);
      expect(code).toBeGreaterThan(0);
    }
    const { code, err } = await run(['index', path('pages.jsonl'), '--id', 'url', '--out', out, '--update']);
    expect([code, err]).toEqual([1, expect.stringContaining('expected a model with vectors of 24 entries')]);
    expect(fs.readFileSync(out).equals(before)).toBe(true);
  });

  test('is written into a folder as index.safetensors', async () => {
    const made = await heed(['index', path('texts.txt'), '--out', path('dictionary')]);
    expect(made.code).toBe(0);
    using runtime = await load();
    expect((await runtime.TextIndex.load(path('dictionary'))).texts).toEqual(['the fox', 'a quick x']);
    const refused = await heed(['index', path('texts.txt'), '--out', path('dictionary.json')]);
    expect(refused.err).toContain('--out: expected a folder, or a file that ends in .safetensors, got');
  });

  test('is not searched with another model', async () => {
    await heed(['index', path('texts.txt'), '--out', path('of.safetensors')]);
    const { err, code } = await run(['search', 'fox', '--index', path('of.safetensors')]);
    expect([code, err]).toEqual([
      1,
      `heed: ${path('of.safetensors')}: expected a model with vectors of 24 entries, as the index was made with, got 384 entries. Name the model that the index was made with by --model, or build the index again with \`heed index\`\n`,
    ]);
  });

  test('keeps the prompt of its texts', async () => {
    const out = path('prompted.safetensors');
    await heed(['index', path('texts.txt'), '--prompt', 'x y ', '--out', out]);
    const [hit] = lines((await heed(['search', 'a quick x', '--index', out, '--prompt', 'x y ', '--json'])).out);
    expect(hit).toEqual({ text: 'a quick x', score: expect.closeTo(1, 2), id: 1 });
    using runtime = await load();
    using model = await runtime.fromPretrained(folder);
    const index = await runtime.TextIndex.load(out, { embedder: model });
    expect(await index.add(['a quick x'])).toEqual([2]);
    const { data } = index.toTensor();
    for (let i = 0; i < 24; i++) expect(data[48 + i]).toBeCloseTo(data[24 + i]!, 1);
  });
});

test('heed prune reads a column of a CSV file', async () => {
  fs.writeFileSync(path('corpus.csv'), 'n,body\n1,the quick fox\n2,a x\n');
  const { out, err, code } = await run([
    ...['prune', folder, '--keep', path('corpus.csv'), '--texts', path('corpus.csv'), '--field', 'body'],
    ...['--out', path('pruned'), '--json'],
  ]);
  expect([code, err]).toEqual([0, '']);
  expect(JSON.parse(out).loss.mean).toBeCloseTo(1, 5);
});

test('models of a hub are kept, in the folder of --cache or among the caches of the user', async () => {
  const requests: string[] = [];
  const files: Record<string, string | Uint8Array> = { ...tinyModel() } as never;
  const server = createServer(({ url = '' }, response) => {
    requests.push(url);
    const content = files[url.replace('/org/tiny/resolve/main/', '')];
    if (content === undefined) response.writeHead(404).end();
    else response.end(content);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  try {
    const host = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const args = ['embed', path('texts.txt'), '--model', 'org/tiny'];
    const local = (await heed(['embed', path('texts.txt')])).out;
    const env = { XDG_CACHE_HOME: path('caches'), HOME: path('home'), LOCALAPPDATA: path('caches') };
    const embed = async (more: string[], given: Record<string, string> = {}) => {
      requests.length = 0;
      const result = await run([...args, ...more], { env: { ...env, ...given } });
      expect([result.code, result.err, result.out]).toEqual([0, '', local]);
      return requests.filter((url) => url.endsWith('model.safetensors')).length;
    };
    expect(await embed(['--remote-host', host])).toBe(1);
    if (process.platform === 'linux') expect(fs.readdirSync(path('caches/heed')).length).toBeGreaterThan(2);
    expect(await embed(['--remote-host', host])).toBe(0);
    expect(await embed([], { HF_ENDPOINT: host })).toBe(0);
    expect(await embed(['--remote-host', host, '--no-cache'])).toBe(1);
    expect(await embed(['--remote-host', host, '--cache', path('mine')])).toBe(1);
    expect(await embed(['--remote-host', host, '--cache', path('mine')])).toBe(0);
    const { err } = await run(['inspect', 'org/tiny', '--remote-host', host]);
    expect(err).toBe('');
    // Without tags, files must be downloaded again.
    expect(await embed(['--remote-host', host, '--cache', path('mine'), '--refresh'])).toBe(1);
    for (const args of [
      ['quantize', 'org/tiny', '--out', path('from-hub')],
      ['prune', 'org/tiny', '--out', path('pruned-from-hub'), '--keep', path('texts.txt')],
    ]) {
      requests.length = 0;
      expect((await run([...args, '--remote-host', host, '--cache', path('mine')])).code).toBe(0);
      expect(requests.filter((url) => url.endsWith('model.safetensors'))).toEqual([]);
    }
    const cache = ['--cache', path('mine')];
    const [model] = JSON.parse((await run(['cache', ...cache, '--json'])).out);
    expect(model).toMatchObject({ source: 'org/tiny', remoteHost: host, revision: 'main' });
    const { bytes } = model as { bytes: number };
    expect((await run(['cache', 'list', ...cache])).out).toMatch(
      new RegExp(`^org/tiny +${bytes.toLocaleString('en')} bytes, \\d+ files, main of ${host}\n$`),
    );
    expect((await run(['doctor', path('mine')])).out).not.toContain('not ok');
    expect(await run(['cache', 'clear', ...cache])).toMatchObject({
      code: 2,
      err: expect.stringContaining('a model or --all, got neither'),
    });
    expect(await run(['cache', 'clear', 'org/none', ...cache])).toMatchObject({
      code: 1,
      err: expect.stringContaining("got 'org/none'"),
    });
    expect(await run(['cache', 'clear', 'org/tiny', ...cache, '--json'])).toMatchObject({
      code: 0,
      out: `{"bytes":${bytes}}\n`,
    });
    expect(await run(['cache', 'list', ...cache])).toMatchObject({ code: 0, out: 'no models\n' });
    expect(await run(['cache', 'clear', '--all', ...cache])).toMatchObject({
      code: 0,
      out: 'removed 0 files, 0 bytes\n',
    });
    expect(fs.readdirSync(path('mine'))).toEqual([]);
  } finally {
    server.close();
  }
});
