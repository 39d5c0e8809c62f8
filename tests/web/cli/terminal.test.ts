/** Output on terminals: progress, colours, and tables that fit the width. */
import { spawn, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { displayWidth, hasColors, inOneLine, settings, truncate } from '../../../web/src/cli/terminal.js';
import { hasTerminal, makeFolder, run, script, startInTerminal } from './support.js';

let folder: string;
const path = (name: string) => join(folder, name);

beforeAll(() => {
  folder = makeFolder();
  fs.writeFileSync(path('texts.txt'), `the fox ${'quick brown '.repeat(20)}\nthe 狐 ${'狐'.repeat(60)}\n`);
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

describe('the width of texts', () => {
  test.each([
    ['the fox', 4, 'the…'],
    ['the fox', 7, 'the fox'],
    ['日本語の文', 6, '日本…'],
    ['日本語の文', 10, '日本語の文'],
    ['e\u0301e\u0301e\u0301', 3, 'e\u0301e\u0301e\u0301'],
    ['👩‍👩‍👧 family', 5, '👩‍👩‍👧 f…'],
    ['abc', 0, ''],
  ])('%s in %d columns', (text, width, expected) => {
    const shown = truncate(text, width);
    expect(displayWidth(shown)).toBeLessThanOrEqual(Math.max(width, 1));
    if (width > 0) expect(shown).toBe(expected);
  });

  test('control characters do not reach the terminal', () => {
    expect(inOneLine('a\r\nb\x1b[31mc\x9bd\u2028e')).toBe('a b [31mc d e');
  });
});

describe('colours', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
    settings.color = true;
  });
  const terminal = { isTTY: true, hasColors: () => true } as unknown as NodeJS.WriteStream;
  const pipe = { isTTY: false } as NodeJS.WriteStream;

  test.each([
    [{}, true, false],
    [{ NO_COLOR: '1' }, false, false],
    [{ NO_COLOR: '' }, true, false],
    [{ FORCE_COLOR: '1' }, true, true],
    [{ FORCE_COLOR: '0' }, false, false],
    [{ FORCE_COLOR: '1', NO_COLOR: '1' }, false, false],
  ] as [Record<string, string>, boolean, boolean][])('%j: terminal %s, pipe %s', (env, onTerminal, onPipe) => {
    for (const name of ['NO_COLOR', 'FORCE_COLOR']) vi.stubEnv(name, env[name]);
    expect([hasColors(terminal), hasColors(pipe)]).toEqual([onTerminal, onPipe]);
    settings.color = false; // --no-color
    expect([hasColors(terminal), hasColors(pipe)]).toEqual([false, false]);
  });

  test('pipes get colours only if they are forced, and JSON never', async () => {
    const model = ['--model', folder];
    expect((await run(['inspect', ...model])).out).not.toContain('\x1b');
    expect((await run(['inspect', ...model], { env: { FORCE_COLOR: '1' } })).out).toContain('\x1b[1mfamily');
    expect((await run(['inspect', '--json', ...model], { env: { FORCE_COLOR: '1' } })).out).not.toContain('\x1b');
    expect((await run(['nope'], { env: { FORCE_COLOR: '1' } })).err).toContain('\x1b[31mheed:\x1b[39m command');
  });
});

// Other systems lack this program, and replacements are native packages.
describe.skipIf(!hasTerminal)('in a terminal (util-linux script)', () => {
  test('headings and names are coloured, unless --no-color or NO_COLOR is given', async () => {
    const args = ['inspect', '--model', folder, '--quiet']; // the progress line has control sequences of its own
    expect((await startInTerminal(args)).out).toContain('\x1b[1mfamily');
    expect((await startInTerminal([...args, '--no-color'])).out).not.toContain('\x1b');
    expect((await startInTerminal(args, { env: { NO_COLOR: '1' } })).out).not.toContain('\x1b');
    expect((await startInTerminal(['--help'])).out).toContain('\x1b[1mCommands:');
  });

  test.each([20, 40])('tables are cut to %d columns', async (columns) => {
    const args = ['search', 'the fox', path('texts.txt'), '--model', folder, '--no-color', '--quiet'];
    const { out } = await startInTerminal(args, { columns });
    const all = out.trimEnd().split('\r\n');
    const lines = all.filter((line) => !line.startsWith('heed: '));
    expect(all.find((line) => !lines.includes(line))).toMatch(/^heed: 2 texts cut to the model's limit/);
    expect(lines).toHaveLength(2);
    for (const line of lines) {
      expect(line).toMatch(/^\d\.\d{3} {2}the .*…$/);
      expect(displayWidth(line)).toBeGreaterThanOrEqual(columns - 1); // a wide character may not fit
      expect(displayWidth(line)).toBeLessThanOrEqual(columns);
    }
    const piped = await run(args);
    expect(piped.out).toContain('quick brown '.repeat(20).trim());
    expect(piped.out).toContain('狐'.repeat(60));
  });

  test('classify prints a table, and JSON lines with --json', async () => {
    const args = ['classify', path('texts.txt'), '--model', folder, '--no-color', '--quiet'];
    const { out } = await startInTerminal(args);
    expect(out).toMatch(/^(low|middle|high) +\d\.\d{3} {2}the fox .*…\r\n(low|middle|high) /m);
    const json = await startInTerminal([...args, '--json'], { columns: 2000 });
    const first = json.out.split('\r\n').find((line) => line.startsWith('{'));
    expect(JSON.parse(first!)).toMatchObject({ text: expect.any(String), labels: expect.any(Array) });
  });

  test('progress appears, is cleared at the end, and --quiet hides it', async () => {
    for (const quiet of [false, true]) {
      const fifo = path(`fifo-${quiet}`);
      spawnSync('mkfifo', [fifo]);
      const out = path(`out-${quiet}.jsonl`);
      let shown = '';
      const args = ['embed', fifo, '--model', folder, '--out', out, ...(quiet ? ['--quiet'] : [])];
      const ended = startInTerminal(args, { columns: 100, onData: (all) => (shown = all) });
      const writer = await fs.promises.open(fifo, 'w');
      const lines = () => (fs.existsSync(out) ? fs.readFileSync(out, 'utf8').split('\n').length - 1 : 0);
      for (let batches = 1; batches < 4 || (!quiet && !/embedding [\d,]+ texts/.test(shown)); batches++) {
        await writer.write('the quick brown fox\n'.repeat(256));
        await expect.poll(lines).toBe(256 * batches);
      }
      await writer.close();
      const { out: printed, code } = await ended;
      expect(code).toBe(0);
      if (quiet) expect(printed).toBe('');
      else expect(printed).toMatch(/embedding [\d,]+ texts, [\d,]+ texts\/s/);
      // The progress line is cleared before the summary is printed.
      if (!quiet) expect(printed.split('\r\x1b[K').at(-1)).toMatch(/^\S+out-false\.jsonl: [\d,]+ vectors\r\n$/);
    }
  });
});

test('a reader that closes standard output early is not an error', async () => {
  fs.writeFileSync(path('many.txt'), 'the quick brown fox\n'.repeat(2000));
  const child = spawn(process.execPath, [script, 'embed', path('many.txt'), '--model', folder]);
  let err = '';
  child.stderr.on('data', (data) => (err += data));
  child.stdout.once('data', () => child.stdout.destroy());
  const code = await new Promise((resolve) => child.on('close', resolve));
  expect(err).toBe('');
  expect(code).toBe(0);
});
