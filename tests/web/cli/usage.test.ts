/** Help, options and wrong usage of the commands. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { modelFolder, run } from './support.js';

const { heed, path } = modelFolder();

test.each([
  [['embed', '--normalize', '--no-normalize'], '--normalize: expected only one of --normalize and --no-normalize'],
  [['search', 'fox', 'texts.txt', '--index', 'folder'], '--index: expected only one of --index and files'],
  [['inspect', 'one', '--model', 'other'], '--model: expected only one of --model and a model'],
])('refuses %j', async (args, message) => {
  const { code, err } = await heed(args);
  expect([code, err]).toEqual([2, `heed: ${message}, got both\n`]);
});

test('--strict refuses a model with settings that heed does not know', async () => {
  const text = readFileSync(path('config.json'), 'utf8');
  writeFileSync(path('config.json'), JSON.stringify({ ...JSON.parse(text), foo: 1 }));
  expect((await heed(['inspect'])).out).toMatch(/unread settings +config\.json: foo/);
  for (const command of ['inspect', 'embed']) {
    const { code, err } = await heed([command, '--strict'], 'a fox\n');
    expect(code).not.toBe(0);
    expect(err).toContain('config.json: foo');
  }
  writeFileSync(path('config.json'), text);
  for (const command of ['inspect', 'embed']) expect((await heed([command, '--strict'], 'a fox\n')).code).toBe(0);
});

test('every command has its own help and options', async () => {
  const all = await heed(['--help']);
  for (const [command, own, foreign, ...needed] of [
    ['embed', '--normalize', '--top'],
    ['search', '--index', '--out'],
    ['classify', '--top', '--pooling'],
    ['index', '--weight', '--normalize', '--out', 'index.safetensors'],
    ['quantize', '--tables', '--pooling', 'folder', '--out', 'new'],
    ['evaluate', '--label', '--pooling', 'test.csv'],
    ['inspect', '--dtype', '--out'],
    ['doctor', '--json', '--model'],
    ['completion', '--help', '--json', 'bash'],
  ] as const) {
    expect(all.out).toContain(`  ${command} `);
    const help = await heed([command, '--help']);
    expect([help.code, help.err]).toEqual([0, '']);
    expect(help.out).toContain(`Usage: heed ${command} `);
    expect(help.out).toContain(own);
    expect(help.out).not.toContain(foreign);
    const refused = await heed([command, foreign, ...needed]);
    expect(refused.code).toBe(2);
    expect(refused.err).toMatch(new RegExp(`^heed: unknown option '${foreign}'.*\`heed ${command} --help\``));
  }
});

test('the commands of the documentation have the options that they show', async () => {
  const pages = ['README.md', 'docs/command-line.md', 'docs/scale.md', 'docs/fine-tuning.md'];
  const text = pages.map((page) => readFileSync(new URL(`../../../${page}`, import.meta.url), 'utf8')).join('\n');
  const shown = [...text.matchAll(/npx heed ((?:corpus|train) [a-z]+|[a-z]+)([^#\n`]*)/g)].map(
    ([, name, rest]) => [name!, rest!] as const,
  );
  const names = [...new Set(shown.map(([name]) => name))];
  expect(names.sort()).toEqual([
    ...[
      'cache',
      'classify',
      'completion',
      'corpus finish',
      'corpus plan',
      'corpus status',
      'corpus work',
      'doctor',
      'embed',
      'evaluate',
      'help',
      'index',
      'inspect',
      'prune',
      'quantize',
    ],
    ...['search', 'train classifier', 'train embedding'],
  ]);
  const help = new Map(
    await Promise.all(names.map(async (name) => [name, (await run([...name.split(' '), '--help'])).out] as const)),
  );
  for (const [name, rest] of shown)
    for (const [option] of rest.matchAll(/--[a-z-]+/g)) expect(help.get(name)).toContain(`${option} `);
});

test('`heed help` prints what --help does', async () => {
  for (const [args, same] of [
    [['help'], ['--help']],
    [[], ['--help']],
    [
      ['help', 'embed'],
      ['embed', '--help'],
    ],
    [
      ['help', 'train', 'classifier'],
      ['train', 'classifier', '--help'],
    ],
  ] as const) {
    const { out, code } = await run([...args]);
    expect(code).toBe(0);
    expect(out).toBe((await run([...same])).out);
  }
  expect(await run(['help', 'nope'])).toMatchObject({ code: 2, out: '', err: expect.stringContaining("got 'nope'") });
  for (const [command, expected] of [
    ['train', 'classifier or embedding'],
    ['corpus', 'plan or work or status or finish'],
    ['embed', 'no subcommand'],
  ] as const)
    expect(await run(['help', command, 'nope'])).toEqual({
      ...{ code: 2, out: '' },
      err: `heed: ${command}: expected ${expected}, got 'nope'\n`,
    });
});

test.each([
  [['train', 'classifier', 'a.csv', '--out', 'new', '--nope'], 'heed train classifier --help'],
  [['--quiet', 'train', 'embedding', 'a.csv'], 'heed train embedding --help'],
  [['train', '--nope'], 'heed train --help'],
  [['classify', 'train', '--nope'], 'heed classify --help'],
  [['--nope'], 'heed --help'],
])('the error for %j names the help of the command', async (args, help) => {
  const { code, err } = await run(args);
  expect(code).toBe(2);
  expect(err).toMatch(new RegExp(`^heed: [^\n]+; \`${help}\` lists the options\n$`));
});

test.each([
  [
    ['nope'],
    "command: expected one of embed, search, classify, index, quantize, prune, train, evaluate, inspect, doctor, corpus, cache, completion, help, got 'nope'",
  ],
  [['serch', 'fox'], "got 'serch' (Did you mean search?)"],
  [['embed', '--otu', 'x'], "unknown option '--otu' (Did you mean --out?)"],
  [['embed', '--dtype', 'int4'], "--dtype: expected one of fp32, q8, got 'int4'"],
  [['embed', '--format', 'xml'], "--format: expected one of lines, jsonl, json, csv, tsv, got 'xml'"],
  [
    ['embed', '--pooling', 'cls+sum'],
    "--pooling: expected one of mean, cls, last, max, mean_sqrt_len, weighted_mean, or several joined by +, got 'cls+sum'",
  ],
  [['classify', '--top', '1.5'], "--top: expected a whole number of at least 1, got '1.5'"],
  [
    ['search', 'fox', '--index', 'folder', '--field', 'body'],
    "option '--index <file>' cannot be used with option '--field",
  ],
])('%j is refused with the legal values', async (args, message) => {
  const { code, err } = await heed(args);
  expect(code).toBe(2);
  expect(err).toContain(message);
});

test('mistakes of the caller are reported in one line, with exit code 2 for wrong usage and 1 for failures', async () => {
  for (const [expected, ...args] of [
    [2, 'nope'],
    [1, 'embed', '/no/such/file'],
    [2, 'embed', '--pooling', 'sum'],
    [2, 'embed', '--nope'],
    [2, 'search'],
    [2, 'embed', '--dimensions', '0'],
    [1, 'embed', path('texts.txt'), '--out', path('no/such/folder.jsonl')],
    [2, 'classify', path('texts.txt'), '--out', path('labels.npy')],
    [2, 'index'],
    [2, 'index', '-', '--out', path('x.safetensors')],
    [2, 'index', path('texts.txt'), path('texts.txt'), '--out', path('x.safetensors')],
    [2, 'index', path('texts.txt')],
    [2, 'index', path('texts.txt'), '--out', path('index.json')],
  ]) {
    const { err, code } = await heed(args as string[]);
    expect(code, args.join(' ')).toBe(expected);
    expect(err, args.join(' ')).toMatch(/^heed: [^\n]+\n$/);
  }
  expect(existsSync(path('labels.npy'))).toBe(false);
  expect((await heed(['embed', '--format', 'jsonl'], '{"text":')).err).toContain(
    'standard input:1: expected a text or an object, such as {"text": "..."}, got a line that is not JSON',
  );
});
