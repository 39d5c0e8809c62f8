/**
 * Every reader of texts, with all encodings, line ends and lengths: `heed embed` and plans read the same texts, or both
 * reject a file.
 */
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MAX_RECORD_BYTES, rowsOf } from '../../../web/src/cli/rows.js';
import { encodingOf, formatOf } from '../../../web/src/node/lines.js';
import { chunksOf, linesOf, splitLines } from '../../../web/src/scale/lines.js';
import { tinyModel } from '../models/tiny.js';
import { start } from './support.js';

let folder: string;
const path = (name: string) => join(folder, name);

beforeAll(() => {
  folder = fs.mkdtempSync(join(tmpdir(), 'heed-'));
  for (const [name, content] of Object.entries(tinyModel()))
    if (!name.includes('/')) fs.writeFileSync(path(name), content);
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

/** The texts that `heed embed` reads from a file. */
async function read(file: string): Promise<string[]> {
  const texts: string[] = [];
  for await (const { value } of rowsOf(file, {})) texts.push(typeof value === 'string' ? value : String(value.text));
  return texts;
}

/** The texts in the chunks of a plan, and the errors of lines without a text. */
function planned(file: string): string[] {
  const encoding = encodingOf(fs.readFileSync(file));
  const format = formatOf(file) === 'jsonl' ? 'jsonl' : 'lines';
  const chunks = [...chunksOf(file, file, { rows: 2, bytes: 1 << 20 }, encoding)];
  const files = [{ file, bytes: 0, format, ...(encoding !== 'utf-8' && { encoding }) }] as const;
  const corpus = { root: '/', files, chunks, field: 'text', id: 'id' };
  return chunks.flatMap((_, n) => [...linesOf(corpus, n)]).map(({ text, error }) => text ?? `error: ${error}`);
}

const messageOf = async (body: () => Promise<unknown>) => {
  const error = await body().catch((each: unknown) => each);
  expect((error as Error).name).toBe('HeedError'); // the class may be that of dist/ or that of the sources
  return (error as Error).message;
};

const TEXTS = ['the fox', 'd\u00e9j\u00e0 \u{1f98a}\u2028 \u010a \u0d0a', ' a x '];
const little = (text: string) => Buffer.from(`\uFEFF${text}`, 'utf16le');
const big = (text: string) => little(text).swap16();
const plain = (text: string) => Buffer.from(text);
const marked = (text: string) => Buffer.from(`\uFEFF${text}`);

describe.each([
  ['UTF-8', plain],
  ['UTF-8 with a byte order mark', marked],
  ['UTF-16LE', little],
  ['UTF-16BE', big],
])('%s', (encoding, encode) => {
  test.each([
    ['LF', '\n'],
    ['CRLF', '\r\n'],
  ])('lines that end in %s', async (_, end) => {
    for (const last of ['', end]) {
      fs.writeFileSync(path('a.txt'), encode(TEXTS.join(end) + last));
      fs.writeFileSync(path('a.jsonl'), encode(TEXTS.map((text) => JSON.stringify({ text })).join(end) + last));
      for (const file of [path('a.txt'), path('a.jsonl')]) {
        expect(await read(file)).toEqual(TEXTS);
        expect(planned(file)).toEqual(TEXTS);
      }
      fs.writeFileSync(path('a.csv'), encode(`n,text${end}${TEXTS.map((text) => `1,"${text}"`).join(end)}${last}`));
      fs.writeFileSync(path('a.tsv'), encode(`text\tn${end}${TEXTS.map((text) => `${text}\t1`).join(end)}${last}`));
      fs.writeFileSync(path('a.json'), encode(`[${TEXTS.map((text) => JSON.stringify(text)).join(`,${end}`)}]${last}`));
      for (const name of ['a.csv', 'a.tsv', 'a.json']) expect(await read(path(name))).toEqual(TEXTS);
    }
  });

  test('lines that end in CR are refused', async () => {
    fs.writeFileSync(path('cr.txt'), encode('the fox\ra x\r'));
    fs.writeFileSync(path('cr.csv'), encode('text,n\rthe fox,1\ra x,2\r'));
    const refused = /^[^\n]*: expected lines that end in LF or CRLF, got ones that end in CR alone\. /;
    expect(await messageOf(() => read(path('cr.txt')))).toMatch(refused);
    expect(await messageOf(async () => planned(path('cr.txt')))).toMatch(refused);
    expect(await messageOf(() => read(path('cr.csv')))).toMatch(refused);
  });

  test('bytes of 0', async () => {
    fs.writeFileSync(path('nul.txt'), encode('the \0fox\na x\n'));
    fs.writeFileSync(path('nul2.txt'), encode('the fox\na \0x\n'));
    for (const name of ['nul.txt', 'nul2.txt'])
      expect(await messageOf(() => read(path(name)))).toContain('got a binary file, with bytes of 0');
    expect(await messageOf(async () => planned(path('nul.txt')))).toContain('got a binary file');
    expect(planned(path('nul2.txt'))).toEqual(['the fox', 'error: expected text, got a line with bytes of 0']);
  });

  test('other bytes', async () => {
    const bytes = encode('the fox\na x\n');
    const wrong = encoding.startsWith('UTF-8') ? Buffer.of(0xe9, 0x20) : Buffer.of(0xd8, 0xd8);
    fs.writeFileSync(path('bad.txt'), Buffer.concat([bytes, wrong]));
    const name = encoding.split(' ')[0]!;
    expect(await messageOf(() => read(path('bad.txt')))).toContain(`got bytes that are not ${name}. `);
    expect(planned(path('bad.txt'))).toEqual(['the fox', 'a x', `error: expected ${name}, got invalid bytes`]);
  });

  test('nothing', async () => {
    for (const name of ['empty.txt', 'empty.jsonl', 'empty.csv']) {
      fs.writeFileSync(path(name), '');
      expect(await read(path(name))).toEqual([]);
    }
    expect(planned(path('empty.txt'))).toEqual([]);
  });
});

test('what a plan cannot cut at its lines, or is no text, is refused', async () => {
  const { planEmbedding } = await import('heed/corpus');
  for (const name of ['t.tsv', 't.TAB', 't.json', 't.csv', 't.txt.gz']) {
    fs.writeFileSync(path(name), 'text\nthe fox\n');
    const message = await messageOf(() => planEmbedding([path(name)], { out: path('plan') }));
    expect(message).toMatch(/^files: expected files of lines or JSON lines, got '.*'\. Convert it to JSON lines/);
  }
  fs.writeFileSync(path('wide.txt'), Buffer.from('the fox\n', 'utf16le'));
  const message = await messageOf(() => planEmbedding([path('wide.txt')], { out: path('plan'), model: folder }));
  expect(message).toContain('got a binary file, with bytes of 0');
  expect(fs.existsSync(path('plan'))).toBe(false);
});

describe('a line of 100 MB', () => {
  const size = 100 << 20;
  const write = (name: string, before: string, piece: string, after: string) => {
    const file = fs.openSync(path(name), 'w');
    fs.writeSync(file, before);
    const bytes = Buffer.from(piece.repeat((1 << 20) / piece.length));
    for (let written = 0; written < size; written += bytes.length) fs.writeSync(file, bytes);
    fs.writeSync(file, after);
    fs.closeSync(file);
  };

  test('is not kept in memory', () => {
    const piece = Buffer.alloc(1 << 20, 'x');
    function* pieces() {
      for (let read = 0; read < size; read += piece.length) yield piece;
      yield Buffer.from('\nthe fox');
    }
    const lines = [...splitLines(pieces(), 1 << 20)].map(({ bytes }) => bytes && Buffer.from(bytes).toString());
    expect(lines).toEqual([null, 'the fox']);
  });

  test.each([
    ['line.txt', '', 'word ', '\n', /line\.txt:1: expected a line of at most 16,777,216 bytes, got a longer one/],
    ['line.jsonl', '"a"\n{"text":"', 'word ', '"}\n', /line\.jsonl:2: expected a line of at most 16,777,216 bytes/],
    ['cell.csv', 'text\n"', 'word ', '"\n', /cell\.csv: expected CSV as in RFC 4180, .*maximum number of tolerated/],
  ])('%s: one clear error, in a heap of 128 MB', async (name, before, piece, after, message) => {
    write(name, before, piece, after);
    const { code, err } = await start(['embed', path(name), '--model', folder, '--threads', '1'], {
      env: { NODE_OPTIONS: '--max-old-space-size=128' },
    }).ended;
    expect(err).toMatch(message);
    expect(err).toMatch(/^heed: [^\n]+\n$/);
    expect(code).toBe(1);
    fs.rmSync(path(name));
  });

  test('a line of 10 MB is embedded, in a heap of 128 MB', async () => {
    const words = 'the quick brown fox '.repeat((10 << 20) / 20);
    fs.writeFileSync(path('ten.txt'), `${words}\nthe fox\n`);
    const { code, err, out } = await start(['embed', path('ten.txt'), '--model', folder, '--threads', '1'], {
      env: { NODE_OPTIONS: '--max-old-space-size=128' },
    }).ended;
    expect([code, err]).toEqual([0, expect.stringMatching(/^heed: 1 text cut .* 2,097,\d\d\d tokens dropped/)]);
    expect(out.split('\n')).toHaveLength(3);
    expect(MAX_RECORD_BYTES).toBeGreaterThan(words.length);
  });
});

test('only these files call what reads files', () => {
  const root = fileURLToPath(new URL('../../../web/src/', import.meta.url));
  const names = ['cli', 'node', 'scale'].flatMap((part) =>
    fs
      .readdirSync(join(root, part), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => `${part}/${name.replaceAll('\\', '/')}`),
  );
  const calls = /\b(createReadStream|readFileSync|readSync|createInterface)\(|\bprocess\.stdin\b/;
  expect(names.filter((name) => calls.test(fs.readFileSync(join(root, name), 'utf8'))).sort()).toEqual([
    'cli/check-folder.ts',
    'cli/folder.ts', // the state of a training
    'cli/rows.ts', // texts
    'node/folders-and-files.ts', // texts of plans
    'scale/manifest.ts', // the plan, and why a chunk failed
  ]);
});
