// Measures plans that many workers share: `node bench/scale.mjs [enqueue] [overhead] [workers]`, after `npm run build`. Needs redis-server.
// Prints one line per measurement; docs/scale.md has a table of them.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { createServer } from 'node:net';
import { availableParallelism, cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { finishEmbedding, planEmbedding } from '../dist/corpus.js';

const cli = fileURLToPath(new URL('../dist/cli.js', import.meta.url));
const folder = fs.mkdtempSync(join(tmpdir(), 'heed-bench-'));
const words = 'a quiet street with old trees and the smell of rain after a long dry summer in town'.split(' ');
const textOf = (n) =>
  Array.from({ length: 8 }, (_, i) => words[(n * 7 + i * 5 + ((n >> 4) % 3)) % words.length]).join(' ');

function corpus(name, lines) {
  const file = join(folder, name);
  const out = fs.openSync(file, 'w');
  for (let n = 0; n < lines; n += 10_000)
    fs.writeSync(
      out,
      Array.from(
        { length: Math.min(10_000, lines - n) },
        (_, i) => `${JSON.stringify({ id: n + i, text: textOf(n + i) })}\n`,
      ).join(''),
    );
  fs.closeSync(out);
  return file;
}

async function startRedis() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  const server = spawn('redis-server', ['--port', port, '--save', '', '--appendonly', 'no', '--dir', folder], {
    stdio: 'ignore',
  });
  const redis = new Redis(port, { maxRetriesPerRequest: null });
  await redis.ping();
  return { url: `redis://127.0.0.1:${port}`, redis, server };
}

const memory = async (redis) => Number(/used_memory:(\d+)/.exec(await redis.info('memory'))[1]);

/** How long adding a plan's chunks takes, and what Redis holds then. */
async function enqueue({ url, redis }) {
  const file = corpus('million.jsonl', 1_000_000);
  for (const chunk of [10_000, 100, 10]) {
    await redis.flushall();
    const out = join(folder, `enqueue-${chunk}`);
    const began = performance.now();
    await planEmbedding([file], { out, chunk });
    const planned = performance.now();
    const before = await memory(redis);
    await finishEmbedding(out, { queue: url });
    const seconds = (performance.now() - planned) / 1000;
    const held = ((await memory(redis)) - before) / 2 ** 20;
    console.log(
      `enqueue: 1,000,000 lines, ${1_000_000 / chunk} chunks: planned in ${((planned - began) / 1000).toFixed(1)} s, enqueued in ${seconds.toFixed(2)} s, ${held.toFixed(1)} MiB in Redis`,
    );
  }
  fs.rmSync(file);
}

/** What the queue costs per job: jobs that do nothing, one at a time. */
async function overhead({ url, redis }) {
  await redis.flushall();
  const connection = { url, maxRetriesPerRequest: null };
  const queue = new Queue('overhead', { connection });
  const jobs = 5000;
  await queue.addBulk(
    Array.from({ length: jobs }, (_, chunk) => ({
      name: 'chunk',
      data: { chunk },
      opts: { jobId: `c${chunk}`, removeOnComplete: true },
    })),
  );
  let done = 0;
  let finish;
  const all = new Promise((resolve) => {
    finish = resolve;
  });
  const cpu = (await redis.info('cpu'))
    .match(/used_cpu_(?:sys|user):([\d.]+)/g)
    .reduce((sum, line) => sum + Number(line.split(':')[1]), 0);
  const began = performance.now();
  const worker = new Worker('overhead', async () => {}, { connection });
  worker.on('completed', () => ++done === jobs && finish());
  await all;
  const ms = (performance.now() - began) / jobs;
  const after = (await redis.info('cpu'))
    .match(/used_cpu_(?:sys|user):([\d.]+)/g)
    .reduce((sum, line) => sum + Number(line.split(':')[1]), 0);
  console.log(
    `overhead: ${ms.toFixed(2)} ms per job, of which ${(((after - cpu) / jobs) * 1e3).toFixed(3)} ms of the server's CPU time`,
  );
  await worker.close();
  await queue.close();
}

/** CPU seconds of a process and its threads, from the kernel. */
const cpuOf = (pid) => {
  const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
};

const kRows = Number(process.env.ROWS ?? 16_000);
const kChunk = kRows / 16;

/** Rows per second of `count` processes with one thread each, from the first part to the last, and CPU milliseconds per row. */
async function rate(count, queue, file, name) {
  const out = join(folder, name);
  await planEmbedding([file], { out, chunk: kChunk });
  let cpu = 0;
  const children = Array.from({ length: count }, (_, i) => {
    const share = queue ? ['--queue', queue] : ['--shard', `${i}/${count}`];
    const own = ['taskset', '-c', String(i % availableParallelism())];
    const child = spawn(
      own[0],
      [...own.slice(1), process.execPath, cli, 'corpus', 'work', out, '--workers', '1', ...share],
      { stdio: 'ignore' },
    );
    child.once('exit', () => {});
    return child;
  });
  const poll = setInterval(() => {
    const now = children
      .map(({ pid }) => (fs.existsSync(`/proc/${pid}/stat`) ? cpuOf(pid) : 0))
      .reduce((a, b) => a + b);
    cpu = Math.max(cpu, now);
  }, 100);
  await Promise.all(children.map((child) => once(child, 'close')));
  clearInterval(poll);
  const { rows } = await finishEmbedding(out);
  const times = fs
    .readdirSync(out)
    .filter((part) => part.startsWith('part-'))
    .map((part) => fs.statSync(join(out, part)).mtimeMs)
    .sort((a, b) => a - b);
  fs.rmSync(out, { recursive: true });
  // Each worker's first part is where its clock starts.
  const seconds = (times.at(-1) - times[count - 1]) / 1000;
  return { rate: (rows - kChunk * count) / seconds, cpu: (1000 * cpu) / rows };
}

const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];

/** One worker, two, and two with a queue, interleaved, because the machine may be busy. */
async function workers({ url, redis }) {
  const file = corpus('rows.jsonl', kRows);
  const runs = { 'one worker': [1, null], 'two workers, shards': [2, null], 'two workers, Redis': [2, url] };
  const found = Object.fromEntries(Object.keys(runs).map((name) => [name, []]));
  for (let round = 0; round < Number(process.env.ROUNDS ?? 5); round++)
    for (const [name, [count, queue]] of Object.entries(runs)) {
      if (queue) await redis.flushall();
      found[name].push(await rate(count, queue, file, 'rate'));
      console.log(
        `round ${round}: ${name}: ${found[name].at(-1).rate.toFixed(0)} rows/s, ${found[name].at(-1).cpu.toFixed(2)} ms CPU per row`,
      );
    }
  for (const [name, list] of Object.entries(found)) {
    const ratios = list.map(({ rate }, i) => rate / found['one worker'][i].rate);
    console.log(
      `workers: ${name}: ${Math.round(median(list.map(({ rate }) => rate)))} rows/s, ${median(list.map(({ cpu }) => cpu)).toFixed(2)} ms CPU per row, ${median(ratios.slice()).toFixed(2)} times one (${ratios.map((r) => r.toFixed(2)).join(', ')})`,
    );
  }
}

console.log(`${cpus()[0].model}, ${cpus().length} cores, load ${loadavg()[0].toFixed(1)}, Node ${process.version}`);
const server = await startRedis();
const parts = { enqueue, overhead, workers };
try {
  for (const [name, part] of Object.entries(parts))
    if (process.argv.length < 3 || process.argv.includes(name)) await part(server);
} finally {
  server.redis.disconnect();
  server.server.kill();
  fs.rmSync(folder, { recursive: true, force: true });
}
process.exit();
