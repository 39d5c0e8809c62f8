import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tinyModel } from '../models/tiny.js';

const script = fileURLToPath(new URL('../../../dist/cli.js', import.meta.url));
let folder: string;
const path = (name: string) => join(folder, name);

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'heed-'));
  for (const [name, content] of Object.entries(tinyModel()))
    if (!name.includes('/')) writeFileSync(path(name), content);
});
afterAll(() => rmSync(folder, { recursive: true }));

const heed = (args: string[]) =>
  spawnSync(process.execPath, [script, ...args, '--model', folder], { encoding: 'utf8', input: '' });

describe('a file of texts that cannot be read is one line, which says where', () => {
  test.each([
    ['a.jsonl', '{"text": "the fox"}\n{"text": \n', [], /a\.jsonl:2: got a line that is no JSON/],
    ['b.jsonl', '{"body": "the fox"}\n', [], /b\.jsonl:1: got no text under 'text'.*--field/],
    ['c.jsonl', 'null\n', [], /c\.jsonl:1: got no text under 'text'/],
    ['d.csv', 'n,body\n1,fox\n', [], /d\.csv: got columns n, body; expected one called 'text'/],
    ['e.csv', 'n,text\n1,fox\n2\n', [], /e\.csv: row 3: got 1 cells; expected at least 2/],
  ])('%s', (name, content, options, message) => {
    writeFileSync(path(name), content);
    const { status, stderr } = heed(['embed', path(name), ...options]);
    expect(stderr).toMatch(message);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(status).toBe(1);
  });

  test('descriptions that are no list of texts', () => {
    writeFileSync(path('f.jsonl'), '{"text": "fox", "descriptions": ["the fox", 3]}\n');
    const { status, stderr } = heed(['index', path('f.jsonl'), '--out', path('f.safetensors')]);
    expect(stderr).toMatch(/f\.jsonl:1: descriptions: got \["the fox",3\]; expected a list of texts/);
    expect(status).toBe(1);
  });
});

test('JSON lines may be texts by themselves', () => {
  writeFileSync(path('texts.jsonl'), '"the fox"\n\n"a quick x"\n');
  const { status, stdout } = heed(['embed', path('texts.jsonl')]);
  expect(status).toBe(0);
  const texts = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).text);
  expect(texts).toEqual(['the fox', 'a quick x']);
});

test('a .npy file that heed did not write is left as it is', () => {
  writeFileSync(path('texts.txt'), 'the fox\n');
  writeFileSync(path('other.npy'), 'x'.repeat(400));
  const { status, stderr } = heed(['embed', path('texts.txt'), '--out', path('other.npy'), '--resume']);
  expect(stderr).toMatch(/other\.npy: got a file that heed did not write/);
  expect(status).toBe(1);
});

test('one file does not hold what another call would write into it', () => {
  writeFileSync(path('two.txt'), 'the fox\na quick x\n');
  expect(heed(['embed', path('texts.txt'), '--out', path('narrow.npy'), '--dimensions', '2']).status).toBe(0);
  const wider = heed(['embed', path('two.txt'), '--out', path('narrow.npy'), '--resume']);
  expect(wider.stderr).toMatch(/narrow\.npy: got vectors of \d+ entries; expected 2/);
  expect(wider.status).toBe(1);
});
