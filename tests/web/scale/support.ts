/** A corpus and a tiny model on disk, and the command line, for the tests of plans. */
import { type ChildProcess, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { tinyModel } from '../models/tiny.js';

export const script = fileURLToPath(new URL('../../../dist/cli.js', import.meta.url));

/** A new temporary folder with a tiny model in `model`. */
export function makeFolder(): string {
  const folder = fs.mkdtempSync(join(tmpdir(), 'heed-scale-'));
  fs.mkdirSync(join(folder, 'model'));
  for (const [name, content] of Object.entries(tinyModel()))
    if (!name.includes('/')) fs.writeFileSync(join(folder, 'model', name), content);
  return folder;
}

const WORDS = ['a', 'x', 'y', 'z', 'the', 'quick', 'brown', 'fox', 'foxes', '0', '12', '3'];

/** JSON lines with ids from `first` on. One line in 40 is invalid. */
export function corpus(rows: number, first = 0): string {
  let seed = first + 1;
  const random = (n: number) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * n);
  };
  let lines = '';
  for (let row = first; row < first + rows; row++) {
    const text = Array.from({ length: 1 + random(12) }, () => WORDS[random(WORDS.length)]).join(' ');
    if (row % 40 === 7) lines += `${JSON.stringify({ id: `id-${row}`, body: text })}\n`;
    else lines += `${JSON.stringify({ id: `id-${row}`, text: row % 10 === 0 ? `${text}\u2028é` : text })}\n`;
  }
  return lines;
}

export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  out: string;
  err: string;
}

/** Node's flags that select the same build as in the tests. */
export const FLAGS = process.execArgv.filter((flag) => flag.includes('relaxed-simd'));

/** Starts `heed corpus`. */
export function start(args: string[], options: { cwd?: string; prefix?: string[]; flags?: string[] } = {}) {
  const node = [process.execPath, ...(options.flags ?? FLAGS)];
  const command = [...(options.prefix ?? []), ...node, script, 'corpus', ...args];
  const child: ChildProcess = spawn(command[0]!, command.slice(1), {
    cwd: options.cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<Ended>((resolve, reject) => {
    let [out, err] = ['', ''];
    child.stdout!.on('data', (data) => (out += data));
    child.stderr!.on('data', (data) => (err += data));
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, out, err }));
  });
  return { child, ended };
}

/** Runs `heed corpus` to its end. */
export const run = (args: string[], options?: Parameters<typeof start>[1]) => start(args, options).ended;

export interface PartRow {
  file: string;
  line: number;
  id?: unknown;
  scale?: number;
  embedding?: number[];
  error?: string;
}

/** The names of a folder's parts, in order. */
export const partNames = (folder: string) =>
  fs
    .readdirSync(folder)
    .filter((name) => name.startsWith('part-'))
    .sort();

/** The rows of a folder's parts, in order. */
export function rowsOf(folder: string): PartRow[] {
  return partNames(folder)
    .filter((name) => name.endsWith('.jsonl'))
    .flatMap((name) => fs.readFileSync(join(folder, name), 'utf8').trimEnd().split('\n'))
    .map((line) => JSON.parse(line) as PartRow);
}
