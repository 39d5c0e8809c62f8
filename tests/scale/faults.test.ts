/** Servers that fail at every step of a run: a worker goes on, or ends with a reason. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { HeedError } from 'heed';
import { finishEmbedding, planEmbedding, workEmbedding } from 'heed/corpus';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { corpus, makeFolder, rowsOf } from '../web/scale/support.js';
import { FaultyProxy } from './proxy.js';
import { type Server, startPostgres, startRedis } from './servers.js';

const CHUNKS = 4;
/** More than one batch per chunk, so that the first progress comes while its job is held. */
const LINES = 600;

let folder: string;
/** A plan without parts, and the same with all parts. */
let [planned, embedded] = ['', ''];

beforeAll(async () => {
  folder = makeFolder();
  const file = join(folder, 'in.jsonl');
  fs.writeFileSync(file, corpus(CHUNKS * LINES));
  [planned, embedded] = [join(folder, 'planned'), join(folder, 'embedded')];
  await planEmbedding([file], { out: planned, model: join(folder, 'model'), chunk: LINES });
  fs.cpSync(planned, embedded, { recursive: true });
  await workEmbedding(embedded);
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

/** The data of one run: a database of its own in a server that all runs share. */
interface Data {
  /** Deletes what is in the database. */
  empty(): Promise<void>;
  /** Deletes the database; in Redis, which has a fixed number of them, what is in it. */
  drop(): Promise<void>;
  create(): Promise<void>;
}

interface Store {
  start(): Promise<Server>;
  dataOf(server: Server, number: number): Data;
  pathOf(number: number): string;
  /** Whether a database that does not exist is an answer of the server. */
  refuses: boolean;
}

const portOf = (server: Server) => Number(new URL(server.url).port);

const stores: Record<string, Store> = {
  redis: {
    start: startRedis,
    dataOf(server, number) {
      const flush = async () => {
        execFileSync('redis-cli', ['-p', String(portOf(server)), '-n', String(number), 'FLUSHDB']);
      };
      return { empty: flush, drop: flush, create: async () => {} };
    },
    pathOf: (number) => `redis://127.0.0.1:PORT/${number}`,
    refuses: false,
  },
  postgres: {
    start: startPostgres,
    dataOf(server, number) {
      const query = async (sql: string, url = server.url) => {
        const client = new pg.Client(url);
        await client.connect();
        await client.query(sql).finally(() => client.end());
      };
      return {
        empty: () => query('DROP SCHEMA IF EXISTS heed CASCADE', server.url.replace(/\w+$/, `run${number}`)),
        drop: () => query(`DROP DATABASE IF EXISTS run${number} WITH (FORCE)`),
        create: () => query(`CREATE DATABASE run${number}`),
      };
    },
    pathOf: (number) => `postgres://heed@127.0.0.1:PORT/run${number}`,
    refuses: true,
  },
};

/** A fault begins with a proxy that holds. It resolves when the server is as it was before, or will never be. */
interface Fault {
  /** Whether the run can go on. */
  heals: boolean;
  queueTimeout: number;
  inject(proxy: FaultyProxy, data: Data, store: Store): Promise<void>;
}

const LONG = 120;

const faults: Record<string, Fault> = {
  emptied: {
    heals: true,
    queueTimeout: LONG,
    async inject(proxy, data) {
      await data.empty();
      proxy.release();
    },
  },
  'dropped and created anew, after one answer that there is none': {
    heals: true,
    queueTimeout: LONG,
    async inject(proxy, data, { refuses }) {
      await data.drop();
      const refused = once(proxy, 'refusal');
      proxy.release();
      if (refuses) await refused;
      else proxy.cut();
      await data.create();
    },
  },
  'restarted without its data': {
    heals: true,
    queueTimeout: LONG,
    async inject(proxy, data) {
      proxy.close();
      await data.drop();
      await data.create();
      proxy.release();
      await proxy.listen();
    },
  },
  'paused until a worker connects anew': {
    heals: true,
    queueTimeout: 8,
    async inject(proxy) {
      await once(proxy, 'connection');
      proxy.release();
    },
  },
  'paused for ever': { heals: false, queueTimeout: 2, inject: async () => {} },
  'gone for ever': { heals: false, queueTimeout: 2, inject: async (proxy) => proxy.close() },
};

/** A step of a run: resolves when the run is there, with a proxy that holds. */
interface Step {
  begin(proxy: FaultyProxy, out: string, run: (onProgress?: () => void) => void): Promise<void>;
  isFinish?: boolean;
  /** Whether the worker has not yet used the queue, so that a database that does not exist is a mistake of the user. */
  isFirst?: boolean;
}

async function atOpen(proxy: FaultyProxy, run: () => void): Promise<void> {
  proxy.hold();
  const connected = once(proxy, 'connection');
  run();
  await connected;
}

const steps: Record<string, Step> = {
  'before it connects': {
    isFirst: true,
    async begin(proxy, _, run) {
      proxy.hold();
      run();
    },
  },
  'while it connects': { isFirst: true, begin: (proxy, _, run) => atOpen(proxy, run) },
  'while a job is held': {
    begin: (proxy, _, run) =>
      new Promise((resolve) => {
        let isFirst = true;
        run(() => {
          if (isFirst) proxy.hold();
          isFirst = false;
          resolve();
        });
      }),
  },
  'between two chunks': {
    begin: (proxy, out, run) =>
      new Promise((resolve) => {
        const watcher = fs.watch(out, (_, name) => {
          if (!/^part-\d+\.jsonl$/.test(String(name))) return;
          watcher.close();
          proxy.hold();
          resolve();
        });
        run();
      }),
  },
  'at finish': { isFinish: true, isFirst: true, begin: (proxy, _, run) => atOpen(proxy, run) },
};

describe.each(Object.keys(stores))('%s', (name) => {
  const store = stores[name]!;
  let server: Server;
  beforeAll(async () => {
    server = await store.start();
  });
  afterAll(() => server?.stop());

  test.each(Object.keys(faults))('%s', { timeout: 90_000 }, async (what) => {
    const fault = faults[what]!;
    const runs = Object.entries(steps).map(async ([when, step], number) => {
      const out = join(folder, `${name}-${what}-${number}`);
      fs.cpSync(step.isFinish ? embedded : planned, out, { recursive: true });
      const data = store.dataOf(server, number);
      await data.drop();
      await data.create();
      const proxy = await FaultyProxy.start(portOf(server));
      const queue = store.pathOf(number).replace('PORT', String(proxy.port));
      const options = { queue, queueTimeout: fault.queueTimeout };
      const ended: Promise<unknown> = new Promise((resolve, reject) => {
        const run = (onProgress: () => void = () => {}) => {
          const done = step.isFinish
            ? finishEmbedding(out, options)
            : workEmbedding(out, { ...options, workers: 1, lock: 2, onProgress });
          done.then(resolve, reject);
        };
        step
          .begin(proxy, out, run)
          .then(() => fault.inject(proxy, data, store))
          .catch(reject);
      });
      const error = await ended.then(
        () => null,
        (error: unknown) => error,
      );
      const goesOn = fault.heals && !(step.isFirst && store.refuses && what.startsWith('dropped'));
      if (goesOn) {
        expect(error, when).toBeNull();
        expect(await finishEmbedding(out)).toMatchObject({ complete: true, rows: CHUNKS * LINES });
        expect(rowsOf(out).map(({ id }) => id)).toEqual(Array.from({ length: CHUNKS * LINES }, (_, n) => `id-${n}`));
      } else {
        expect(error, when).toBeInstanceOf(HeedError);
        expect(error, when).toMatchObject({
          code: 'NETWORK',
          message: expect.stringMatching(/^queue: expected .*at/),
        });
        expect(fs.readdirSync(out).filter((file) => file.includes('tmp'))).toEqual([]);
      }
      await proxy.idle(); // no connection is left open
      proxy.close();
    });
    await Promise.all(runs);
  });
});
