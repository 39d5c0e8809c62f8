/** Rows in PostgreSQL: each once, whichever worker dies, and the same as in the parts. */
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { VectorOutput } from 'heed';
import { finishEmbedding, planEmbedding, workEmbedding } from 'heed/corpus';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { corpus, FLAGS, makeFolder, rowsOf, run, script, start } from '../web/scale/support.js';
import { FaultyProxy } from './proxy.js';
import { type Server, startPostgres } from './servers.js';

const ROWS = 600;
let server: Server;
let folder: string;
let client: pg.Client;
let hasVector: boolean;

beforeAll(async () => {
  folder = makeFolder();
  fs.writeFileSync(join(folder, 'in.jsonl'), corpus(ROWS));
  server = await startPostgres();
  client = new pg.Client(server.url);
  await client.connect();
  const { rows } = await client.query("SELECT FROM pg_available_extensions WHERE name = 'vector'");
  hasVector = rows.length > 0;
});
afterAll(async () => {
  await client?.end();
  await server?.stop();
  fs.rmSync(folder, { recursive: true, force: true });
});

async function plan(name: string, output: VectorOutput): Promise<string> {
  const out = join(folder, name);
  await planEmbedding([join(folder, 'in.jsonl')], { out, model: join(folder, 'model'), output, chunk: 20 });
  return out;
}

/** Works on a plan with workers of which one dies, and compares the table with the parts. */
async function insert(out: string, table: string, numbersOf: (stored: string) => number[]): Promise<void> {
  const args = ['work', out, '--workers', '1', '--to', server.url, '--table', table];
  const { child, ended } = start(args);
  const watcher = fs.watch(out, (_, name) => /^part-\d+\.jsonl$/.test(String(name)) && child.kill('SIGKILL'));
  expect((await ended).signal).toBe('SIGKILL');
  watcher.close();
  const workers = await Promise.all([run(args), run(args)]);
  for (const { code, err } of workers) expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(await finishEmbedding(out, { to: server.url, table })).toMatchObject({ complete: true, rows: ROWS });
  const { rows } = await client.query(`SELECT id, line, error, embedding::text FROM ${table} ORDER BY line`);
  const parts = rowsOf(out);
  expect(rows.map(({ id, line }) => [id, Number(line)])).toEqual(parts.map(({ id, line }) => [id, line]));
  for (const [n, { embedding, error }] of rows.entries()) {
    expect(error).toBe(parts[n]!.error ?? null);
    expect(embedding && numbersOf(embedding)).toEqual(parts[n]!.embedding ?? null);
  }
}

test('bits, which need no extension', async () => {
  const out = await plan('bits', 'binary');
  const bytes = (bits: string) => bits.match(/.{8}/g)!.map((byte) => Number.parseInt(byte, 2));
  await insert(out, 'bits', bytes);

  // Rows that someone deleted are counted, and a chunk that is not marked is inserted again although its part exists.
  await client.query('DELETE FROM bits WHERE line <= 20; DELETE FROM bits_parts WHERE chunk = 0');
  const lacking = await run(['finish', out, '--to', server.url, '--table', 'bits']);
  expect([lacking.code, lacking.err]).toEqual([1, expect.stringContaining('1 part missing: 0')]);
  expect(await workEmbedding(out, { to: server.url, table: 'bits' })).toMatchObject({ parts: 1, rows: 20 });
  expect(await finishEmbedding(out, { to: server.url, table: 'bits' })).toMatchObject({ complete: true });

  const other = join(folder, 'other');
  await planEmbedding([join(folder, 'in.jsonl')], { out: other, model: join(folder, 'model'), output: 'binary' });
  const refused = workEmbedding(other, { to: server.url, table: 'bits' });
  await expect(refused).rejects.toThrow(
    'table: expected a table for this plan, got "bits", which has another plan\'s rows',
  );
});

test('a chunk that another process has inserted meanwhile is not embedded again', async () => {
  const out = await plan('meanwhile', 'binary');
  const args = ['corpus', 'work', out, '--shard', '1/2', '--workers', '1', '--to', server.url, '--table', 'meanwhile'];
  let isFirst = true;
  // Blocks this process, which then has the list of missing chunks of before, while another one embeds half of them.
  const onProgress = () => {
    if (isFirst) execFileSync(process.execPath, [...FLAGS, script, ...args], { stdio: 'pipe' });
    isFirst = false;
  };
  const result = await workEmbedding(out, { workers: 1, to: server.url, table: 'meanwhile', onProgress });
  expect(result).toMatchObject({ parts: ROWS / 20 / 2, rows: ROWS / 2 });
  expect(await finishEmbedding(out, { to: server.url, table: 'meanwhile' })).toMatchObject({ complete: true });
});

test('a server that no longer answers ends the run', { timeout: 60_000 }, async () => {
  const out = await plan('silent', 'binary');
  const proxy = await FaultyProxy.start(Number(new URL(server.url).port));
  const to = server.url.replace(/:\d+\//, `:${proxy.port}/`);
  const work = workEmbedding(out, { workers: 1, to, queueTimeout: 2, onProgress: () => proxy.hold() });
  await expect(work).rejects.toMatchObject({ code: 'NETWORK', message: expect.stringMatching(/^to: expected/) });
  await proxy.idle(); // no connection is left open
  proxy.close();
});

test('vectors, where the server has pgvector, and otherwise an error that says so', async () => {
  const out = await plan('vectors', 'float32');
  const numbers = (vector: string) =>
    [...Float32Array.from(JSON.parse(vector) as number[])].map((v) => Number(v.toPrecision(9)));
  if (hasVector) return insert(out, 'vectors', numbers);
  const { code, err } = await run(['work', out, '--to', server.url]);
  expect(code).toBe(1);
  expect(err).toMatch(
    /^heed: --to: expected a server with pgvector, got .*Install pgvector there, or plan with --type binary\n$/,
  );
  expect(fs.readdirSync(out)).toEqual(['manifest.json']);
});

test('ids that PostgreSQL cannot store end neither a run nor a chunk', async () => {
  const file = join(folder, 'ids.jsonl');
  fs.writeFileSync(
    file,
    ['a', 'b\u0000c', '\ud800', 'd'].map((id) => `${JSON.stringify({ id, text: 'fox' })}\n`).join(''),
  );
  const out = join(folder, 'ids');
  await planEmbedding([file], { out, model: join(folder, 'model'), output: 'binary' });
  const to = { to: server.url, table: 'ids' };
  expect(await workEmbedding(out, to)).toEqual({ parts: 1, rows: 4, errors: 2, failed: [] });
  expect(await finishEmbedding(out, to)).toMatchObject({ complete: true, rows: 4, errors: 2 });
  const { rows } = await client.query('SELECT id, error FROM ids ORDER BY line');
  const error = expect.stringContaining('expected Unicode text without U+0000');
  expect(rows).toEqual([
    { id: 'a', error: null },
    { id: null, error },
    { id: null, error },
    { id: 'd', error: null },
  ]);
});

test('int8, which pgvector does not have', async () => {
  const out = await plan('int8', 'int8');
  await expect(workEmbedding(out, { to: server.url })).rejects.toMatchObject({ code: 'UNSUPPORTED' });
});
