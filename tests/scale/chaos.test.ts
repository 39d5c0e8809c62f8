/**
 * Workers that are killed at random moments, with queues that lose their data: every row comes out once, and is the one
 * that a single process computes. A worker is killed at a random one of the folder's changes rather than at a random
 * time, which would mostly be while it starts: so many kills come while a part is written, published or reported.
 */
import type { ChildProcess } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { load } from 'heed';
import { finishEmbedding, planEmbedding } from 'heed/corpus';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { corpus, makeFolder, partNames, rowsOf, run, start } from '../web/scale/support.js';
import { type Server, startPostgres, startRedis } from './servers.js';

/** In each of the three tests. */
const KILLS = 70;
/** Maximum number of changes in the folder from the start of a worker until it is killed. */
const CHANGES = 200;
const WORKERS = 3;
const LINES = 6000;

let folder: string;
let files: string[];
/** The parts of one process that nobody kills. */
let reference: string;

const plan = (name: string) =>
  planEmbedding(files, { out: join(folder, name), model: join(folder, 'model'), chunk: 25 });

beforeAll(async () => {
  folder = makeFolder();
  files = ['first.jsonl', 'second.jsonl'].map((name) => join(folder, name));
  for (const [n, file] of files.entries()) fs.writeFileSync(file, corpus(LINES / 2, (n * LINES) / 2));
  reference = join(folder, 'reference');
  await plan('reference');
  expect(await run(['work', reference, '--workers', '1'])).toMatchObject({ code: 0, err: '' });
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

test('the reference is what the model computes, bit for bit', async () => {
  using model = await (await load()).fromPretrained(join(folder, 'model'));
  const texts = files
    .flatMap((file) => fs.readFileSync(file, 'utf8').trimEnd().split('\n'))
    .map((line) => JSON.parse(line).text);
  const rows = rowsOf(reference);
  expect(rows).toHaveLength(LINES);
  const whole = await model.embed(texts.filter((text) => text !== undefined));
  const width = whole.shape[1]!;
  let next = 0;
  for (const [n, { embedding, error }] of rows.entries()) {
    if (texts[n] === undefined) expect(error).toContain('no text');
    else {
      const vector = whole.data.subarray(next * width, ++next * width);
      expect(Float32Array.from(embedding!)).toEqual(vector);
    }
  }
});

/** Kills workers of plan after plan, until KILLS of them are dead, and checks each plan. */
async function chaos(name: string, seed: number, argsOf: (slot: number) => string[], midway?: () => Promise<void>) {
  const random = () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
  let kills = 0;
  let planned = false;
  let interrupted = 0;
  for (let round = 0; kills < KILLS; round++) {
    const out = join(folder, `${name}-${round}`);
    await plan(`${name}-${round}`);
    let changes = 0;
    /** The workers that will be killed, with the number of changes at which they are. */
    const doomed = new Map<ChildProcess, number>();
    const watcher = fs.watch(out, () => {
      changes++;
      for (const [child, at] of doomed) if (changes >= at) child.kill('SIGKILL');
    });
    const supervise = async (slot: number) => {
      for (;;) {
        const { child, ended } = start(['work', out, '--workers', '1', ...argsOf(slot)]);
        if (kills < KILLS) doomed.set(child, changes + 1 + Math.floor(CHANGES * random()));
        const { code, signal, err } = await ended;
        doomed.delete(child);
        if (signal === 'SIGKILL') kills++;
        else {
          expect({ code, err }).toEqual({ code: 0, err: '' });
          return;
        }
        if (midway && !planned && kills >= KILLS / 2) {
          planned = true;
          await midway();
        }
      }
    };
    await Promise.all(Array.from({ length: WORKERS }, (_, slot) => supervise(slot)));
    watcher.close();
    interrupted += partNames(out).filter((part) => part.includes('.tmp-')).length;
    const result = await finishEmbedding(out);
    expect(result).toMatchObject({ complete: true, rows: LINES, missing: [], damaged: [] });
    // With their order, which is that of the corpus.
    const rows = rowsOf(out);
    expect(rows.map(({ id }) => id)).toEqual(Array.from({ length: LINES }, (_, row) => `id-${row}`));
    expect(new Set(rows.map(({ file, line }) => `${file}:${line}`)).size).toBe(LINES);
    // Bit for bit, and without a temporary file that is left over.
    expect(partNames(out)).toEqual(partNames(reference));
    for (const part of partNames(out))
      expect(fs.readFileSync(join(out, part)).equals(fs.readFileSync(join(reference, part))), part).toBe(true);
    fs.rmSync(out, { recursive: true });
  }
  expect(kills).toBeGreaterThanOrEqual(KILLS);
  expect(interrupted).toBeGreaterThan(0); // some were writing a part
  expect(planned).toBe(midway !== undefined);
}

test('shards', () => chaos('shards', 1, (slot) => ['--shard', `${slot}/${WORKERS}`]));

test.each<[string, () => Promise<Server>, number]>([
  ['redis', startRedis, 2],
  ['postgres', startPostgres, 3],
])('a queue in %s, which is killed midway and comes back empty', async (name, startServer, seed) => {
  const server = await startServer();
  try {
    await chaos(name, seed, () => ['--queue', server.url, '--lock', '2'], server.restartEmpty);
  } finally {
    await server.stop();
  }
});
