/**
 * Training steps (forward, backward, AdamW) of heed/train beside PyTorch, jax-js and TensorFlow.js, each on one thread. Called by run.mjs; alone it prints what it measures:
 *
 *     node bench/training.mjs [--seconds 10] [--tasks toy,minilm]
 *
 * Each library trains in a process of its own, so that peaks of memory can be compared. The libraries take turns.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { brotliCompressSync } from 'node:zlib';
import { median, speedup } from './harness.mjs';
import { fileOf, prepare, TASKS } from './training/task.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
/** How often each library has its turn: once for a short run, as each turn begins with slow steps. */
const roundsIn = (seconds) => (seconds < 5 ? 1 : 3);
/** Milliseconds after which a process is ended. */
const LIMIT = 600_000;
export const FORWARD = 'heed, forward pass alone';
const LIBRARIES = ['heed (relaxed-simd)', 'heed (simd128)', FORWARD, 'PyTorch', 'jax-js', 'tfjs-wasm', 'tfjs-cpu'];
/** What is left out: an entry here is a reason for the table. */
const LEFT_OUT = { minilm: { 'tfjs-cpu': 'a step takes minutes' } };

function train(library, task, seconds) {
  // jax-js needs Node 22.
  const node24 = here('node_modules/node-24/bin/node');
  const [program, ...args] =
    library === 'PyTorch'
      ? ['/usr/bin/python3', here('training/step.py'), fileOf(task), seconds]
      : [existsSync(node24) ? node24 : process.execPath, here('training/step.mjs'), library, task, seconds];
  const { status, stdout, stderr, error } = spawnSync(program, args.map(String), {
    encoding: 'utf8',
    timeout: LIMIT,
    env: { ...process.env, OMP_NUM_THREADS: '1', MKL_NUM_THREADS: '1' },
  });
  if (error?.code === 'ETIMEDOUT') return { failure: `not finished in ${LIMIT / 1000} s` };
  if (status !== 0) return { failure: stderr.split('\n').find((line) => /Error/.test(line)) ?? `exit code ${status}` };
  return JSON.parse(stdout.trim().split('\n').at(-1));
}

/** @throws Error if the losses of a library differ from heed's: it would train something else */
function requireSame(ours, library, losses) {
  for (const [i, loss] of losses.entries()) {
    if (Math.abs(loss - ours[i]) > 1e-3 * Math.abs(ours[i]))
      throw new Error(`bench: ${library} has the loss ${loss} in step ${i + 1}, heed ${ours[i]}`);
  }
}

async function measureTask(task, seconds, log) {
  await prepare(task);
  const rows = LIBRARIES.map((name) => ({ name, ms: [], peakMB: [], failure: LEFT_OUT[task]?.[name] ?? null }));
  const rounds = roundsIn(seconds);
  for (let round = 0; round < rounds; round++) {
    for (let k = 0; k < rows.length; k++) {
      const row = rows[(k + round) % rows.length];
      if (row.failure) continue;
      const { losses, ms, peakMB, failure } = train(row.name, task, seconds / rounds);
      if (failure) {
        log(`${task}: ${row.name}: ${failure}`);
        row.failure = failure;
        continue;
      }
      log(`${task}, round ${round + 1} of ${rounds}: ${row.name}: ${median(ms).toFixed(1)} ms a step`);
      row.losses = losses;
      row.ms.push(median(ms));
      row.peakMB.push(peakMB);
    }
  }
  const ours = rows.find(({ losses }) => losses?.length > 0).losses;
  for (const { name, losses } of rows) if (losses) requireSame(ours, name, losses);
  const [fastest] = rows.filter(({ name, failure }) => name.startsWith('heed (') && !failure);
  return {
    task,
    rows: rows.map(({ name, ms, peakMB, failure }) =>
      failure ? { name, failure } : { name, ms: median(ms), peakMB: median(peakMB), heedIs: speedup(fastest, { ms }) },
    ),
  };
}

/** What a page downloads to train: scripts, minified and without what is not used, and the WebAssembly module. */
async function downloads() {
  const { build } = await import('esbuild');
  const bundled = async (source) => {
    const { outputFiles } = await build({
      ...{ stdin: { contents: source, resolveDir: here('.') }, bundle: true, minify: true, write: false },
      ...{ format: 'esm', platform: 'browser', logLevel: 'error', outdir: 'out', splitting: false },
    });
    return outputFiles.map(({ contents }) => contents);
  };
  const dist = new URL('../dist/', import.meta.url);
  const own = (await readdir(dist)).filter((name) => /^train.*\.js$/.test(name));
  const gradients = '@tensorflow/tfjs-core/dist/register_all_gradients';
  const sets = {
    'heed/train': await Promise.all(
      [...own, 'heed-train-relaxed-simd.wasm'].map((name) => readFile(new URL(name, dist))),
    ),
    'jax-js': await bundled("export * from '@jax-js/jax';"),
    'tfjs-wasm': [
      ...(await bundled(
        `import '${gradients}'; export * from '@tensorflow/tfjs-core'; import '@tensorflow/tfjs-backend-wasm';`,
      )),
      await readFile(here('node_modules/@tensorflow/tfjs-backend-wasm/dist/tfjs-backend-wasm-simd.wasm')),
    ],
  };
  return Object.entries(sets).map(([name, files]) => ({
    name,
    raw: files.reduce((sum, file) => sum + file.length, 0),
    brotli: files.reduce((sum, file) => sum + brotliCompressSync(file).length, 0),
  }));
}

/** @returns what trainingReport() takes */
export async function measureTraining({ seconds = 10, tasks = Object.keys(TASKS), log = console.log } = {}) {
  const results = [];
  for (const task of tasks) {
    results.push(await measureTask(task, seconds, log));
    const cells = results.at(-1).rows.map(({ name, ms, failure }) => `${name} ${failure ?? ms.toFixed(1)}`);
    log(`${task}: ${cells.join(' | ')}`);
  }
  return { results, bytes: await downloads() };
}

const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

/** @returns {string} Markdown */
export function trainingReport({ results, bytes }) {
  const parts = [
    '## Training',
    `A step is a forward pass, a backward pass and AdamW, without dropout, on one thread, in processes that take turns; the processes of libraries in JavaScript run in Node 24. All
libraries begin with the same parameters, and their first losses agree to a thousandth. TensorFlow.js has no gradient for lookups in WebAssembly, so it and jax-js multiply by
one-hot rows. PyTorch is Debian's, which multiplies matrices with the system's BLAS: its figures are those of an optimized one only where
libopenblas0 is installed. The peak is the resident memory of the process.`,
  ];
  for (const { task, rows } of results) {
    const { layers, width, texts, tokens } = TASKS[task];
    const forward = rows.find(({ name }) => name === FORWARD);
    parts.push(
      `### ${layers} layers of width ${width}, ${texts} x ${tokens} tokens`,
      table(
        ['', 'ms a step', 'peak MB', 'heed is times as fast'],
        rows.map(({ name, ms, peakMB, heedIs, failure }) => {
          if (failure) return [name, failure, '', ''];
          const { median: times, low, high } = heedIs;
          const isOurs = name.startsWith('heed');
          return [
            name,
            ms.toFixed(1),
            peakMB.toFixed(0),
            isOurs ? '' : `${times.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`,
          ];
        }),
      ),
    );
    const same = rows.find(({ name }) => name === 'heed (simd128)');
    if (forward?.ms && same?.ms)
      parts.push(`A step takes ${(same.ms / forward.ms).toFixed(2)} times as long as heed's forward pass.`);
  }
  const kb = (n) => Math.round(n / 1000).toString();
  parts.push(
    '### Download for training',
    table(
      ['', 'KB', 'KB brotli'],
      bytes.map(({ name, raw, brotli }) => [name, kb(raw), kb(brotli)]),
    ),
  );
  return parts.join('\n\n');
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { values } = parseArgs({
    options: {
      seconds: { type: 'string', default: '10' },
      tasks: { type: 'string', default: Object.keys(TASKS).join() },
    },
  });
  console.log(
    trainingReport(await measureTraining({ seconds: Number(values.seconds), tasks: values.tasks.split(',') })),
  );
}
