/** Runs the built command line, directly or in a pseudo-terminal. */
import { spawn, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import { tinyModel } from '../models/tiny.js';

export const script = fileURLToPath(new URL('../../../dist/cli.js', import.meta.url));

/** A new temporary folder with a tiny model's files in it. */
export function makeFolder(): string {
  const folder = fs.mkdtempSync(join(tmpdir(), 'heed-'));
  for (const [name, content] of Object.entries(tinyModel()))
    if (!name.includes('/')) fs.writeFileSync(join(folder, name), content);
  return folder;
}

/** A folder with a model and texts for the tests of a file, paths below it, and `heed` with this model. */
export function modelFolder() {
  const folder = makeFolder();
  const path = (name: string) => join(folder, name);
  fs.writeFileSync(path('texts.txt'), 'the fox\na quick x\nthe brown fox\n');
  afterAll(() => fs.rmSync(folder, { recursive: true }));
  const heed = (args: string[], input = '') => run([...args, '--model', folder], { input });
  return { folder, path, heed };
}

export interface Ended {
  out: string;
  err: string;
  code: number | null;
}

/** The environment without variables such as `CI` that affect whether Node prints colours. */
const plainEnv = { ...process.env };
for (const name of ['CI', 'FORCE_COLOR', 'NODE_DISABLE_COLORS', 'NO_COLOR', 'TEAMCITY_VERSION', 'TMUX'])
  delete plainEnv[name];

/** Starts `heed`. `cwd`: its folder. */
export function start(args: string[], { env = {}, input = '' as string | null, cwd = '.' } = {}) {
  const child = spawn(process.execPath, [script, ...args], { cwd, env: { ...plainEnv, ...env } });
  const ended = new Promise<Ended>((resolve) => {
    let [out, err] = ['', ''];
    child.stdout.on('data', (data) => (out += data));
    child.stderr.on('data', (data) => (err += data));
    child.on('close', (code) => resolve({ out, err, code }));
  });
  if (input !== null) child.stdin.end(input);
  return { child, ended };
}

export const run = (args: string[], options?: Parameters<typeof start>[1]): Promise<Ended> =>
  start(args, options).ended;

/** Whether there is util-linux's `script`, which runs a command in a pseudo-terminal. */
export const hasTerminal = process.platform === 'linux' && spawnSync('script', ['--version']).status === 0;

/** Starts `heed` in a terminal of `columns` columns. `onData` receives the output of both streams. */
export function startInTerminal(
  args: string[],
  { columns = 80, env = {}, onData = (_: string) => {} } = {},
): Promise<{ out: string; code: number | null }> {
  const quoted = [process.execPath, script, ...args].map((arg) => `'${arg.replaceAll("'", "'\\''")}'`).join(' ');
  const command = `stty cols ${columns}; ${quoted}`;
  const child = spawn('script', ['-qec', command, '/dev/null'], {
    env: { ...plainEnv, TERM: 'xterm-256color', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let out = '';
  child.stdout.setEncoding('utf8').on('data', (data: string) => {
    out += data;
    onData(out);
  });
  return new Promise((resolve) => child.on('close', (code) => resolve({ out, code })));
}
