/** Servers that refuse a connection: at once, with their reason, however long a worker would wait for a server. */
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { HeedError } from 'heed';
import { finishEmbedding, planEmbedding, workEmbedding } from 'heed/corpus';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { corpus, makeFolder } from '../web/scale/support.js';
import { type Server, startPostgres, startRedis } from './servers.js';

let folder: string;
let out: string;

beforeAll(() => {
  folder = makeFolder();
  fs.writeFileSync(join(folder, 'in.jsonl'), corpus(20));
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

async function plan(name: string): Promise<void> {
  out = join(folder, name);
  await planEmbedding([join(folder, 'in.jsonl')], { out, model: join(folder, 'model'), output: 'binary' });
}

/** Expects an error although the caller would wait for a server for ever. */
async function refused(run: Promise<unknown>, message: RegExp): Promise<void> {
  const error = await run.catch((error: unknown) => error);
  expect(error).toBeInstanceOf(HeedError);
  expect(error).toMatchObject({ code: 'NETWORK', message: expect.stringMatching(message) });
  expect((error as Error).message).not.toMatch(/wrong|secret/);
}
/** A plan and a server for the tests of a `describe`. */
function planAndServer(name: string, start: () => Promise<Server>): { readonly url: string } {
  let server: Server;
  beforeAll(async () => {
    await plan(name);
    server = await start();
  });
  afterAll(() => server?.stop());
  return {
    get url() {
      return server.url;
    },
  };
}

const forEver = Number.POSITIVE_INFINITY;
const work = (queue: string) => workEmbedding(out, { queue, queueTimeout: forEver });

describe('PostgreSQL', () => {
  const server = planAndServer('postgres', () => startPostgres('scram-sha-256', 'secret'));
  const to = (user: string, database = 'postgres') => server.url.replace(/\/\/.*@(.*)\/.*/, `//${user}@$1/${database}`);

  test.each([
    ['heed:wrong', 'postgres', /password authentication failed for user "heed"/],
    ['heed', 'postgres', /password must be a string/],
    ['nobody:wrong', 'postgres', /password authentication failed for user "nobody"/],
    ['heed:secret', 'none', /database "none" does not exist/],
  ])('%s at the database %s', async (user, database, message) => {
    const url = to(user, database);
    const named = new RegExp(
      `^queue: expected a user, .* server at postgres://127.0.0.1:\\d+/${database} accepts, .*${message.source}`,
    );
    await refused(work(url), named);
    await refused(finishEmbedding(out, { queue: url, queueTimeout: forEver }), named);
    await refused(workEmbedding(out, { to: url }), new RegExp(`^to: expected a PostgreSQL server .*${message.source}`));
  });

  test('a user who may make nothing', async () => {
    const client = new pg.Client(to('heed:secret'));
    await client.connect();
    await client.query("CREATE ROLE reader LOGIN PASSWORD 'secret'; REVOKE CREATE ON DATABASE postgres FROM PUBLIC");
    await client.end();
    await refused(work(to('reader:secret')), /permission denied for database postgres/);
  });

  test('the right password', async () => {
    expect(await work(to('heed:secret'))).toMatchObject({ failed: [] });
  });
});

describe('Redis', () => {
  const server = planAndServer('redis', () => startRedis('--requirepass', 'secret'));

  test.each([
    ['', '', /NOAUTH/],
    [':wrong@', '', /WRONGPASS/],
    ['nobody:wrong@', '', /WRONGPASS/],
    [':secret@', '/99', /DB index is out of range/],
  ])('%s host %s', async (user, database, message) => {
    const url = server.url.replace('//', `//${user}`) + database;
    await refused(
      work(url),
      new RegExp(
        `^queue: expected a user, .* server at redis://127.0.0.1:\\d+${database} accepts, .*${message.source}`,
      ),
    );
  });

  test('the right password', async () => {
    expect(await work(`${server.url.replace('//', '//:secret@')}/1`)).toMatchObject({ failed: [] });
    const url = server.url.replace('redis://', '');
    const [host, port] = url.split(':') as [string, string];
    const keys = execFileSync('redis-cli', ['-h', host, '-p', port, '-a', 'secret', '-n', '0', 'DBSIZE'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    expect(keys.trim()).toBe('0'); // in the database of the URL, not in the first one
  });
});
