/** Options without an effect, rows that would be cut, and ids that an index cannot store are errors. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'heed';
import { expect, test } from 'vitest';
import { modelFolder, run } from './support.js';

const { heed, path } = modelFolder();
writeFileSync(path('labels.csv'), 'text,label\nthe fox,a\na x,b\nthe brown fox,a\nquick,b\n');
writeFileSync(path('pairs.csv'), 'a,b,score\nthe fox,a fox,1\na x,the x,0\n');

const out = (name: string) => ['--out', path(name)];
const train = (...args: string[]) => ['train', 'classifier', path('labels.csv'), ...out('trained'), ...args];

test.each<[string[], string]>([
  ...['--rank=4', '--alpha=4', '--targets=*'].map((option): [string[], string] => [
    train(option),
    `${option.split('=')[0]}: expected --train lora, without which it has no effect`,
  ]),
  [train('--resume'), '--resume: expected a --train other than head'],
  [train('--patience', '2'), '--patience: expected --validation'],
  [train('--validation', '1'), "--validation: expected a file, or a fraction above 0 and below 1, got '1'"],
  [train('--label-separator', ''), "--label-separator: expected at least one character, got ''"],
  [
    ['train', 'embedding', path('pairs.csv'), ...out('trained'), '--train', 'head'],
    "--train: expected full, lora or names of parameters, got 'head': sentence vectors have no head",
  ],
  [['evaluate', path('pairs.csv'), '--task', 'similarity', '--label', 'x'], '--label: expected --task classification'],
  [['evaluate', path('labels.csv'), '--corpus', 'x'], '--corpus: expected --task retrieval'],
  [['embed', path('texts.txt'), '--field', 'body'], '--field: expected a file with keys or columns, got lines'],
  [['embed', path('texts.txt'), '--id', 'key'], '--id: expected a file with keys or columns, got lines'],
  [['embed', path('texts.txt'), '--delimiter', ';'], '--delimiter: expected a CSV file, got lines'],
  [['search', 'x', '--field', 'body'], '--field: expected a file with keys or columns, got lines'],
  [['quantize', '.', ...out('q'), '--field', 'body'], '--field: expected --texts, without which it has no effect'],
])('%j', async (args, message) => {
  const { code, err } = args[0] === 'quantize' ? await run(args) : await heed(args);
  expect(err).toMatch(/^heed: [^\n]+\n$/);
  expect(err).toContain(message);
  expect(err).not.toMatch(/trainClassifier|trainEmbedding|train 'head'/);
  expect(code).toBe(2);
});

test.each(['--retry', '--lock=9', '--table=t'])('heed corpus work %s without its server', async (option) => {
  const needed = { '--table=t': '--to', '--retry': '--queue or --to' }[option] ?? '--queue';
  const { code, err } = await run(['corpus', 'work', path('plan'), option]);
  expect([code, err]).toEqual([2, expect.stringContaining(`: expected ${needed}, without which it has no effect`)]);
});

test('messages have the names of the command line', async () => {
  const { err } = await heed(['embed', path('texts.txt'), '--dimensions', '99999']);
  expect(err).toMatch(/^heed: --dimensions: expected /);
});

test.each(['texts.json', 'embed.json'])('messages have the names of files as they were given: %s', async (name) => {
  const folder = path('named');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, name), '[{]');
  const { code, err } = await run(['embed', name], { cwd: folder });
  expect([code, err]).toEqual([1, expect.stringContaining(`heed: ${name}: `)]);
});

test.each([['embed'], ['search', 'x'], ['index', ...out('cut.safetensors')], ['classify']])(
  '%j refuses a row with more cells than the header',
  async (...command) => {
    writeFileSync(path('cut.csv'), 'label,text\npos,the fox\npos,I like it, really a lot\n');
    const { code, err } = await heed([...command, path('cut.csv')]);
    expect([code, err]).toEqual([
      1,
      `heed: ${path('cut.csv')}: row 3: expected at most 2 cells, as the header has, got 3. Put cells that contain the delimiter in double quotes\n`,
    ]);
  },
);

test.each([
  ['duplicates', ['3', '3'], 'row 3: expected .* got 3, the id of .*row 2'],
  ['missing', ['3', ''], "row 3: expected .* got ''"],
])('ids of an index: %s', async (name, [a, b], message) => {
  const file = path(`${name}.csv`);
  writeFileSync(file, `sku,text\n${a},the fox\n${b},a x\n`);
  const refused = await heed(['index', file, '--id', 'sku', ...out(`${name}.safetensors`)]);
  expect(refused.code).toBe(1);
  expect(refused.err).toMatch(new RegExp(message));
  expect(refused.err).toContain('a text or an integer from 0 to 2^53 - 1');
  // Without --id, the column id is used if an index can store it, and a line says if not.
  writeFileSync(file, `id,text\n${a},the fox\n${b},a x\n`);
  const { code, err } = await heed(['index', file, ...out(`${name}.safetensors`)]);
  expect([code, err]).toEqual([0, expect.stringContaining('the ids of the texts are 0, 1, 2, ...')]);
});

test.each([
  ['integers', ['7', '3'], [3, 7]],
  ['texts', ['A-1', 'B-2'], ['A-1', 'B-2']],
  ['texts that look like integers', ['007', '8'], ['007', '8']],
])('ids of an index: %s', async (_, [a, b], expected) => {
  writeFileSync(path('ids.csv'), `sku,text\n${a},the fox\n${b},a x\n`);
  const { err } = await heed(['index', path('ids.csv'), '--id', 'sku', ...out('ids.safetensors'), '--force']);
  expect(err).toBe('');
  const { TextIndex } = await load();
  const index = await TextIndex.load(path('ids.safetensors'));
  const hits = index.search(new Float32Array(index.dimensions).fill(1));
  expect(hits.map(({ id }) => id).sort()).toEqual(expected);
});

test('ids of an index: a text without one', async () => {
  writeFileSync(path('gap.jsonl'), '{"id":7,"text":"the fox"}\n{"text":"a x"}\n');
  const { err } = await heed(['index', path('gap.jsonl'), ...out('gap.safetensors')]);
  expect(err).toMatch(/an index stores unique ids, and .* has no id\n$/);
});
