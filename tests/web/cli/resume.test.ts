/** --resume continues a file only with the model, options and texts with which it was begun. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeFolder, run } from './support.js';

let folder: string;
let other: string;
const path = (name: string) => join(folder, name);
const texts = ['the fox', 'a quick x', 'the brown fox', 'x y z'];

beforeAll(() => {
  folder = makeFolder();
  other = makeFolder();
  // The same model except for one weight.
  const weights = fs.readFileSync(join(other, 'model.safetensors'));
  const header = 8 + Number(weights.readBigUInt64LE(0));
  for (let at = header; at + 4 <= weights.length; at += 4) weights.writeFloatLE(weights.readFloatLE(at) * 1.01, at);
  fs.writeFileSync(join(other, 'model.safetensors'), weights);
  fs.writeFileSync(path('texts.txt'), texts.join('\n'));
});
afterAll(() => {
  for (const each of [folder, other]) fs.rmSync(each, { recursive: true });
});

/** Writes an incomplete file. `isKilled`: as a killed process leaves it, with its fingerprint. */
async function unfinished(name: string, args: string[], isKilled: boolean): Promise<string> {
  const out = path(name);
  for (const each of [out, `${out}.resume.json`]) fs.rmSync(each, { force: true });
  fs.writeFileSync(
    path('bad.jsonl'),
    `${texts
      .slice(0, 2)
      .map((text) => JSON.stringify(text))
      .join('\n')}\n`,
  );
  if (isKilled) {
    // Batches are written completely; the error is in the second one.
    fs.writeFileSync(path('bad.jsonl'), `${'"the fox"\n'.repeat(256)}nonsense\n`);
    expect((await run([...args, path('bad.jsonl'), '--out', out])).code).toBe(1);
    expect(fs.existsSync(`${out}.resume.json`)).toBe(true);
    fs.writeFileSync(path('good.jsonl'), `${'"the fox"\n'.repeat(256)}"x"\n`);
  } else {
    expect((await run([...args, path('bad.jsonl'), '--out', out])).code).toBe(0);
    fs.writeFileSync(path('good.jsonl'), texts.map((text) => JSON.stringify(text)).join('\n'));
  }
  return out;
}

describe.each([
  ['embed', 'out.jsonl'],
  ['embed', 'out.npy'],
  ['classify', 'labels.jsonl'],
])('heed %s --out %s', (command, name) => {
  const changes: [string[], RegExp][] = [
    [['--dtype', 'q8'], /--dtype "q8" instead of "fp32"/],
    ...(command === 'classify'
      ? ([[['--top', '1'], /--top 1 instead of the default/]] as [string[], RegExp][])
      : ([
          [['--prompt', 'query: '], /--prompt "query: " instead of the default/],
          [['--dimensions', '8'], /--dimensions 8 instead of the default/],
          [['--output', 'int8'], /--output "int8" instead of "float32"/],
        ] as [string[], RegExp][])),
  ];

  test('other options, another model: what differs is named', async () => {
    const args = [command, '--model', folder];
    const out = await unfinished(name, args, true);
    const before = fs.readFileSync(out);
    const again = [path('good.jsonl'), '--out', out, '--resume'];
    for (const [given, message] of changes) {
      const { code, err } = await run([...args, ...again, ...given]);
      expect(err).toMatch(message);
      expect(err).toMatch(/^heed: --resume: expected the model and the options with which [^\n]*\n$/);
      expect(code).toBe(2);
    }
    const { err } = await run([command, '--model', other, ...again]);
    expect(err).toContain(`got the model ${other} instead of ${folder}`);
    expect(fs.readFileSync(out).equals(before)).toBe(true);
    expect(await run([...args, ...again])).toMatchObject({ code: 0, err: '' });
    expect(fs.existsSync(`${out}.resume.json`)).toBe(false);
  });

  test('without a fingerprint, the last record tells', async () => {
    const args = [command, '--model', folder];
    const out = await unfinished(name, args, false);
    const again = [path('good.jsonl'), '--out', out, '--resume'];
    const before = fs.readFileSync(out);
    for (const [given] of changes) expect((await run([...args, ...again, ...given])).code).not.toBe(0);
    const { code, err } = await run([command, '--model', other, ...again]);
    expect([code, err]).toEqual([
      2,
      expect.stringMatching(/^heed: --resume: the last record of --out .* for text 2 of the input/),
    ]);
    fs.writeFileSync(path('reversed.txt'), [...texts].reverse().join('\n'));
    expect((await run([...args, path('reversed.txt'), '--out', out, '--resume'])).err).toContain(
      'for text 2 of the input',
    );
    fs.writeFileSync(path('one.txt'), 'the fox');
    expect((await run([...args, path('one.txt'), '--out', out, '--resume'])).err).toContain(
      'expected an input of at least 2 texts, which --out has, got 1 text',
    );
    expect(fs.readFileSync(out).equals(before)).toBe(true);
    expect(await run([...args, ...again])).toMatchObject({ code: 0, err: '' });
  });
});

test('a file that heed did not write is not continued', async () => {
  for (const [name, content] of [
    ['notes.npy', 'my notes'],
    ['notes.jsonl', 'my notes\nmore of them\n'],
  ] as const) {
    fs.writeFileSync(path(name), content);
    const { code } = await run(['embed', path('texts.txt'), '--model', folder, '--out', path(name), '--resume']);
    expect(code).not.toBe(0);
    expect(fs.readFileSync(path(name), 'utf8')).toBe(content);
  }
});
