/** Input and output of the commands: empty or invalid input, byte order marks, --json, workers and threads, signals. */
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeFolder, run, start } from './support.js';

let folder: string;
const path = (name: string) => join(folder, name);
const heed = (args: string[], input = '') => run([...args, '--model', folder], { input });
const textsOf = (out: string) =>
  out
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { text: string }).text);

beforeAll(() => {
  folder = makeFolder();
  fs.writeFileSync(path('texts.txt'), 'the fox\na quick x\nthe brown fox\n');
  fs.writeFileSync(path('empty.txt'), '');
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

describe('text files', () => {
  test('JSON lines may be strings', async () => {
    fs.writeFileSync(path('plain.jsonl'), '"the fox"\n\n"a quick x"\n');
    const { code, out } = await heed(['embed', path('plain.jsonl')]);
    expect(code).toBe(0);
    expect(textsOf(out)).toEqual(['the fox', 'a quick x']);
  });

  test.each([
    ['bom.txt', '\uFEFFthe fox\r\na quick x\r\n'],
    ['bom.jsonl', '\uFEFF{"text":"the fox"}\r\n{"text":"a quick x"}\r\n'],
    ['bom.csv', '\uFEFFtext,n\r\nthe fox,1\r\na quick x,2\r\n'],
    ['utf-16.txt', Buffer.from('\uFEFFthe fox\r\na quick x\r\n', 'utf16le')],
    ['utf-16be.csv', Buffer.from('\uFEFFtext,n\r\nthe fox,1\r\na quick x,2\r\n', 'utf16le').swap16()],
    ['a.tsv', 'n\ttext\n1\tthe fox\n2\ta quick x\n'],
    ['a.json', '[{"text":"the fox"},\n"a quick x"]'],
  ])('%s: a byte order mark and CRLF are no part of the texts', async (name, content) => {
    fs.writeFileSync(path(name), content);
    const { out, err, code } = await heed(['embed', path(name)]);
    expect([code, err]).toEqual([0, '']);
    expect(textsOf(out)).toEqual(['the fox', 'a quick x']);
  });

  test.each(['utf8', 'utf16le'] as const)('a byte order mark alone is no text (%s)', async (encoding) => {
    fs.writeFileSync(path('mark.txt'), Buffer.from('\uFEFF', encoding));
    const { err, code } = await heed(['embed', path('mark.txt')]);
    expect(err).toMatch(/mark\.txt: expected at least one text, got none/);
    expect(code).toBe(1);
  });

  test('- is standard input, between files as well', async () => {
    const { out } = await heed(['embed', path('texts.txt'), '-'], 'x\n');
    expect(textsOf(out)).toEqual(['the fox', 'a quick x', 'the brown fox', 'x']);
    const { out: same } = await heed(['embed', '-'], 'x'); // a last line without a line feed
    expect(textsOf(same)).toEqual(['x']);
  });

  test.each<[string[], number, RegExp]>([
    [['embed', 'FOLDER'], 1, /: expected a file, got a folder/],
    [['search', 'fox', 'no.txt'], 1, /^heed: no\.txt: cannot be read \(ENOENT/],
    [['embed', '-', '-'], 2, /files: expected '-' \(standard input\) at most once, got - -/],
    [['embed'], 1, /^heed: standard input: expected at least one text, got none/],
    [['classify', 'FOLDER/empty.txt'], 1, /empty\.txt: expected at least one text, got none/],
    [['search', 'fox', 'FOLDER/empty.txt'], 1, /empty\.txt: expected at least one text, got none/],
    [['index', 'FOLDER/empty.txt', '--out', 'x.safetensors'], 1, /empty\.txt: expected at least one text, got none/],
    [
      ['embed', 'FOLDER/texts.txt', '--workers', '0'],
      2,
      /--workers: expected 'auto' or a whole number from 1 to 64, got '0'/,
    ],
    [
      ['embed', 'FOLDER/texts.txt', '--workers', 'x'],
      2,
      /--workers: expected 'auto' or a whole number from 1 to 64, got 'x'/,
    ],
    [
      ['embed', 'FOLDER/texts.txt', '--threads', '17'],
      2,
      /--threads: expected 'auto' or a whole number from 1 to 16, got '17'/,
    ],
    [
      ['embed', 'FOLDER/texts.txt', '--workers', '2', '--threads', '2'],
      2,
      /only one of --workers and --threads, got both/,
    ],
    [
      ['embed', 'FOLDER/texts.txt', '--json', '--out', 'x.jsonl'],
      2,
      /--json: expected only one of --json and --out, got both/,
    ],
    [
      ['classify', 'FOLDER/texts.txt', '--json', '--out', 'x'],
      2,
      /--json: expected only one of --json and --out, got both/,
    ],
  ])('%j is refused in one line', async (args, expected, message) => {
    const { out, err, code } = await heed(args.map((arg) => arg.replace('FOLDER', folder)));
    expect(err).toMatch(message);
    expect(err).toMatch(/^heed: [^\n]+\n$/);
    expect([code, out]).toEqual([expected, '']);
  });

  test('no file is left behind where nothing was written', async () => {
    for (const name of ['a.jsonl', 'a.npy']) {
      expect((await heed(['embed', path('empty.txt'), '--out', path(name)])).code).toBe(1);
      expect(fs.existsSync(path(name))).toBe(false);
    }
  });
});

describe('--json has the documented keys', () => {
  test('search', async () => {
    const { out } = await heed(['search', 'a quick x', path('texts.txt'), '--top', '2', '--json']);
    const [first, second] = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(first).toEqual({ text: 'a quick x', score: expect.closeTo(1, 5), file: path('texts.txt'), line: 2 });
    expect(Object.keys(second)).toEqual(['text', 'score', 'file', 'line']);
  });

  test('index', async () => {
    const { out } = await heed(['index', path('texts.txt'), '--out', path('index/a.safetensors'), '--json']);
    expect(JSON.parse(out)).toEqual({
      index: path('index/a.safetensors'),
      texts: 3,
      dimensions: 24,
      bytes: fs.statSync(path('index/a.safetensors')).size,
    });
  });

  test('inspect', async () => {
    expect(JSON.parse((await heed(['inspect', '--json'])).out)).toMatchObject({ family: 'bert', embedDim: 24 });
  });

  function temporaryFolder() {
    const path = fs.mkdtempSync(join(tmpdir(), 'heed-plan-'));
    return { path, [Symbol.dispose]: () => fs.rmSync(path, { recursive: true }) };
  }

  test('plans', async () => {
    using elsewhere = temporaryFolder(); // the model's folder must not change
    const { path: out } = elsewhere;
    const json = async (args: string[]) => JSON.parse((await run(['corpus', ...args, '--json'])).out);
    const planned = await json(['plan', path('texts.txt'), '--out', out, '--model', folder, '--chunk', '2']);
    expect(planned).toEqual({ folder: out, rows: 3, chunks: 2, build: expect.any(String) });
    expect(await json(['status', out])).toMatchObject({
      rows: 3,
      rowsDone: 0,
      chunks: 2,
      partsDone: 0,
      finished: false,
    });
    expect(await json(['work', out, '--workers', '1'])).toEqual({ parts: 2, rows: 3, errors: 0, failed: [] });
    expect(await json(['finish', out])).toMatchObject({ complete: true, rows: 3, parts: 2, missing: [] });
  });

  test.each<[args: string[], expected: string]>([
    [['embed', '--plan', 'a.txt', '--out', 'out'], '--plan: expected `heed corpus plan`'],
    [['--quiet', 'embed', '--workers', '2', '--work', 'out', '--shard', '0/3'], '--work: expected `heed corpus work`'],
    [['embed', '--status=out', '--json'], '--status: expected `heed corpus status`'],
    [['embed', '--finish', 'out'], '--finish: expected `heed corpus finish`'],
    [['embed', 'a.txt', '--output', 'int8'], '--output: expected --type'],
    [['corpus', 'plan', 'a.txt', '--out', 'out', '--output=int8'], '--output: expected --type'],
    [['embed', '--resume'], '--resume: expected `heed corpus`'],
    [['classify', '--resume'], '--resume: expected a run from the start'],
    [['inspect', 'org/name', '--host', 'https://a.b'], '--host: expected --remote-host'],
  ])('%j: a message names what replaces it', async (args, expected) => {
    const { code, err } = await run(args);
    expect([code, err]).toEqual([2, expect.stringMatching(/^heed: [^\n]*, which replaces it\n$/)]);
    expect(err).toContain(expected);
  });
});

describe('workers and threads', () => {
  const texts = Array.from({ length: 600 }, (_, n) => `${['fox', 'the', 'quick', 'x'][n % 4]}${' 0'.repeat(n % 7)}`);

  test.each([
    ['embed', ['--workers', '2']],
    ['embed', ['--workers', 'auto']],
    ['embed', ['--threads', '2']],
    ['classify', ['--workers', '2']],
  ])('%s %j: the same output, in the same order', async (command, options) => {
    fs.writeFileSync(path('many.txt'), texts.join('\n'));
    const [alone, together] = await Promise.all(
      [[], options].map((more) => heed([command, path('many.txt'), ...more])),
    );
    expect([together!.code, together!.err]).toEqual([0, '']);
    expect(textsOf(alone!.out)).toEqual(texts);
    expect(together!.out).toBe(alone!.out);
  });

  test('search and index', async () => {
    fs.writeFileSync(path('many.txt'), texts.join('\n'));
    const args = ['search', 'the fox', path('many.txt'), '--json'];
    expect((await heed([...args, '--workers', '2'])).out).toBe((await heed(args)).out);
    const index = async (name: string, ...more: string[]) => {
      const out = path(`${name}/index.safetensors`);
      expect((await heed(['index', path('many.txt'), '--out', out, ...more])).code).toBe(0);
      return fs.readFileSync(out);
    };
    expect((await index('two', '--workers', '2')).equals(await index('none'))).toBe(true);
  });

  test('a long file gets workers without being told, and a bad line in it is one error', async () => {
    const line = `${JSON.stringify({ text: 'the quick brown fox', more: 'x'.repeat(1000) })}\n`;
    fs.writeFileSync(path('long.jsonl'), `${line.repeat(300)}nonsense\n`);
    const { err, code, out } = await heed(['embed', path('long.jsonl')]);
    expect(code).toBe(1);
    expect(err).toMatch(
      /^heed: .*long\.jsonl:301: expected a text or an object, [^\n]*, got a line that is not JSON\n$/,
    );
    expect(textsOf(out || '{"text":""}').length).toBeLessThanOrEqual(256); // whole batches only
  });
});

// Windows has no signals.
describe.skipIf(process.platform === 'win32')('a signal', () => {
  test.each([
    ['SIGINT', 130, 'jsonl'],
    ['SIGTERM', 143, 'npy'],
  ] as const)('%s ends it with exit code %d, the .%s file has whole records', async (signal, code, ending) => {
    const out = path(`out.${ending}`);
    const { child, ended } = start(['embed', '--out', out, '--model', folder], { input: null });
    child.stdin.write('the quick brown fox\n'.repeat(300)); // standard input stays open
    const rowBytes = 4 * 24;
    const written = () => {
      const bytes = fs.existsSync(out) ? fs.readFileSync(out) : Buffer.alloc(0);
      return ending === 'npy' ? Math.floor((bytes.length - 128) / rowBytes) : bytes.toString().split('\n').length - 1;
    };
    await expect.poll(written).toBe(256);
    child.kill(signal);
    expect(await ended).toEqual({
      code,
      out: '',
      err: `heed: stopped by ${signal}; ${out} has the first 256 records\n`,
    });
    const file = fs.readFileSync(out);
    if (ending === 'npy') expect(file.subarray(0, 128).toString('latin1')).toContain("'shape': (256, 24)");
    else expect(textsOf(file.toString())).toHaveLength(256);
  });

  test('also while standard input is awaited', async () => {
    const { child, ended } = start(['embed', '--model', folder], { input: null });
    let out = '';
    child.stdout.on('data', (data) => (out += data));
    child.stdin.write('the fox\n'.repeat(256));
    await expect.poll(() => out.split('\n').length).toBe(257);
    child.kill('SIGINT');
    const { code, err } = await ended;
    expect([code, err]).toEqual([130, 'heed: stopped by SIGINT; the records above are complete\n']);
  });
});
