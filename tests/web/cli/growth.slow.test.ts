/** The time of commands grows in proportion to their files, as tests/web/growth.slow.test.ts checks it for functions. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { writeSafetensors } from '../../../web/src/io/safetensors.js';
import { expectLinear } from '../linear-growth.js';
import { modelFolder, start } from './support.js';

const { folder, path } = modelFolder();

/** A model without layers, which embeds a text in microseconds. */
const quick = path('quick');
mkdirSync(quick);
const table = { name: 'embeddings', dtype: 'F32' as const, shape: [24, 4], data: new Float32Array(96).fill(0.5) };
writeFileSync(join(quick, 'config.json'), '{"model_type":"model2vec","hidden_dim":4,"normalize":true}');
writeFileSync(join(quick, 'model.safetensors'), writeSafetensors([table]));
writeFileSync(join(quick, 'tokenizer.json'), readFileSync(path('tokenizer.json')));

const words = ['the', 'quick', 'brown', 'fox', 'x', 'y'];
const textOf = (i: number) => `${words[i % 6]} ${words[(i >> 3) % 6]} ${i % 10}`;

/** Writes a file of `n` rows. */
function fileOf(name: string, n: number, header: string, row: (i: number) => string): string {
  const file = path(`${n}-${name}`);
  writeFileSync(file, `${header}${Array.from({ length: n }, (_, i) => `${row(i)}\n`).join('')}`);
  return file;
}
const textsOf = (n: number) => fileOf('texts.txt', n, '', textOf);
const pairsOf = (n: number) => fileOf('pairs.csv', n, 'a,b,score\n', (i) => `${textOf(i)},${textOf(i + 1)},${i % 5}`);
const labelledOf = (n: number) =>
  fileOf('labelled.csv', n, 'text,label\n', (i) => `${words[i % 6]} ${i % 10},l${i % 2}`);

let made = 0;
/** A path at which nothing is. */
const fresh = (suffix: string) => path(`out-${made++}${suffix}`);

/** Command lines for `n` texts. */
const commands: Record<string, (n: number) => string[]> = {
  embed: (n) => ['embed', textsOf(n), '--out', fresh('.jsonl'), '--model', quick],
  index: (n) => ['index', textsOf(n), '--out', fresh('.safetensors'), '--model', quick],
  search: (n) => ['search', 'the fox', textsOf(n), '--model', quick],
  'evaluate --task similarity': (n) => ['evaluate', pairsOf(n), '--task', 'similarity', '--model', quick],
  'corpus plan': (n) => ['corpus', 'plan', textsOf(n), '--out', fresh(''), '--chunk', '100', '--model', quick],
  'train classifier': (n) => [
    ...['train', 'classifier', labelledOf(n / 20), '--out', fresh(''), '--epochs', '1', '--model', folder],
  ],
  'prune --keep': (n) => ['prune', folder, '--keep', textsOf(n / 4), '--out', fresh('')],
};

/** Milliseconds of CPU time of a command. */
async function cost(args: string[]): Promise<number> {
  const report = fresh('.json');
  const hook = `import fs from 'node:fs'; process.on('exit', () => fs.writeFileSync(${JSON.stringify(report)}, JSON.stringify(process.cpuUsage())));`;
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(hook)}` };
  const { code, err } = await start(args, { env }).ended;
  expect([code, code === 0 ? '' : err]).toEqual([0, '']);
  const { user, system } = JSON.parse(readFileSync(report, 'utf8')) as NodeJS.CpuUsage;
  return (user + system) / 1000;
}

test.each(Object.entries(commands))('heed %s with many texts', (_, args) => expectLinear((n) => cost(args(n))));
