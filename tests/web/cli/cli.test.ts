import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { csvRows } from '../../../web/src/cli/rows.js';
import { modelFolder } from './support.js';

const { folder, heed, path } = modelFolder();

const rows = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { text: string; embedding: number[] });

async function expected(texts: string[]): Promise<number[][]> {
  using model = await (await load()).fromPretrained(folder);
  return (await model.embed(texts)).toArray() as number[][];
}

function expectVectors(actual: number[][], wanted: number[][]): void {
  expect(actual).toHaveLength(wanted.length);
  actual.forEach((row, n) => {
    for (const [i, v] of row.entries()) expect(v).toBeCloseTo(wanted[n]![i]!, 5);
  });
}

describe('heed embed', () => {
  test('reads lines, JSON lines and CSV, from files and from standard input', async () => {
    const texts = ['the fox', 'a quick x', 'the brown fox'];
    writeFileSync(path('texts.jsonl'), texts.map((body) => JSON.stringify({ body, n: 1 })).join('\n'));
    writeFileSync(path('texts.csv'), `n,body\r\n${texts.map((body, n) => `${n},"${body}"`).join('\r\n')}\r\n`);
    const wanted = await expected(texts);
    const runs = [
      heed(['embed', path('texts.txt')]),
      heed(['embed', path('texts.jsonl'), '--field', 'body']),
      heed(['embed', path('texts.csv'), '--field', 'body']),
      heed(['embed'], texts.join('\n')),
    ];
    for (const { out, err, code } of await Promise.all(runs)) {
      expect(err).toBe('');
      expect(code).toBe(0);
      expect(rows(out).map(({ text }) => text)).toEqual(texts);
      expectVectors(
        rows(out).map(({ embedding }) => embedding),
        wanted,
      );
    }
  });

  test('a file that exists is kept', async () => {
    const out = path('out.jsonl');
    expect((await heed(['embed', path('texts.txt'), '--out', out])).code).toBe(0);
    const whole = readFileSync(out, 'utf8');
    expect(await heed(['embed', path('texts.txt'), '--out', out])).toEqual({
      ...{ code: 2, out: '' },
      err: `heed: --out: expected a new file, got '${out}', which exists\n`,
    });
    expect(readFileSync(out, 'utf8')).toBe(whole);
  });

  test('writes NumPy files', async () => {
    const out = path('out.npy');
    await heed(['embed', path('texts.txt'), '--out', out]);
    const whole = readFileSync(out);
    expect(whole.subarray(1, 6).toString()).toBe('NUMPY');
    expect(whole.subarray(10, 128).toString()).toMatch(/'descr': '<f4', 'fortran_order': False, 'shape': \(3, 24\)/);
    const vectors = new Float32Array(whole.buffer.slice(whole.byteOffset + 128, whole.byteOffset + whole.length));
    expectVectors(
      [0, 1, 2].map((n) => [...vectors.subarray(n * 24, n * 24 + 24)]),
      await expected(['the fox', 'a quick x', 'the brown fox']),
    );
  });

  test('has the numbers of the .npy file in JSON lines, too: nine digits', async () => {
    const [lines, matrix] = [path('digits.jsonl'), path('digits.npy')];
    for (const out of [lines, matrix]) expect((await heed(['embed', path('texts.txt'), '--out', out])).code).toBe(0);
    const bytes = readFileSync(matrix);
    const exact = new Float32Array(bytes.buffer.slice(bytes.byteOffset + 128, bytes.byteOffset + bytes.length));
    const found = rows(readFileSync(lines, 'utf8')).flatMap(({ embedding }) => embedding);
    expect(Float32Array.from(found)).toEqual(exact);
  });
});

test('warns of texts that are cut, or refuses them', async () => {
  writeFileSync(path('long.txt'), `the fox\n${'a '.repeat(60)}\n${'x '.repeat(50)}\n`);
  const { config } = await (await load()).fromPretrained(folder);
  const cut = 62 - config.maxLength + 52 - config.maxLength;
  const warning = `heed: 2 texts cut to the model's limit of ${config.maxLength} tokens, ${cut} tokens dropped; --no-truncation makes that an error\n`;
  for (const command of [['embed'], ['classify'], ['search', 'the fox']]) {
    const { err, code } = await heed([...command, path('long.txt')]);
    expect(err, command[0]).toBe(warning);
    expect(code).toBe(0);
  }
  expect((await heed(['embed', path('texts.txt')])).err).toBe('');
  const refused = await heed(['embed', path('long.txt'), '--no-truncation']);
  expect(refused.code).toBe(1);
  expect(refused.err).toBe(
    `heed: '${'a '.repeat(20)}…': expected at most ${config.maxLength} tokens, got 62. Shorten it, or leave out --no-truncation\n`,
  );
});

test('heed classify writes labels', async () => {
  const { out } = await heed(['classify', path('texts.txt'), '--top', '1']);
  const lines = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { text: string; labels: { label: string }[] });
  expect(lines).toHaveLength(3);
  expect(['low', 'middle', 'high']).toContain(lines[0]!.labels[0]!.label);
});

test('heed search ranks an identical text first, in files and in an index', async () => {
  const { out } = await heed(['search', 'a quick x', path('texts.txt'), '--top', '2']);
  expect(out.split('\n')[0]).toBe('1.000  a quick x');
  const both = await heed(['search', 'a quick x', path('texts.txt'), '-', '--top', '2'], 'a quick x\n');
  expect(both.out).toBe(
    `1.000  ${path('texts.txt')}:2  a quick x\n1.000  ${'-:1'.padEnd(path('texts.txt:2').length)}  a quick x\n`,
  );
  writeFileSync(path('words.txt'), readFileSync(path('texts.txt')));
  const made = await heed(['index', path('words.txt'), '--out', path('index.safetensors')]);
  expect(made.out).toContain('3 texts, 24 dimensions');
  const found = await heed(['search', 'a quick x', '--index', folder]);
  expect(found.out.split('\n')[0]).toMatch(/^(1\.000|0\.99\d) {2}a quick x$/);
  using model = await (await load()).fromPretrained(folder);
  const index = await (await load()).TextIndex.load(folder);
  const [hit] = index.search(await model.embed('the brown fox'));
  expect(hit).toMatchObject({ index: 2, text: 'the brown fox' });
});

test('heed index combines a text with its descriptions', async () => {
  const entries = [
    { word: 'fox', descriptions: ['the quick brown animal', 'a x of the lazy dog'] },
    { word: 'the dog' }, // without any
    { word: 'quick', descriptions: [] },
  ];
  mkdirSync(path('described'));
  writeFileSync(path('described/in.jsonl'), entries.map((entry) => JSON.stringify(entry)).join('\n'));
  const out = path('described/index.safetensors');
  const args = ['index', path('described/in.jsonl'), '--field', 'word', '--weight', '2', '--dimensions', '16'];
  const made = await heed([...args, '--out', out]);
  expect(made.err).toBe('');
  expect(made.out).toContain('3 texts, 16 dimensions');
  const index = await (await load()).TextIndex.load(path('described'));
  expect(index.texts).toEqual(['fox', 'the dog', 'quick']);

  using model = await (await load()).fromPretrained(folder);
  const unit = async (text: string) =>
    ((await model.embed(text, { normalize: true, dimensions: 16 })).toArray() as number[][])[0]!;
  const [word, first, second] = await Promise.all(['fox', ...entries[0]!.descriptions!].map(unit));
  const sum = word!.map((v, i) => v + first![i]! + second![i]!); // 2 * mean of two
  const length = Math.hypot(...sum);
  const found = index.toTensor().toArray() as number[][];
  for (const [row, wanted] of [sum.map((v) => v / length), await unit('the dog'), await unit('quick')].entries())
    for (const [i, v] of wanted.entries()) expect(Math.abs(found[row]![i]! - v)).toBeLessThan(0.01); // int8

  writeFileSync(path('wrong.jsonl'), '{"text":"fine"}\n{"text":"a","descriptions":"b"}\n');
  expect((await heed(['index', path('wrong.jsonl'), '--out', out, '--force'])).err).toContain(
    'wrong.jsonl:2: descriptions: expected a list of texts, got "b"',
  );
  for (const weight of ['-1', 'much', ''])
    expect((await heed([...args, '--out', out, `--weight=${weight}`])).err).toContain(
      `--weight: expected a number of at least 0, got '${weight}'`,
    );
});

test('heed embed --type writes integers with their scale, or bits', async () => {
  const wanted = await expected(['the fox', 'a quick x', 'the brown fox']);
  type Row = { scale?: number; embedding: number[] };
  const int8 = rows((await heed(['embed', path('texts.txt'), '--type', 'int8'])).out) as unknown as Row[];
  int8.forEach(({ scale, embedding }, n) => {
    for (const [i, q] of embedding.entries()) expect(Math.abs(q * scale! - wanted[n]![i]!)).toBeLessThan(0.51 * scale!);
  });
  const bits = rows((await heed(['embed', path('texts.txt'), '--type', 'binary'])).out) as unknown as Row[];
  const first = Array.from({ length: 8 }, (_, i) => +(wanted[1]![i]! > 0)).join('');
  expect(bits.map((row) => [row.scale, row.embedding.length])).toEqual(Array(3).fill([undefined, 3]));
  expect(bits[1]!.embedding[0]).toBe(Number.parseInt(first, 2));
  const out = path('bits.npy');
  expect((await heed(['embed', path('texts.txt'), '--type', 'int8', '--out', out])).err).not.toContain('heed:');
  const file = readFileSync(out);
  expect(file.toString('latin1', 0, 128)).toContain("'descr': '|i1', 'fortran_order': False, 'shape': (3, 24)");
  expect([...new Int8Array(file.subarray(128, 152))]).toEqual(int8[0]!.embedding);
});

test('CSV cells may have quotes, commas and line breaks, however they are split into chunks', async () => {
  const text = '\uFEFFa,b\r\n"x, ""y""\nz",\n,"2"\n\nü"u,\u2028\nlast,"q"';
  for (let size = 1; size < 8; size++) {
    const chunks = (async function* () {
      for (let at = 0; at < text.length; at += size) yield text.slice(at, at + size);
    })();
    const found = [];
    for await (const { record } of csvRows(chunks)) found.push(record);
    expect(found).toEqual([['a', 'b'], ['x, "y"\nz', ''], ['', '2'], [''], ['ü"u', '\u2028'], ['last', 'q']]);
  }
});

describe('a file of texts that cannot be read is reported in one line with its place', () => {
  test.each([
    [
      'a.jsonl',
      '{"text": "the fox"}\n{"text": \n',
      /a\.jsonl:2: expected a text or an object, such as .*, got a line that is not JSON/,
    ],
    [
      'b.jsonl',
      '{"body": "the fox"}\n',
      /b\.jsonl:1: expected a text under 'text', got body\. Name another key with --field/,
    ],
    ['c.jsonl', 'null\n', /c\.jsonl:1: expected a text or an object, .*, got null/],
    ['two.csv', 'text,text\nfox,cat\n', /two\.csv: expected one column 'text', got several/],
    ['d.csv', 'n,body\n1,fox\n', /d\.csv: expected a column 'text', got n, body\. Name another with --field/],
    ['e.csv', 'n,text\n1,fox\n2\n', /e\.csv: row 3: expected at least 2 cells, got 1/],
    [
      'f.csv',
      'n,text\n1,"fox\n2,dog\n',
      /f\.csv: expected CSV as in RFC 4180, got a file that cannot be parsed \(Quote Not Closed.*line 3\)/,
    ],
  ])('%s', async (name, content, message) => {
    writeFileSync(path(name), content);
    const { code, err } = await heed(['embed', path(name)]);
    expect(err).toMatch(message);
    expect(err.trim().split('\n')).toHaveLength(1);
    expect(code).toBe(1);
  });

  test('descriptions that are not a list of texts', async () => {
    writeFileSync(path('f.jsonl'), '{"text": "fox", "descriptions": ["the fox", 3]}\n');
    const { code, err } = await heed(['index', path('f.jsonl'), '--out', path('f.safetensors')]);
    expect(err).toMatch(/f\.jsonl:1: descriptions: expected a list of texts, got \["the fox",3\]/);
    expect(code).toBe(1);
  });
});

test('streams longer than a batch keep their order', async () => {
  const texts = Array.from(
    { length: 600 },
    (_, n) => `${['fox', 'the', 'quick', 'x'][n % 4]! + ' 0'.repeat(n % 7)} ${n % 10}`,
  );
  writeFileSync(path('long.txt'), texts.join('\n'));
  const wanted = await expected(texts);
  const { out } = await heed(['embed', path('long.txt')]);
  expect(rows(out).map(({ text }) => text)).toEqual(texts);
  expectVectors(
    rows(out).map(({ embedding }) => embedding),
    wanted,
  );

  const best = await heed(['search', texts[590]!, path('long.txt'), '--top', '1']);
  expect(best.out).toMatch(/^1\.000 /);

  mkdirSync(path('long'));
  expect((await heed(['index', path('long.txt'), '--out', path('long/index.safetensors')])).out).toContain('600 texts');
  const vectors = (await (await load()).TextIndex.load(path('long'))).toTensor().toArray() as number[][];
  for (const n of [0, 255, 256, 511, 599]) {
    const norm = Math.hypot(...wanted[n]!);
    for (const [i, v] of vectors[n]!.entries()) expect(Math.abs(v - wanted[n]![i]! / norm)).toBeLessThan(0.01); // int8
  }
});
