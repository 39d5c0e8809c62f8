/**
 * Stores rows in PostgreSQL with pgvector. One transaction inserts a chunk's rows and marks the chunk as done; the
 * primary key prevents duplicate rows.
 */
import { Socket } from 'node:net';
import { abortable } from '../base/event-loop.js';
import { HeedError } from '../index.js';
import { invalid } from '../node/index.js';
import { planId } from './machine.js';
import type { Manifest } from './manifest.js';
import type { Row } from './part.js';
import type { ServerOptions } from './plan-options.js';
import { addressOf, limited, requirePeer } from './server.js';

type Client = import('pg').Client;

/** Seconds between checks of the server. */
const INTERVAL = 5;

/** Seconds that a server has to answer, at least: the work of a database that is there takes some time. */
const LEAST_TIMEOUT = 1;

/** A connection, used for one chunk at a time. */
export class VectorTable {
  #isClosed = false;

  private constructor(
    private readonly client: Client,
    private readonly socket: Socket,
    /** Seconds to wait for the server, except for queries that may take long. */
    private readonly timeout: number,
    private readonly table: string,
    private readonly plan: string,
    private readonly type: string,
  ) {}

  /**
   * Connects, and creates the table and the table of its finished chunks if they are missing.
   *
   * @throws HeedError NETWORK, UNSUPPORTED, INVALID_ARGUMENT; the signal's reason
   */
  static async open(
    { to: url = '', table: name = 'embeddings', queueTimeout = 20, signal }: ServerOptions,
    manifest: Manifest,
  ): Promise<VectorTable> {
    if (manifest.output === 'int8')
      throw invalid('to', "a plan with `output` 'float32' or 'binary' (pgvector has no int8)", 'int8', 'UNSUPPORTED');
    addressOf('to', url, ['postgres://host:port/database']);
    const { Client } = requirePeer<typeof import('pg')>('to', 'pg', 'pg');
    const type = `${manifest.output === 'float32' ? 'vector' : 'bit'}(${manifest.width})`;
    let table: VectorTable | undefined;
    try {
      const socket = new Socket(); // made here, so that it can be destroyed
      const client = new Client({ connectionString: url, stream: () => socket });
      client.on('error', () => {}); // the next query reports the error
      table = new VectorTable(client, socket, Math.max(LEAST_TIMEOUT, queueTimeout), name, planId(manifest), type);
      await abortable(limited(1000 * table.timeout, client.connect()), signal);
      await abortable(table.#create(), signal);
      return table;
    } catch (cause) {
      void table?.close(); // not awaited, because the server may not answer
      throw signal?.aborted ? signal.reason : asNetwork(cause);
    }
  }

  async #create(): Promise<void> {
    const { type } = this;
    const [table, parts] = this.#names();
    await this.#ask('BEGIN');
    await this.#ask(`SELECT pg_advisory_xact_lock(hashtext('heed'))`); // IF NOT EXISTS does not prevent races
    try {
      const create = 'CREATE EXTENSION IF NOT EXISTS vector';
      if (type.startsWith('vector')) await limited(1000 * this.timeout, this.client.query(create));
    } catch (cause) {
      if (!isAnswer(cause)) throw cause;
      const got = `${(cause as Error).message}. Install pgvector there, or plan with \`output\` 'binary'`;
      throw invalid('to', 'a server with pgvector', got, 'UNSUPPORTED', { cause });
    }
    await this.#ask(
      `CREATE TABLE IF NOT EXISTS ${table} (file text, line bigint, id text, error text, embedding ${type}, PRIMARY KEY (file, line))`,
    );
    await this.#ask(
      `CREATE TABLE IF NOT EXISTS ${parts} (plan text, chunk integer, rows integer, PRIMARY KEY (plan, chunk))`,
    );
    const { rows } = await this.#ask(`SELECT plan FROM ${parts} WHERE plan <> $1 LIMIT 1`, [this.plan]);
    await this.#ask('COMMIT');
    if (rows.length > 0) throw invalid('table', 'a table for this plan', `${table}, which has another plan's rows`);
  }

  #names(): [table: string, parts: string] {
    return [this.client.escapeIdentifier(this.table), this.client.escapeIdentifier(`${this.table}_parts`)];
  }

  async done(): Promise<Set<number>> {
    const { rows } = await this.#ask(`SELECT chunk FROM ${this.#names()[1]} WHERE plan = $1`, [this.plan]);
    return new Set(rows.map(({ chunk }) => chunk as number));
  }

  async has(chunk: number): Promise<boolean> {
    const values = [this.plan, chunk];
    const { rows } = await this.#ask(`SELECT FROM ${this.#names()[1]} WHERE plan = $1 AND chunk = $2`, values);
    return rows.length > 0;
  }

  /**
   * Asks the server regularly whether it is there. The threads that insert rows cannot tell, because an insertion may
   * wait for another worker's transaction.
   *
   * @throws HeedError NETWORK when the server no longer answers
   */
  async watch(): Promise<void> {
    while (!this.#isClosed) {
      await new Promise((resolve) => setTimeout(resolve, 1000 * INTERVAL).unref());
      if (!this.#isClosed) await this.#ask('SELECT 1');
    }
  }

  /** The number of rows of a plan's files in the table, which may have others. */
  async count(files: Manifest['files']): Promise<number> {
    const names = files.map(({ file }) => file);
    const { rows } = await this.#query(`SELECT count(*) AS count FROM ${this.#names()[0]} WHERE file = ANY($1)`, [
      names,
    ]);
    return Number(rows[0].count);
  }

  async begin(): Promise<void> {
    await this.#query('BEGIN');
  }

  async insert(rows: Row[]): Promise<void> {
    const text = (id: unknown) =>
      id === undefined || id === null ? null : typeof id === 'string' ? id : JSON.stringify(id);
    await this.#query(
      `INSERT INTO ${this.#names()[0]} (file, line, id, error, embedding)
       SELECT file, line, id, error, embedding::${this.type}
       FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[]) AS t (file, line, id, error, embedding)
       ON CONFLICT DO NOTHING`,
      [
        rows.map(({ file }) => file),
        rows.map(({ line }) => line),
        rows.map(({ id }) => text(id)),
        rows.map(({ error }) => error ?? null),
        rows.map(({ vector }) => (vector ? this.#literal(vector.values) : null)),
      ],
    );
  }

  #literal(values: ArrayLike<number>): string {
    if (this.type.startsWith('vector')) return `[${Array.from(values).join(',')}]`;
    const bits = Array.from(values, (byte) => byte.toString(2).padStart(8, '0')).join('');
    return bits.slice(0, Number(/\d+/.exec(this.type)![0]));
  }

  /** Marks a chunk as done and commits. If two processes insert the same chunk, the second one's rows are dropped. */
  async commit(chunk: number, rows: number): Promise<void> {
    const values = [this.plan, chunk, rows];
    await this.#query(`INSERT INTO ${this.#names()[1]} VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, values);
    await this.#query('COMMIT');
  }

  async rollback(): Promise<void> {
    await this.client.query('ROLLBACK').catch(() => {}); // the server rolls back when a connection is lost
  }

  /** Closes the connection, waiting at most 3 s for the server. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const timer = setTimeout(() => this.socket.destroy(), 3000);
    await this.client.end().catch(() => {});
    clearTimeout(timer);
  }

  /** A query that the server answers at once. */
  #ask(sql: string, values?: unknown[]) {
    return this.#query(sql, values, 1000 * this.timeout);
  }

  /** `limit`: milliseconds to wait for the answer. */
  async #query(sql: string, values: unknown[] = [], limit = Number.POSITIVE_INFINITY) {
    try {
      return await limited(limit, this.client.query(sql, values));
    } catch (cause) {
      throw asNetwork(cause);
    }
  }
}

/** Whether an error is the server's answer to a query, rather than a connection or a server that ends (SQLSTATE 57, 08). */
const isAnswer = (error: unknown): boolean => {
  const { severity, code } = error as { severity?: string | undefined; code?: string | undefined };
  return severity !== undefined && code !== undefined && !/^(08|57)/.test(code);
};

function asNetwork(cause: unknown): HeedError {
  if (cause instanceof HeedError) return cause;
  const { message, code } = cause as NodeJS.ErrnoException;
  return new HeedError('NETWORK', `to: expected a PostgreSQL server that takes the rows, got ${message || code}`, {
    cause,
  });
}
