import { spawn, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  promises,
  readdirSync,
  readFileSync,
  rmSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load } from 'heed';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readExamples, readRows } from '../../../web/src/cli/examples.js';

const script = fileURLToPath(new URL('../../../dist/cli.js', import.meta.url));
let folder: string;
const path = (name: string) => join(folder, name);

const examples = ['apple', 'pear', 'plum', 'cherry', 'grape', 'banana']
  .map((text) => ({ text, label: 'fruit' }))
  .concat(['cat', 'dog', 'horse', 'lion', 'wolf', 'bear'].map((text) => ({ text, label: 'animal' })));

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'heed-'));
  writeFileSync(
    path('examples.csv'),
    `text,label\n${examples.map(({ text, label }) => `${text},${label}\n`).join('')}`,
  );
  writeFileSync(path('test.jsonl'), '{"body":"peach","kind":"fruit"}\n\n{"body":"tiger","kind":"animal"}\n');
});
afterAll(() => rmSync(folder, { recursive: true }));

function run(...args: string[]): Promise<{ out: string; err: string; code: number | null }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [script, ...args]);
    let [out, err] = ['', ''];
    child.stdout.on('data', (data) => (out += data));
    child.stderr.on('data', (data) => (err += data));
    child.on('close', (code) => resolve({ out, err, code }));
    child.stdin.end();
  });
}

const keys = ['--field', 'body', '--label', 'kind'];

describe('heed train', () => {
  test('writes a folder that classify, evaluate and the API load', async () => {
    const { out, err, code } = await run(
      ...['train', 'classifier', path('examples.csv'), '--out', path('kinds'), '--seed', '1', '--validation', '0.2'],
    );
    expect({ err, code }).toEqual({ err: '', code: 0 });
    expect(out).toContain('label \\ predicted  animal  fruit');
    expect(out).toContain('12 examples of 2 labels');
    expect(readdirSync(folder).filter((name) => name.startsWith('.'))).toEqual([]);
    const measured = await run('evaluate', path('test.jsonl'), ...keys, '--model', path('kinds'), '--json');
    expect(JSON.parse(measured.out)).toMatchObject({
      count: 2,
      accuracy: 1,
      confusionMatrix: [
        [1, 0],
        [0, 1],
      ],
    });
    const shown = await run('evaluate', path('test.jsonl'), ...keys, '--model', path('kinds'));
    expect(shown.out).toContain('accuracy 100.0 %, macro F1 100.0 %, 2 examples');
    using heed = await load();
    const model = await heed.fromPretrained(path('kinds'));
    expect(model.config.labels).toEqual(['animal', 'fruit']);
  });

  test('prints JSON, and has the same result for the same seed', async () => {
    const train = async (name: string) => {
      const args = ['train', 'classifier', path('examples.csv'), '--out', path(name), '--epochs', '3', '--seed', '7'];
      const { out } = await run(...args, '--save-as', 'q8', '--json');
      return JSON.parse(out) as { out: string };
    };
    const [one, two] = [await train('one'), await train('two')];
    expect(one).toMatchObject({ labels: ['animal', 'fruit'], head: 'sentence', truncated: 0, validation: null });
    expect({ ...two, out: '' }).toEqual({ ...one, out: '' });
  });

  test('trains an encoder, and continues where it was interrupted', async () => {
    const args = ['train', 'classifier', path('examples.csv'), '--train', 'lora', '--rank', '2', '--epochs', '12'];
    const whole = await run(...args, '--out', path('whole'), '--seed', '5');
    expect({ err: whole.err, code: whole.code }).toEqual({ err: '', code: 0 });
    // Kills the process as soon as the first checkpoint exists.
    const child = spawn(process.execPath, [script, ...args, '--out', path('cut'), '--seed', '5']);
    const state = path('cut.training');
    const ended = new Promise((resolve) => child.on('close', resolve));
    const watcher = watch(folder, { recursive: true }, () => {
      if (existsSync(join(state, 'checkpoint.safetensors'))) child.kill('SIGKILL');
    });
    await ended;
    watcher.close();
    expect(existsSync(path('cut'))).toBe(false);
    const refused = await run(...args, '--out', path('cut'));
    expect(refused.err).toContain('whose training was interrupted. Continue it with --resume');
    const resumed = await run(...args, '--out', path('cut'), '--resume');
    expect({ err: resumed.err, code: resumed.code }).toEqual({ err: '', code: 0 });
    expect(existsSync(state)).toBe(false);
    for (const file of ['model.safetensors', '3_Dense/model.safetensors'])
      expect(readFileSync(path(`cut/${file}`)).equals(readFileSync(path(`whole/${file}`)))).toBe(true);
  });

  test('teaches similarities from pairs', async () => {
    writeFileSync(path('pairs.csv'), 'a,b\nhow do I pay,methods of payment\nwhere is my parcel,tracking\n');
    const { out, err, code } = await run(
      ...['train', 'embedding', path('pairs.csv'), '--train', 'encoder.layer.2.*', '--out', path('similar'), '--json'],
    );
    expect({ err, code }).toEqual({ err: '', code: 0 });
    expect(JSON.parse(out)).toMatchObject({ history: { loss: Array(10).fill(expect.any(Number)) }, truncated: 0 });
    copyFileSync(path('test.jsonl'), path('other.jsonl'));
    const wrong = await run('train', 'embedding', path('other.jsonl'), '--out', path('no'));
    expect(wrong.err).toContain(
      'other.jsonl:1: expected texts under a, b or anchor, positive, negative or text, label',
    );
  });

  test('refuses what cannot be used, and leaves no folder behind', async () => {
    mkdirSync(path('full'));
    writeFileSync(path('full/file'), '');
    writeFileSync(path('one.jsonl'), '{"text":"a","label":"x"}\n');
    writeFileSync(path('bad.jsonl'), '{"text":"a"}\n');
    const csv = path('examples.csv');
    const cases: [string[], string, number][] = [
      [[csv, '--out', path('full')], '--out: expected a new or empty folder', 2],
      [[csv], "required option '--out <folder>' not specified", 2],
      [[path('none.csv'), '--out', path('no')], 'none.csv: cannot be read', 1],
      [
        [path('bad.jsonl'), '--out', path('no')],
        "bad.jsonl:1: expected a text under 'label', got text. Name another key with --label",
        1,
      ],
      [[path('one.jsonl'), '--out', path('no')], 'examples of at least 2 labels', 2],
      [[csv, '--out', path('no'), '--lr', 'fast'], "--lr: expected a positive number, got 'fast'", 2],
    ];
    const results = await Promise.all(cases.map(([args]) => run('train', 'classifier', ...args)));
    for (const [i, { err, code }] of results.entries()) {
      expect(err).toContain(cases[i]![1]);
      expect(err.trim().split('\n')).toHaveLength(1);
      expect(code).toBe(cases[i]![2]);
    }
    expect(existsSync(path('no'))).toBe(false);
    expect((await run('train')).err).toContain('train: expected classifier or embedding, got nothing');
    const without = await run('evaluate', csv);
    expect(without.err).toContain('labels of the model (it has none)');
  });
});

// Windows has no signals.
describe.skipIf(process.platform === 'win32')('a signal says what is left of a training', () => {
  test.each([
    ['classifier', 'text,label\na,x\nb,y\n', 'nothing was written'],
    ['embedding', 'a,b\none,two\n', '--resume with --out OUT continues after the last complete epoch, if there is one'],
  ])('of heed train %s', async (kind, content, rest) => {
    const [fifo, out] = [path(`${kind}.csv`), path(`stopped-${kind}`)];
    spawnSync('mkfifo', [fifo]);
    const child = spawn(process.execPath, [script, 'train', kind, fifo, '--out', out, '--epochs', '1000000']);
    let err = '';
    child.stderr.on('data', (data) => (err += data));
    const ended = new Promise((resolve) => child.on('close', resolve));
    const writer = await promises.open(fifo, 'w'); // resolves once the examples are being read
    await writer.write(content);
    await writer.close();
    child.kill('SIGINT');
    expect(await ended).toBe(130);
    expect(err).toBe(`heed: stopped by SIGINT; ${rest.replace('OUT', out)}\n`);
    expect(existsSync(out)).toBe(false);
  });
});

describe('examples', () => {
  test('of files of any length', async () => {
    const rows = 150_000; // exceeds the maximum number of arguments of a call
    writeFileSync(path('long.jsonl'), '{"text":"a","label":"x"}\n'.repeat(rows));
    const found = await readRows([path('long.jsonl'), path('examples.csv')], {});
    expect(found).toHaveLength(rows + examples.length);
    expect(found[rows - 1]!.at).toBe(`${path('long.jsonl')}:${rows}`);
  });

  test.each([
    ['mark.jsonl', '\uFEFF{"text":"a","label":"x"}\n'],
    ['mark.csv', '\uFEFFtext,label\r\na,x\r\n'],
  ])('%s: a byte order mark is ignored', async (name, content) => {
    writeFileSync(path(name), content);
    expect(await readExamples([path(name)], { field: 'text', label: 'label' })).toEqual([{ text: 'a', label: 'x' }]);
  });
});
