/** Every command that writes: on a full disk, in a read-only folder, and over existing files. */
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeFolder, run, script } from './support.js';

let folder: string;
let model: string;
const path = (name: string) => join(folder, name);

beforeAll(() => {
  model = makeFolder();
  folder = fs.mkdtempSync(join(tmpdir(), 'heed-'));
  const texts = Array.from({ length: 40 }, (_, n) => `the quick fox ${'x '.repeat(n % 9)}`);
  fs.writeFileSync(path('texts.txt'), texts.map((text) => `${text}\n`).join(''));
  fs.writeFileSync(path('pairs.csv'), 'a,b\nthe fox,a fox\na x,the x\nquick,brown\n');
  fs.writeFileSync(path('labels.csv'), 'text,label\nthe fox,a\na x,b\nthe brown fox,a\nquick,b\n');
});
afterAll(() => {
  for (const each of [folder, model]) fs.rmSync(each, { recursive: true, force: true });
});

/**
 * For each command with --out: command lines without --out, and the name of the output. The current folder is the
 * model's.
 */
const WRITERS: Record<string, [args: string[], out: string][]> = {
  embed: [
    [['embed', 'texts.txt', '--model', '.'], 'out.jsonl'],
    [['embed', 'texts.txt', '--model', '.'], 'out.npy'],
  ],
  'corpus plan': [[['corpus', 'plan', 'texts.txt', '--model', '.', '--chunk', '1'], 'plan']],
  classify: [[['classify', 'texts.txt', '--model', '.'], 'out.jsonl']],
  index: [[['index', 'texts.txt', '--model', '.'], 'index.safetensors']],
  quantize: [[['quantize', '.'], 'quantized']],
  prune: [[['prune', '.', '--keep', 'texts.txt'], 'pruned']],
  'train classifier': [[['train', 'classifier', 'labels.csv', '--model', '.', '--epochs', '1'], 'kinds']],
  'train embedding': [[['train', 'embedding', 'pairs.csv', '--model', '.', '--epochs', '1'], 'similar']],
};
const all = Object.values(WRITERS).flat();
/** Formats of the parts of a plan. */
const PARTS = ['jsonl', 'npy', 'parquet'];

const named = (args: string[]) => args.map((arg) => (arg === '.' ? model : arg));

/** Runs a command that cannot write more than 1 KiB to a file: the system performs a short write, then fails. */
function limited(args: string[], redirect = '') {
  const command = `ulimit -f 1; exec "$@"${redirect}`;
  const { status, stderr } = spawnSync('bash', ['-c', command, 'bash', process.execPath, script, ...named(args)], {
    cwd: folder,
    encoding: 'utf8',
  });
  return { code: status, err: stderr };
}

const inFolder = (args: string[]) => {
  const { status, stderr, stdout } = spawnSync(process.execPath, [script, ...named(args)], {
    cwd: folder,
    encoding: 'utf8',
  });
  return { code: status, err: stderr, out: stdout };
};

const FULL = /^heed: [^\n]*cannot be written \(E(FBIG|NOSPC)[^\n]*\n$/;

test('the table above has every command with --out', async () => {
  const words = async (...given: string[]) =>
    (await run(['complete', '--', ...given])).out.split('\n').map((line) => line.split('\t')[0]!);
  const found: string[] = [];
  for (const name of (await words('')).filter((word) => /^[a-z]+$/.test(word))) {
    if ((await words(name, '--')).includes('--out')) found.push(name);
    if (!['corpus', 'train'].includes(name)) continue;
    for (const child of (await words(name, '')).filter((word) => /^[a-z]+$/.test(word)))
      if ((await words(name, child, '--')).includes('--out')) found.push(`${name} ${child}`);
  }
  expect(found.sort()).toEqual(Object.keys(WRITERS).sort());
});

// Windows has no such limit.
describe.skipIf(process.platform === 'win32')('on a full disk', () => {
  test.each(all)('%j --out %s fails in one line, and leaves nothing that is not whole', (args, out) => {
    const before = fs.readdirSync(folder);
    const { code, err } = limited([...args, '--out', out]);
    expect(err).toMatch(FULL);
    expect(code).toBe(1);
    const left = fs.readdirSync(folder).filter((name) => !before.includes(name));
    if (!['embed', 'classify'].includes(args[0]!)) {
      expect(left.filter((name) => name !== 'plan')).toEqual([]);
      expect(left.includes('plan') ? fs.readdirSync(path('plan')) : []).toEqual([]);
      fs.rmSync(path(out), { recursive: true, force: true });
      return;
    }
    // The file has only complete records.
    expect(left).toEqual(left.length === 0 ? [] : [out]);
    expect(inFolder([...args, '--out', `whole-${out}`])).toMatchObject({ code: 0, err: '' });
    if (left.length > 0) {
      const [found, whole] = [out, `whole-${out}`].map((name) => fs.readFileSync(path(name)));
      const from = out.endsWith('.npy') ? 128 : 0; // the headers have different numbers of rows
      expect(whole!.subarray(from, found!.length).equals(found!.subarray(from))).toBe(true);
      if (from === 0) expect(found!.at(-1)).toBe(10);
    }
    for (const name of [...left, `whole-${out}`]) fs.rmSync(path(name));
  });

  test.each(PARTS)('parts in %s', (parts) => {
    const out = `plan-${parts}`;
    inFolder(['corpus', 'plan', 'texts.txt', '--model', '.', '--parts', parts, '--out', out]);
    const { code, err } = limited(['corpus', 'work', out, '--workers', '1']);
    expect(err).toMatch(FULL);
    expect([code, fs.readdirSync(path(out))]).toEqual([1, ['manifest.json']]);
    expect(inFolder(['corpus', 'work', out])).toMatchObject({ code: 0, err: '' });
  });

  test.each([['embed'], ['classify'], ['search', 'the fox', '--top', '40']])('standard output of %j', (...command) => {
    const { code, err } = limited([...command, 'texts.txt', '--model', '.'], ' > printed');
    expect(err).toMatch(/^heed: standard output: cannot be written \(E(FBIG|NOSPC)[^\n]*\n$/);
    expect(code).toBe(1);
  });
});

describe.skipIf(process.platform !== 'linux')('in a folder that cannot be written', () => {
  // The superuser may write to any folder on disk, but not in /proc.
  const locked = process.getuid?.() === 0 ? '/proc/self' : '/';

  test.each(all)('%j --out %s fails before it computes anything', (args, out) => {
    const { code, err } = inFolder([...args, '--out', join(locked, `heed-${out}`)]);
    expect(err).toMatch(/^heed: [^\n]*cannot be written \(E[^\n]*\n$/);
    expect(code).toBe(1);
  });
});

describe('what is there', () => {
  test('a training is not begun for a folder with files, or a file', () => {
    for (const [command, file] of [
      ['classifier', 'labels.csv'],
      ['embedding', 'pairs.csv'],
    ]) {
      const args = ['train', command!, file!, '--model', '.', '--out'];
      expect(inFolder([...args, 'texts.txt'])).toMatchObject({
        code: 2,
        err: "heed: --out: expected a new or empty folder, got 'texts.txt', which is a file\n",
      });
      expect(inFolder([...args, '.'])).toMatchObject({ code: 2, err: expect.stringContaining('has files in it') });
      expect(inFolder([...args, 'texts.txt/below']).err).toMatch(/cannot be written \(ENOTDIR/);
    }
  });

  test('an index is replaced with --force only', () => {
    const args = ['index', 'texts.txt', '--model', '.', '--out', 'there.safetensors'];
    expect(inFolder(args).code).toBe(0);
    const before = fs.readFileSync(path('there.safetensors'));
    expect(inFolder([...args, '--dimensions', '8'])).toMatchObject({
      code: 2,
      err: "heed: --out: expected a new file, got 'there.safetensors', which exists. Replace it with --force, or change it with --update\n",
    });
    expect(fs.readFileSync(path('there.safetensors')).equals(before)).toBe(true);
    expect(inFolder([...args, '--dimensions', '8', '--force'])).toMatchObject({ code: 0, err: '' });
    expect(fs.readFileSync(path('there.safetensors')).length).toBeLessThan(before.length);
  });

  test.each(['texts.txt', 'model.safetensors', 'cut.safetensors'])(
    '%s is not an index that --force replaces',
    (name) => {
      const file = `there-${name}${name.endsWith('.safetensors') ? '' : '.safetensors'}`;
      const weights = fs.readFileSync(join(model, 'model.safetensors'));
      const content = { 'model.safetensors': weights, 'cut.safetensors': weights.subarray(0, 5) }[name] ?? 'my texts';
      fs.writeFileSync(path(file), content);
      expect(inFolder(['index', 'texts.txt', '--model', '.', '--out', file, '--force'])).toMatchObject({
        code: 2,
        err: `heed: --out: expected a new file, or an index to replace, got '${file}', which is no index of heed\n`,
      });
      expect(fs.readFileSync(path(file)).equals(Buffer.from(content))).toBe(true);
      fs.rmSync(path(file));
    },
  );

  test('an empty folder becomes the result', () => {
    fs.mkdirSync(path('empty'));
    expect(inFolder(['quantize', '.', '--out', 'empty'])).toMatchObject({ code: 0, err: '' });
    expect(fs.readdirSync(path('empty'))).toContain('model.safetensors');
  });
});
