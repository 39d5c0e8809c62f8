/** Workers whose clocks are wrong die with their chunks; right workers embed them after the time of a lock. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { finishEmbedding, planEmbedding, workEmbedding } from 'heed/corpus';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { corpus, FLAGS, makeFolder, rowsOf, start } from '../web/scale/support.js';
import { type Server, startPostgres, startRedis } from './servers.js';

const CHUNKS = 6;
const LINES = 300;
const DAY = 24 * 60 * 60 * 1000;

/** A module that Node imports first. */
const clock = (days: number) => `data:text/javascript,const now=Date.now;Date.now=()=>now()+${days * DAY}`;

let folder: string;
let file: string;
beforeAll(() => {
  folder = makeFolder();
  file = join(folder, 'in.jsonl');
  fs.writeFileSync(file, corpus(CHUNKS * LINES));
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

test.each<[string, () => Promise<Server>]>([
  ['redis', startRedis],
  ['postgres', startPostgres],
])('%s', { timeout: 120_000 }, async (name, startServer) => {
  const out = join(folder, name);
  await planEmbedding([file], { out, model: join(folder, 'model'), chunk: LINES });
  const server = await startServer();
  try {
    // Killed while it holds two chunks.
    const args = ['work', out, '--queue', server.url, '--workers', '2', '--lock', '2'];
    const { child, ended } = start(args, { flags: [...FLAGS, '--import', clock(3)] });
    const begun = new Set<string>();
    const watcher = fs.watch(out, (_, changed) => {
      if (String(changed).includes('.tmp-')) begun.add(String(changed));
      if (begun.size === 2) child.kill('SIGKILL');
    });
    expect((await ended).signal).toBe('SIGKILL');
    watcher.close();
    const options = { queue: server.url, workers: 1, lock: 2 };
    await Promise.all([workEmbedding(out, options), workEmbedding(out, options)]);
    expect(await finishEmbedding(out, { queue: server.url })).toMatchObject({ complete: true, rows: CHUNKS * LINES });
    expect(rowsOf(out).map(({ id }) => id)).toEqual(Array.from({ length: CHUNKS * LINES }, (_, n) => `id-${n}`));
  } finally {
    await server.stop();
  }
});
