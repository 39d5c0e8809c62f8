/** Errors of plans and workers: one clear message, an exit code, and no changes. */
import { getEventListeners, once } from 'node:events';
import * as fs from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { HeedError } from 'heed';
import { finishEmbedding, type Manifest, planEmbedding, workEmbedding } from 'heed/corpus';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Answer, startFakePostgres } from './fake-postgres.js';
import { corpus, makeFolder, rowsOf, run, start } from './support.js';

let folder: string;
let model: string;
let out: string;
let file: string;
let count = 0;
const path = (name: string) => join(folder, name);

beforeAll(() => {
  folder = makeFolder();
  model = path('model');
});
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

const plan = (chunk = 20) => planEmbedding([file], { out, model, chunk });

beforeEach(() => {
  count++;
  out = path(`out-${count}`);
  file = path(`in-${count}.jsonl`);
  fs.writeFileSync(file, corpus(100));
});

/** Expects an error of one line, and exit code 2 for wrong usage or 1 for failures. */
async function refuses(args: string[], message: string | RegExp, expected: 1 | 2 = 2): Promise<void> {
  const { code, err, out: printed } = await run(args);
  expect({ code, printed, message }).toEqual({ code: expected, printed: '', message });
  expect(err).toMatch(message);
  expect(err).toMatch(/^heed: .*\n$/);
}

describe('planning', () => {
  test('a second plan in the same folder', async () => {
    await plan();
    const before = fs.readFileSync(join(out, 'manifest.json'));
    await refuses(
      ['plan', file, '--out', out, '--model', model],
      /^heed: --out: expected a folder without a plan, got .*heed corpus work/,
    );
    expect(fs.readFileSync(join(out, 'manifest.json')).equals(before)).toBe(true);
    fs.rmSync(join(out, 'manifest.json'));
    fs.writeFileSync(join(out, 'part-00000.jsonl'), '');
    await expect(plan()).rejects.toThrow('out: expected a folder without parts, got');
  });

  test('two processes that plan in the same folder at once', async () => {
    const both = await Promise.allSettled([plan(), plan(7)]);
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    const won = both.find((each) => each.status === 'fulfilled')!.value;
    expect(JSON.parse(fs.readFileSync(join(out, 'manifest.json'), 'utf8'))).toEqual(won);
    expect(fs.readdirSync(out)).toEqual(['manifest.json']);
  });

  test('files and folders that cannot be used', async () => {
    await refuses(['plan', '--out', out], "missing required argument 'files'; `heed corpus plan --help`");
    await refuses(['plan', file], "required option '--out <folder>' not specified; `heed corpus plan --help`");
    await refuses(['plan', '/no/such', '--out', out], '/no/such: cannot be read (no such file)', 1);
    await refuses(['plan', folder, '--out', out], /files: expected files, got .*, which is not a file/);
    await refuses(['plan', '-', '--out', out], "'-' (standard input)");
    await refuses(['plan', file, file, '--out', out], 'files: expected each file once');
    await refuses(['plan', `${file}.csv`, '--out', out], 'cannot be read', 1);
    fs.writeFileSync(`${file}.csv`, 'text\na\n');
    await refuses(['plan', `${file}.csv`, '--out', out], 'files: expected files of lines or JSON lines', 1);
    await refuses(['plan', file, '--out', file], `out: expected a folder, got '${file}', which is a file`);
    await refuses(['plan', file, '--out', join(file, 'below')], /cannot be written \(ENOTDIR/, 1);
    await refuses(['plan', file, '--out', out, '--model', 'http://localhost/m'], '--model: expected a model', 1);
    await refuses(['plan', file, '--out', out, '--model', model, '--dimensions', '25'], /dimensions: expected/);
    expect(fs.existsSync(out)).toBe(false);
  });

  test('options of another command, and wrong values', async () => {
    await refuses(['work', out, '--dtype', 'q8'], "unknown option '--dtype'");
    await refuses(['status', out, '--queue', 'redis://x'], "unknown option '--queue'");
    await refuses([file], "corpus: expected plan or work or status or finish, got '");
    await refuses([], 'corpus: expected plan or work or status or finish, got nothing');
    await refuses(['work', out, file], "too many arguments for 'work'");
    await refuses(
      ['work', out, '--shard', '3/3'],
      "--shard: expected i/n with i from 0 to n - 1, such as 0/3, got '3/3'",
    );
    await refuses(['work', out, '--workers', 'many'], "--workers: expected 'auto' or a whole number");
    await refuses(['work', out, '--lock', '0'], '--lock: expected a whole number of at least 1');
    await refuses(['plan', file, '--out', out, '--type', 'int4'], '--type: expected one of float32, int8, binary');
    for (const [options, message] of [
      [{ shard: { index: 2, count: 2 } }, 'shard: expected { index, count } with 0 <= index < count'],
      [{ shard: { index: 0, count: 1 }, queue: 'redis://x' }, 'shard: expected only one of shard and queue, got both'],
      [{ workers: 0 }, "workEmbedding.workers: expected 'auto' or an integer from 1 to 256, got 0"],
      [{ lock: 0 }, 'workEmbedding.lock: expected a number of at least 1, got 0'],
    ] as const)
      await expect(workEmbedding(out, options)).rejects.toThrow(message);
  });
});

describe('working', () => {
  test('without a plan, or with one that cannot be read', async () => {
    for (const mode of ['work', 'status', 'finish'])
      await refuses(
        [mode, out],
        /^heed: folder: expected the folder of a plan, with manifest.json, got .*heed corpus plan/,
        1,
      );
    fs.mkdirSync(out);
    for (const [text, message] of [
      ['{', 'expected a manifest of heed, got a file that is not JSON'],
      ['{"version":2}', 'expected a manifest of version 1, got version 2'],
      [
        '{"version":1,"chunks":[{"file":"x"}],"files":[]}',
        'expected files, and chunks { file, first, bytes, sha256, rows }',
      ],
      ['{"version":1,"chunks":[],"output":"fp32"}', 'expected an output of float32, int8, binary, got fp32'],
    ] as const) {
      fs.writeFileSync(join(out, 'manifest.json'), text);
      await expect(workEmbedding(out)).rejects.toThrow(message);
    }
  });

  test('a corpus that changed after the plan', async () => {
    await plan();
    const text = fs.readFileSync(file, 'utf8');
    fs.appendFileSync(file, '"more"\n');
    await refuses(
      ['work', out],
      /in-\d+\.jsonl: expected the file that was planned, got a file of \d+ bytes instead of \d+\. Restore it/,
      1,
    );
    fs.rmSync(file);
    await refuses(['work', out], /in-\d+\.jsonl: expected the file that was planned, got none/, 1);
    // With the same length, only the changed chunk fails; a later run tries it again.
    fs.writeFileSync(file, text.replace('id-30', 'id-99'));
    const { code, err, out: printed } = await run(['work', out]);
    expect({ code, printed }).toEqual({ code: 1, printed: `${out}: wrote 4 parts, 80 rows, 3 errors\n` });
    expect(err).toMatch(
      /^heed: chunk 1: .*expected the file that was planned, got different bytes from \d+ to \d+.*\nheed: 1 chunk failed: 1\n$/,
    );
    expect((await run(['status', out])).out).toMatch(/failures +1\n {2}chunk 1 +/);
    expect(await finishEmbedding(out)).toMatchObject({ complete: false, missing: [1], failed: [{ chunk: 1 }] });
    fs.writeFileSync(file, text);
    expect(await workEmbedding(out)).toEqual({ parts: 1, rows: 20, errors: 0, failed: [] });
    expect(await finishEmbedding(out)).toMatchObject({ complete: true, rows: 100 });
  });

  test('another model, another heed, another build, another machine', async () => {
    const manifest = await plan();
    const changed = async (change: Partial<Manifest>, message: RegExp) => {
      fs.writeFileSync(join(out, 'manifest.json'), JSON.stringify({ ...manifest, ...change }));
      await refuses(['work', out], message, 1);
    };
    await changed({ heed: '0.0.1' }, /^heed: heed: expected version 0\.0\.1, with which the plan was made, got \d/);
    await changed({ build: 'sse' as never }, /^heed: build: expected simd128 or relaxed-simd, got 'sse'/);
    await changed({ wasm: '00' }, /^heed: heed: expected the plan's module heed-simd128\.wasm|relaxed/);
    await changed({ probe: '00' }, /^heed: machine: expected the plan's vectors for a few fixed texts, bit for bit/);
    await changed({ model: { ...manifest.model, source: path('none') } }, /^heed: --model: expected a model's folder/);
    const config = join(model, 'config.json');
    const text = fs.readFileSync(config, 'utf8');
    try {
      fs.writeFileSync(config, `${text} `);
      await changed({}, /^heed: model .*: expected the files that the plan was made with, got different files/);
    } finally {
      fs.writeFileSync(config, text);
    }
    expect(fs.readdirSync(out)).toEqual(['manifest.json']);
    fs.writeFileSync(join(out, 'manifest.json'), JSON.stringify(manifest));
    expect(await workEmbedding(out)).toMatchObject({ parts: 5 });
  });

  test("a copy of the plan's model is another path, not another model", async () => {
    const moved = path('moved-model');
    fs.cpSync(model, moved, { recursive: true });
    await planEmbedding([file], { out, model: moved, chunk: 20 });
    const copy = path('copied model');
    fs.renameSync(moved, copy);
    await refuses(['work', out], /^heed: --model: expected a model's folder .*`heed corpus work DIR --model`\n/, 1);
    expect(await run(['work', out, '--model', copy, '--shard', '0/2'])).toMatchObject({ code: 0, err: '' });
    expect(await workEmbedding(out, { model: copy })).toMatchObject({ parts: 2, failed: [] });
    expect(await finishEmbedding(out)).toMatchObject({ complete: true, rows: 100 });
    const config = join(copy, 'config.json');
    fs.appendFileSync(config, ' ');
    for (const other of [copy, join(copy, 'config.json')])
      await refuses(
        ['work', out, '--model', other],
        /: expected the files that the plan was made with, got different files/,
        1,
      );
    await refuses(['work', out, '--model', path('none')], /^heed: --model: expected a model's folder/, 1);
    await expect(workEmbedding(out, { model: '' })).rejects.toThrow(
      "workEmbedding.model: expected a string that is not empty, got ''",
    );
  });

  test.runIf(process.execArgv.some((flag) => flag.includes('relaxed-simd')))(
    'an engine without the build',
    async () => {
      await plan();
      const { code, err } = await run(['work', out], { flags: [] });
      expect(code).toBe(1);
      expect(err).toMatch(
        /^heed: machine: expected an engine that runs the plan's build relaxed-simd, got .*--build simd128/,
      );
    },
  );

  test('a disk that is full', async () => {
    // A limit on the size of files has the same effect: a write fails in the middle of a part.
    await plan(50);
    const full = await run(['work', out, '--workers', '1'], {
      prefix: ['bash', '-c', 'ulimit -f 8; exec "$@"', 'bash'],
    });
    expect(full.code).toBe(1);
    expect(full.err).toMatch(
      /^heed: .*part-00000\.jsonl: cannot be written \(E\w+: .*\)\. The disk is full\. Free space/,
    );
    expect(fs.readdirSync(out)).toEqual(['manifest.json']);
    expect(await workEmbedding(out)).toMatchObject({ parts: 2, rows: 100 });
    expect(await finishEmbedding(out)).toMatchObject({ complete: true });
  });

  test.each(['SIGINT', 'SIGTERM'] as const)('%s at any moment keeps what is written', async (signal) => {
    fs.writeFileSync(file, corpus(4000));
    await plan(40);
    const { child, ended } = start(['work', out, '--workers', '1']);
    // Sends the signal as soon as a part exists.
    const watcher = fs.watch(out, (_, name) => /^part-\d+\.jsonl$/.test(String(name)) && child.kill(signal));
    const { code, err } = await ended;
    watcher.close();
    expect([code, err]).toEqual([
      { SIGINT: 130, SIGTERM: 143 }[signal],
      `heed: stopped by ${signal}; finished parts are kept; run the same command again to go on\n`,
    ]);
    expect(fs.readdirSync(out).filter((name) => name.includes('tmp'))).toEqual([]);
    const { parts } = await workEmbedding(out);
    expect(parts).toBeLessThan(100);
    expect(await finishEmbedding(out)).toMatchObject({ complete: true, rows: 4000 });
    expect(new Set(rowsOf(out).map(({ id }) => id)).size).toBe(4000);
  });

  test('an abort signal of the caller', async () => {
    await plan();
    const reason = new Error('enough');
    await expect(workEmbedding(out, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const stop = new AbortController();
    const work = workEmbedding(out, { workers: 1, signal: stop.signal, onProgress: () => stop.abort(reason) });
    await expect(work).rejects.toBe(reason);
    await expect(planEmbedding([file], { out: `${out}-2`, model, signal: stop.signal })).rejects.toBe(reason);
    expect(await workEmbedding(out)).toMatchObject({ failed: [] });
    expect(await finishEmbedding(out)).toMatchObject({ complete: true });
  });

  test('an abort while a server is asked', async () => {
    await planEmbedding([file], { out, model, output: 'binary' });
    const reason = new Error('enough');
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const address = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const [to, redis] = [`postgres://${address}/x`, `redis://${address}`];
    for (const run of [
      (signal: AbortSignal) => workEmbedding(out, { to, signal }),
      (signal: AbortSignal) => finishEmbedding(out, { to, signal }),
      (signal: AbortSignal) => workEmbedding(out, { queue: redis, queueTimeout: 1e9, signal }),
      (signal: AbortSignal) => workEmbedding(out, { queue: to, queueTimeout: 1e9, signal }),
      (signal: AbortSignal) => finishEmbedding(out, { queue: redis, queueTimeout: 1e9, signal }),
    ]) {
      const stop = new AbortController();
      const connected = once(silent, 'connection');
      const ended = run(stop.signal).catch((error: unknown) => error);
      const [socket] = (await connected) as [Socket];
      const closed = once(socket.resume(), 'close');
      expect(getEventListeners(stop.signal, 'abort')).not.toHaveLength(0);
      stop.abort(reason);
      expect(await ended).toBe(reason);
      expect(getEventListeners(stop.signal, 'abort')).toHaveLength(0);
      await closed; // no more attempts to connect
    }
    silent.close();
    await once(silent, 'close');
    expect(fs.readdirSync(out)).toEqual(['manifest.json']);
  });

  test('a queue that is away, or none', async () => {
    await plan();
    await refuses(
      ['work', out, '--queue', 'amqp://me:secret@host'],
      /^heed: --queue: expected .*redis:\/\/host:port.*, got 'amqp:\/\/host'\n/,
    );
    await refuses(['work', out, '--queue', 'redis://host/name'], "got 'redis://host/name'");
    await refuses(['work', out, '--to', 'redis://host'], '--to: expected a URL like postgres://host:port/database');
    for (const url of ['redis://name:secret@127.0.0.1:1', 'postgres://name:secret@127.0.0.1:1/x']) {
      const error = await workEmbedding(out, { queue: url, queueTimeout: 0.2 }).catch((error: unknown) => error);
      expect(error).toBeInstanceOf(HeedError);
      const { code, message } = error as HeedError;
      expect(code).toBe('NETWORK');
      expect(message).toMatch(
        /^queue: expected a server at \w+:\/\/127\.0\.0\.1:1(\/x)?, got none within 0\.2 s \((connect ECONNREFUSED.*|no answer)\)\..*`queueTimeout`/,
      );
    }
    await expect(workEmbedding(out, { to: 'postgres://127.0.0.1:1/x' })).rejects.toMatchObject({ code: 'NETWORK' });
  });

  test('options of servers that are not given', async () => {
    await plan();
    const to = 'postgres://127.0.0.1:1/x';
    for (const [name, run] of Object.entries({ workEmbedding, finishEmbedding })) {
      await expect(run(out, { queueTimeout: 1 })).rejects.toThrow(
        `${name}.queueTimeout: expected ${name}.queue or ${name}.to, without which it has no effect`,
      );
      await expect(run(out, { table: 't' })).rejects.toThrow(`${name}.table: expected ${name}.to, without`);
      await expect(run(out, { to, queueTimeout: 2 })).rejects.toMatchObject({ code: 'NETWORK' });
    }
    await expect(workEmbedding(out, { to, lock: 2 })).rejects.toThrow(
      'workEmbedding.lock: expected workEmbedding.queue',
    );
    await refuses(['finish', out, '--retry'], '--retry: expected --queue or --to, without which it has no effect');
  });

  test.each<[string, Answer, object]>([
    ['a server without pgvector', { sqlstate: '0A000' }, { code: 'UNSUPPORTED', message: /Install pgvector there/ }],
    ['a server that is silent', 'silence', { code: 'NETWORK', message: /takes the rows, got no answer$/ }],
    ['a server that is lost', 'lost', { code: 'NETWORK', message: /takes the rows, got Connection terminated/ }],
    ['a server that shuts down', { sqlstate: '57P01' }, { code: 'NETWORK', message: /takes the rows, got refused$/ }],
  ])('%s while its extension is made', async (_, answer, expected) => {
    await plan();
    const server = await startFakePostgres((sql) => (sql.startsWith('CREATE EXTENSION') ? answer : undefined));
    const { code, message } = expected as { code: string; message: RegExp };
    await expect(workEmbedding(out, { to: server.url, queueTimeout: 0 })).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message),
    });
    await server.close();
  });

  describe('finish counts the rows of a table', { timeout: 60_000 }, () => {
    async function finish(count: (asked: () => Promise<unknown>) => Promise<Answer>, alive: Answer | undefined) {
      const { chunks } = await planEmbedding([file], { out, model, chunk: 20 });
      await workEmbedding(out, { workers: 1 });
      let tell = () => {};
      const asked = new Promise<void>((resolve) => {
        tell = resolve;
      });
      const server = await startFakePostgres((sql) => {
        if (sql.startsWith('SELECT chunk')) return { column: 'chunk', values: [...chunks.keys()] };
        if (sql.startsWith('SELECT count')) return count(() => asked);
        if (sql !== 'SELECT 1') return undefined;
        tell();
        return alive;
      });
      const ended = finishEmbedding(out, { to: server.url, queueTimeout: 0 });
      await ended.catch(() => {}).finally(() => server.close());
      return ended;
    }

    test('while the server answers others', async () => {
      const counted = finish((asked) => asked().then(() => ({ column: 'count', values: [100] })), {
        column: 'one',
        values: [1],
      });
      expect(await counted).toMatchObject({ complete: true, rows: 100 });
    });

    test('until the server no longer answers', async () => {
      const counted = finish(async () => 'silence', 'silence');
      await expect(counted).rejects.toMatchObject({ code: 'NETWORK', message: expect.stringMatching(/^to: /) });
      expect(fs.existsSync(join(out, '_SUCCESS'))).toBe(false);
    });
  });
});
