/** The state of a training on disk: recognized by its content, for one process at a time, and deleted file by file. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startOf, TrainingState } from '../../../web/src/cli/folder.js';

let folder: string;
let out: string;
let state: string;
beforeEach(() => {
  folder = fs.mkdtempSync(join(tmpdir(), 'heed-state-'));
  out = join(folder, 'out');
  state = `${out}.training`;
});
afterEach(() => fs.rmSync(folder, { recursive: true }));

const put = (name: string, content: string) => {
  fs.mkdirSync(state, { recursive: true });
  fs.writeFileSync(join(state, name), content);
};
const names = () => (fs.existsSync(state) ? fs.readdirSync(state).sort() : null);

test('it is there while the training runs, and gone afterwards', () => {
  {
    using running = new TrainingState(out, false, 3);
    expect(names()).toBe(null);
    running.begin();
    expect(names()).toEqual(['training.json']);
  }
  expect(names()).toBe(null); // nothing to continue from
  {
    using running = new TrainingState(out, false, 3);
    running.begin();
    running.keep(Uint8Array.of(1));
    running.keep(Uint8Array.of(2));
  }
  expect(names()).toEqual(['checkpoint.safetensors', 'training.json']);
  expect(() => new TrainingState(out, false, 3)).toThrow('whose training was interrupted. Continue it with --resume');
  expect(() => new TrainingState(out, true, 4)).toThrow(
    '--seed: expected 3, the seed of the interrupted training, got 4',
  );
  using resumed = new TrainingState(out, true, undefined);
  expect([resumed.seed, resumed.resume]).toEqual([3, Uint8Array.of(2)]);
  resumed.begin();
  put('notes.txt', 'mine');
  resumed.remove();
  expect(names()).toEqual(['notes.txt']);
});

test('the state of version 0.2.0, with the seed alone, is continued', () => {
  put('training.json', '{"seed":7}\n');
  put('checkpoint.safetensors', 'x');
  using resumed = new TrainingState(out, true, undefined);
  expect(resumed.seed).toBe(7);
  resumed.begin();
  resumed.keep(Uint8Array.of(1));
  resumed.remove();
  expect(names()).toBe(null);
});

test.each<[string, Record<string, string>, string]>([
  ['a folder with data', { 'data.csv': 'mine', 'notes.txt': 'mine' }, 'data.csv'],
  ['a damaged training.json', { 'training.json': '{"seed":', 'checkpoint.safetensors': 'x' }, 'training.json'],
  ['another training.json', { 'training.json': '{"seed":1,"lr":0.1}', 'checkpoint.safetensors': 'x' }, 'training.json'],
  ['a checkpoint alone', { 'checkpoint.safetensors': 'mine' }, 'checkpoint.safetensors'],
])('%s is refused, and unchanged', (_, files, named) => {
  for (const [name, content] of Object.entries(files)) put(name, content);
  for (const resume of [false, true])
    expect(() => new TrainingState(out, resume, undefined)).toThrow(
      `--out: expected a name for which '${out}.training' is free: it stores the state of the training, got '${state}', which has ${named}, a file that heed did not write. Choose another --out, or move it away`,
    );
  for (const [name, content] of Object.entries(files)) expect(fs.readFileSync(join(state, name), 'utf8')).toBe(content);
});

test('an empty folder of the user remains', () => {
  fs.mkdirSync(state);
  using running = new TrainingState(out, false, undefined);
  running.begin();
  running.remove();
  expect(names()).toEqual([]);
});

test('two processes do not train for the same folder', async () => {
  const other = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
  put('training.json', JSON.stringify({ seed: 1, host: hostname(), process: other.pid }));
  expect(() => new TrainingState(out, false, undefined)).toThrow(
    `--out: expected a folder for which no other process trains, got '${out}', for which process ${other.pid} does`,
  );
  expect(() => new TrainingState(out, true, undefined)).toThrow(
    `If that process is another program, write {"seed":1} to '${join(state, 'training.json')}'`,
  );
  const started = startOf(other.pid!);
  // On Linux, another start says that the id belonged to another process before.
  if (started !== undefined) {
    put('training.json', JSON.stringify({ seed: 1, host: hostname(), process: other.pid, started }));
    expect(() => new TrainingState(out, false, undefined)).toThrow('a folder for which no other process trains');
    put('training.json', JSON.stringify({ seed: 1, host: hostname(), process: other.pid, started: `${started}0` }));
    new TrainingState(out, false, undefined);
  }
  other.kill('SIGKILL');
  await once(other, 'exit');
  // It has left no checkpoint.
  using running = new TrainingState(out, false, undefined);
  running.begin();
  running.remove();
  // Both have looked before one of them begins.
  using first = new TrainingState(out, false, undefined);
  using second = new TrainingState(out, false, undefined);
  first.begin();
  expect(() => second.begin()).toThrow('--out: expected a folder for which only this process trains');
  expect(names()).toEqual(['training.json']);
});
