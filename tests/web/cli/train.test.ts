import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load } from 'heed';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

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

describe('heed train classifier', () => {
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
      [[path('bad.jsonl'), '--out', path('no')], "bad.jsonl:1: expected a text under 'label', got none", 1],
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
    expect((await run('train')).err).toContain('train: expected classifier');
    const without = await run('evaluate', csv);
    expect(without.err).toContain('labels of the model (it has none)');
  });
});
