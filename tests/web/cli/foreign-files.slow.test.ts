/**
 * No command deletes, cuts or replaces a file that it did not make: a folder of files that look like heed's has the same
 * files with the same contents after every command of the command line.
 */
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { changed, FOREIGN, FOREIGN_PARTS, place, snapshot } from '../foreign-files.js';
import { makeFolder, run, script } from './support.js';

let folder: string;
let model: string;

beforeAll(() => {
  model = makeFolder();
  folder = fs.mkdtempSync(join(tmpdir(), 'heed-foreign-'));
  place(folder, {
    ...FOREIGN,
    'texts.txt': 'the fox\na quick x\nthe brown fox\nx y z\n',
    'pairs.csv': 'a,b\nthe fox,a fox\na x,the x\nquick,brown\n',
    'scored.csv': 'a,b,score\nthe fox,a fox,1\na x,the x,0.5\nquick,brown,0\n',
    'labels.csv': 'text,label\nthe fox,a\na x,b\nthe brown fox,a\nquick,b\n',
  });
});
afterAll(() => {
  for (const each of [folder, model]) fs.rmSync(each, { recursive: true, force: true });
});

const inFolder = (args: string[]) => {
  const named = args.map((arg) => (arg === '@' ? model : arg));
  const { status, stderr } = spawnSync(process.execPath, [script, ...named], { cwd: folder, encoding: 'utf8' });
  return { code: status, err: stderr };
};

/** Plans, and puts files of others into the folder of the plan. */
function plan(out: string, works = false): void {
  const args = ['corpus', 'plan', 'texts.txt', '--model', '@', '--chunk', '2', '--out', out];
  expect(inFolder(args)).toEqual({ code: 0, err: '' });
  if (works) expect(inFolder(['corpus', 'work', out])).toEqual({ code: 0, err: '' });
  place(join(folder, out), { ...FOREIGN, ...FOREIGN_PARTS });
}

/** The command lines of each command, with their exit codes (undefined: any). `prepare` is called before them. */
interface Case {
  args: string[];
  code: number | undefined;
  prepare?: () => void;
}
const of = (code: number | undefined, args: string[], prepare?: () => void): Case => ({ args, code, prepare });

const intoFiles = (command: string, names: string[]) =>
  names.flatMap((out) => [
    of(2, [command, 'texts.txt', '--model', '@', '--out', out]),
    of(2, [command, 'texts.txt', '--model', '@', '--out', out, '--resume']),
  ]);
const training = (kind: string, file: string): Case[] => {
  const args = ['train', kind, file, '--model', '@', '--epochs', '1', '--train', 'full', '--out'];
  return [
    of(0, [...args, `free-${kind}`]),
    ...['out', 'seeds', 'state'].flatMap((out) => [of(2, [...args, out]), of(2, [...args, out, '--resume'])]),
  ];
};

const COMMANDS: Record<string, Case[]> = {
  embed: [
    of(0, ['embed', 'texts.txt', '--model', '@', '--out', 'out.jsonl']),
    of(0, ['embed', 'texts.txt', '--model', '@', '--out', 'out.npy']),
    ...intoFiles('embed', ['notes', 'data.jsonl', 'notes.npy']),
    of(1, ['embed', 'texts.txt', '--model', 'out.training', '--out', 'never.jsonl']),
  ],
  search: [of(0, ['search', 'fox', 'texts.txt', '--model', '@'])],
  classify: [
    of(0, ['classify', 'texts.txt', '--model', '@', '--out', 'out.ndjson']),
    ...intoFiles('classify', ['notes', 'data.jsonl']),
  ],
  index: [
    of(0, ['index', 'texts.txt', '--model', '@', '--out', 'new.safetensors']),
    of(2, ['index', 'texts.txt', '--model', '@', '--out', '.']),
    of(2, ['index', 'texts.txt', '--model', '@', '--out', '.', '--force']),
  ],
  quantize: [of(0, ['quantize', '@', '--out', 'free']), of(2, ['quantize', '@', '--out', 'out.training'])],
  prune: [
    of(0, ['prune', '@', '--keep', 'texts.txt', '--out', 'pruned']),
    of(2, ['prune', '@', '--keep', 'texts.txt', '--out', 'out.training']),
  ],
  'train classifier': [
    ...training('classifier', 'labels.csv'),
    // The folder that its state would be in has the training data.
    of(2, ['train', 'classifier', 'out.training/data.csv', '--model', '@', '--epochs', '1', '--out', 'out']),
  ],
  'train embedding': training('embedding', 'pairs.csv'),
  evaluate: [of(undefined, ['evaluate', 'scored.csv', '--task', 'similarity', '--model', '@'])],
  inspect: [of(0, ['inspect', '@']), of(1, ['inspect', 'out.training'])],
  doctor: [of(undefined, ['doctor', '.'])],
  'corpus plan': [
    of(0, ['corpus', 'plan', 'texts.txt', '--model', '@', '--out', 'planned']),
    of(2, ['corpus', 'plan', 'texts.txt', '--model', '@', '--out', 'notes']),
  ],
  'corpus work': [
    of(0, ['corpus', 'work', 'work'], () => plan('work')),
    of(1, ['corpus', 'work', 'failed'], () => {
      plan('failed');
      place(join(folder, 'failed'), { 'part-00000.failed': '{"mine":true}' });
    }),
  ],
  'corpus status': [of(0, ['corpus', 'status', 'status'], () => plan('status'))],
  'corpus finish': [
    of(0, ['corpus', 'finish', 'finish'], () => plan('finish', true)),
    of(1, ['corpus', 'finish', 'early'], () => plan('early')),
    ...[true, false].map((works) =>
      of(1, ['corpus', 'finish', `success-${works}`], () => {
        plan(`success-${works}`, works);
        place(join(folder, `success-${works}`), { _SUCCESS: 'mine' });
      }),
    ),
    of(1, ['corpus', 'finish', 'parts'], () => {
      plan('parts');
      place(join(folder, 'parts'), { 'part-00000.jsonl': '{"text":"mine"}\n' });
    }),
  ],
  'cache list': [of(0, ['cache', 'list', '--cache', '.'])],
  'cache clear': [
    of(0, ['cache', 'clear', '--all', '--cache', '.']),
    of(1, ['cache', 'clear', 'org/name', '--cache', '.']),
  ],
  completion: [of(0, ['completion', 'bash'])],
  help: [of(0, ['help', 'embed'])],
};

test('the table has every command', async () => {
  const words = async (...given: string[]) =>
    (await run(['complete', '--', ...given])).out
      .split('\n')
      .map((line) => line.split('\t')[0]!)
      .filter((word) => /^[a-z]+$/.test(word));
  const found: string[] = [];
  for (const name of await words('')) {
    const help = (await run([name, '--help'])).out;
    const children = help.includes('\nCommands:\n') ? await words(name, '') : [];
    if (children.length > 0) found.push(...children.filter((each) => each !== 'help').map((each) => `${name} ${each}`));
    else found.push(name);
  }
  expect(found.sort()).toEqual(Object.keys(COMMANDS).sort());
});

test.each(Object.keys(COMMANDS))('heed %s', (name) => {
  for (const { args, code, prepare } of COMMANDS[name]!) {
    prepare?.();
    const before = snapshot(folder);
    const ended = inFolder(args);
    expect({ args, changed: changed(folder, before) }).toEqual({ args, changed: [] });
    expect({ args, code: ended.code, err: ended.err }).toEqual({
      args,
      code: code ?? expect.any(Number),
      err: code === 0 ? '' : expect.any(String),
    });
  }
});
