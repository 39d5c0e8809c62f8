/**
 * Every option of every command, as the command line lists them: what it changes, or how it is rejected. An option that
 * is not listed here fails the test.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { modelFolder, run } from './support.js';

const { folder, path } = modelFolder();
writeFileSync(
  path('texts.jsonl'),
  '{"text":"the fox","body":"a","key":7}\n{"text":"a quick x","body":"the","key":3}\n',
);

/** What an option does: arguments with which the output differs from that without it, or where it is tested. */
type Effect = string[] | string;

/** Shared options. The text says which test shows their effect. */
const HUB = {
  '--remote-host': 'files.test.ts: a model of a hub',
  '--cache': 'files.test.ts: a model of a hub',
  '--no-cache': 'files.test.ts: a model of a hub',
  '--refresh': 'files.test.ts: a model of a hub',
};
const MODEL = {
  '--model': 'every command here is run with it',
  '--dtype': ['--dtype', 'q8'],
  '--strict': 'usage.test.ts: unread settings',
  ...HUB,
};
const INPUT = {
  '--format': ['--format', 'lines'],
  '--delimiter': 'files.test.ts: columns are separated; ignored-options.test.ts',
  '--field': ['--field', 'body'],
  '--no-truncation': 'cli.test.ts: texts that are too long',
};
const SPEED = {
  '--workers': 'writers.slow.test.ts: the same results, from workers; input.test.ts',
  '--threads': 'readers.test.ts: the same results, on threads; input.test.ts',
};
const VECTORS = {
  '--pooling': ['--pooling', 'cls'],
  '--dimensions': ['--dimensions', '4'],
  '--prompt': ['--prompt', 'quick '],
};
const QUIET = { '--quiet': 'progress.test.ts', '--no-color': 'terminal.test.ts' };
const TRAINING = {
  '--train': 'train.slow.test.ts',
  '--rank': 'ignored-options.test.ts: without lora; train.slow.test.ts: with it',
  '--alpha': 'ignored-options.test.ts: without lora; train.slow.test.ts: with it',
  '--targets': 'ignored-options.test.ts: without lora; train.slow.test.ts: with it',
  '--validation': 'train.slow.test.ts; ignored-options.test.ts',
  '--patience': 'train.slow.test.ts; ignored-options.test.ts',
  '--epochs': ['--epochs', '2'],
  '--batch-size': ['--batch-size', '1'],
  '--lr': ['--lr', '0.9'],
  '--seed': ['--seed', '99'],
  '--out': 'writers.slow.test.ts',
  '--save-as': 'train.slow.test.ts',
  '--resume': 'train.slow.test.ts; ignored-options.test.ts',
  '--json': 'train.slow.test.ts',
};
const SERVERS = {
  '--queue': 'tests/scale, with servers',
  '--retry': 'ignored-options.test.ts; tests/scale',
  '--to': 'tests/scale, with servers',
  '--table': 'ignored-options.test.ts; tests/scale',
  '--json': 'tests/web/scale',
};

const jsonl = path('texts.jsonl');
/** The commands with a command line to run, if options have to be compared with it. */
const COMMANDS: Record<string, { base?: string[]; options: Record<string, Effect> }> = {
  embed: {
    base: ['embed', jsonl, '--model', folder],
    options: {
      ...{ ...MODEL, ...INPUT, ...VECTORS, ...SPEED },
      '--id': ['--id', 'key'],
      '--role': 'prompts.test.ts',
      '--normalize': 'usage.test.ts: both; cli.test.ts',
      '--no-normalize': 'usage.test.ts: both; cli.test.ts',
      '--type': ['--type', 'int8'],
      '--out': 'writers.slow.test.ts',
      '--json': 'the default; usage.test.ts: not with --out',
    },
  },
  search: {
    base: ['search', 'a quick fox', jsonl, '--model', folder, '--json'],
    options: {
      ...{ ...MODEL, ...INPUT, ...VECTORS, ...SPEED },
      '--id': ['--id', 'key'],
      '--index': 'prompts.test.ts',
      '--hybrid': ['--hybrid'],
      '--top': ['--top', '1'],
      '--json': 'files.test.ts',
    },
  },
  classify: {
    base: ['classify', jsonl, '--model', folder],
    options: {
      ...{ ...MODEL, ...INPUT, ...SPEED },
      '--id': ['--id', 'key'],
      '--out': 'writers.slow.test.ts',
      '--top': ['--top', '1'],
      '--json': 'terminal.test.ts: instead of a table',
    },
  },
  index: {
    options: {
      ...{ ...MODEL, ...INPUT, ...VECTORS, ...SPEED },
      '--dtype': 'completion.test.ts; usage.test.ts',
      '--id': 'ignored-options.test.ts',
      '--weight': 'cli.test.ts',
      '--out': 'writers.slow.test.ts',
      '--force': 'cli.test.ts: an index is replaced',
      '--update': 'files.test.ts: texts are replaced, added and removed',
      '--remove': 'files.test.ts: texts are replaced, added and removed',
      '--json': 'files.test.ts',
    },
  },
  quantize: {
    options: {
      ...{ ...HUB, ...INPUT },
      '--out': 'writers.slow.test.ts',
      '--tables': 'folders.test.ts',
      '--matrices': 'folders.test.ts',
      '--texts': 'folders.test.ts',
      '--json': 'files.test.ts',
    },
  },
  prune: {
    options: {
      ...{ ...HUB, ...INPUT },
      '--keep': 'folders.test.ts',
      '--out': 'writers.slow.test.ts',
      '--positions': 'folders.test.ts',
      '--texts': 'folders.test.ts',
      '--json': 'folders.test.ts',
    },
  },
  'train classifier': {
    options: {
      ...{ ...MODEL, ...INPUT, ...TRAINING },
      '--pair': 'train-options.slow.test.ts',
      '--label': 'train.slow.test.ts',
      '--label-separator': 'train.slow.test.ts; ignored-options.test.ts',
      '--head': 'train.slow.test.ts',
      '--balanced': 'train-options.slow.test.ts',
    },
  },
  'train embedding': { options: { ...{ ...MODEL, ...TRAINING }, '--format': 'usage.test.ts' } },
  evaluate: {
    options: {
      ...{ ...MODEL, ...INPUT },
      '--pair': 'train-options.slow.test.ts',
      '--label': 'ignored-options.test.ts',
      '--label-separator': 'ignored-options.test.ts',
      '--task': 'evaluate.test.ts',
      '--corpus': 'evaluate.test.ts; ignored-options.test.ts',
      '--json': 'evaluate.test.ts',
    },
  },
  inspect: {
    base: ['inspect', folder],
    options: { ...MODEL, '--model': 'usage.test.ts: not with a model', '--json': ['--json'] },
  },
  doctor: { options: { '--json': 'doctor.slow.test.ts' } },
  'corpus plan': {
    options: {
      ...{ ...INPUT, ...VECTORS },
      '--out': 'writers.slow.test.ts',
      '--chunk': 'tests/web/scale',
      '--parts': 'writers.slow.test.ts',
      '--build': 'scale/refusals.slow.test.ts',
      '--model': 'scale/refusals.slow.test.ts',
      '--dtype': 'tests/web/scale',
      '--id': 'tests/web/scale',
      '--role': 'prompts.test.ts',
      '--normalize': 'usage.test.ts',
      '--no-normalize': 'usage.test.ts',
      '--type': 'tests/web/scale',
      '--json': 'tests/web/scale',
    },
  },
  'corpus work': {
    options: {
      ...SERVERS,
      '--model': 'scale/refusals.slow.test.ts',
      '--shard': 'scale/refusals.slow.test.ts',
      '--workers': 'scale/refusals.slow.test.ts',
      '--lock': 'ignored-options.test.ts',
    },
  },
  'corpus status': { options: { '--json': 'tests/web/scale' } },
  'corpus finish': { options: SERVERS },
  'cache list': { options: { '--cache': 'files.test.ts', '--json': 'files.test.ts' } },
  'cache clear': { options: { '--cache': 'files.test.ts', '--all': 'files.test.ts', '--json': 'files.test.ts' } },
};

const words = async (...given: string[]) =>
  (await run(['complete', '--', ...given])).out.split('\n').map((line) => line.split('\t')[0]!);

test('every option of every command is listed', async () => {
  const names = (await words('')).filter((word) => /^[a-z]+$/.test(word));
  const commands: string[] = [];
  for (const name of names)
    if (['corpus', 'train', 'cache'].includes(name))
      for (const child of (await words(name, '')).filter((word) => /^[a-z]+$/.test(word) && word !== 'help'))
        commands.push(`${name} ${child}`);
    else if (name !== 'completion' && name !== 'help') commands.push(name);
  expect(commands.sort()).toEqual(Object.keys(COMMANDS).sort());
  for (const command of commands) {
    const found = (await words(...command.split(' '), '--')).filter((word) => word.startsWith('--'));
    const missing = found.filter(
      (option) => !(option in COMMANDS[command]!.options) && !(option in QUIET) && option !== '--help',
    );
    expect([command, ...missing]).toEqual([command]);
  }
});

test.each(Object.entries(COMMANDS).filter(([, { base }]) => base))('options of %s', async (_, { base, options }) => {
  const plain = await run(base!);
  expect([plain.code, plain.err]).toEqual([0, '']);
  const same: string[] = [];
  for (const [option, effect] of Object.entries(options)) {
    if (typeof effect === 'string') continue;
    const { code, out, err } = await run([...base!, ...effect]);
    expect(code === 0 ? err : '').toBe('');
    if (code === 0 && out === plain.out) same.push(option);
  }
  expect(same).toEqual([]);
});

/** The texts of the tests that an effect names: files, relative to this folder or the one above, and folders. */
function testsIn(effect: string): string[] {
  const files = (effect.match(/[\w/-]+(?:\.slow)?\.test\.ts/g) ?? []).map((name) => {
    const path = [import.meta.dirname, join(import.meta.dirname, '..')]
      .map((folder) => join(folder, name))
      .find(existsSync);
    expect(path, name).toBeDefined();
    return path!;
  });
  const root = join(import.meta.dirname, '../../..');
  const folders = (effect.match(/tests\/[\w/]*\w(?![\w/.-])/g) ?? []).map((name) => join(root, name));
  const inside = folders.flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)));
  return [...files, ...inside].map((path) => readFileSync(path, 'utf8'));
}

test('the tests that are named for an option mention it', () => {
  const camelCase = (option: string) => option.slice(2).replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
  const missing: string[] = [];
  for (const [command, { options }] of Object.entries(COMMANDS))
    for (const [option, effect] of Object.entries(options)) {
      if (typeof effect !== 'string' || effect === MODEL['--model']) continue;
      const texts = testsIn(effect);
      const isThere = texts.some(
        (text) => text.includes(option) || new RegExp(`\\b${camelCase(option)}\\b`).test(text),
      );
      if (!isThere) missing.push(`${command} ${option}: ${effect}`);
    }
  expect(missing).toEqual([]);
});
