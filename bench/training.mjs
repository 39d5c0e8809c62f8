/**
 * Training steps (forward, backward, AdamW) of heed beside heed's own forward, PyTorch on one thread, tfjs and jax-js:
 *
 *     node bench/training.mjs [--seconds 20] [--rounds 5] [--shape toy] [--shape minilm] [--peers pytorch,tfjs-wasm,tfjs-cpu,jax-js]
 *
 * Every library computes the same: an embedding of 10 symbols, sinusoidal positions, post-norm encoder layers without dropout, a linear layer and the mean cross entropy, from the same
 * weights on the same batch; the losses of the first steps are compared. The libraries take turns, one step each per round, in an order that rotates; ratios are taken within
 * rounds. Peak memory is that of a process that runs one library alone. Node 20 needs --experimental-wasm-relaxed-simd for heed's faster build. PyTorch is that of
 * /usr/bin/python3; a library that is not installed, or fails, is skipped with its message.
 */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { trainingBytes } from './bytes.mjs';
import { median, quantile, speedup } from './harness.mjs';
import { contestants } from './training/contestants.mjs';
import { makeTask, SHAPES } from './training/task.mjs';

const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '20' },
    rounds: { type: 'string', default: '5' }, // at least
    shape: { type: 'string', multiple: true, default: Object.keys(SHAPES) },
    peers: { type: 'string', default: 'pytorch,tfjs-wasm,tfjs-cpu,jax-js' },
    memory: { type: 'string' }, // internal: runs one library alone and prints its peak
  },
});
const wanted = ['heed', 'heed forward', ...options.peers.split(',').filter(Boolean)];

/** tfjs on cpu takes minutes for a step of MiniLM's shape. */
const isMeasured = (name, shape) => name !== 'tfjs-cpu' || shape === 'toy';

async function open(name, task) {
  try {
    return await contestants[name](task);
  } catch (error) {
    console.log(`${name} is skipped: ${error.message}`);
    return null;
  }
}

/** Steps in turns; every `step()` returns { ms, loss }. */
async function race(runners, seconds, rounds) {
  const timings = runners.map(({ name }) => ({ name, ms: [] }));
  const start = performance.now();
  for (let round = 0; round < rounds || performance.now() - start < seconds * 1000; round++) {
    for (let k = 0; k < runners.length; k++) {
      const at = (k + round) % runners.length;
      timings[at].ms.push((await runners[at].step()).ms);
    }
  }
  return timings;
}

/** The peak resident memory in MB of a process that runs two steps of one library. */
async function peakOf(name, shape) {
  const own = fileURLToPath(import.meta.url);
  const args = [...process.execArgv, own, '--memory', name, '--shape', shape];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return Number(stdout.trim().split('\n').at(-1));
}

if (options.memory) {
  const runner = await contestants[options.memory](makeTask(options.shape[0]));
  for (let step = 0; step < 2; step++) await runner.step();
  const peak = (await runner.peakMB?.()) ?? process.resourceUsage().maxRSS / 1024;
  console.log(peak.toFixed(0));
  process.exit(0);
}

console.log(`Node ${process.versions.node}, one thread`);
for (const shape of options.shape) {
  const task = makeTask(shape);
  const { batch, length, width, layers } = task;
  console.log(`\n${shape}: ${batch} x ${length}, ${layers} layers of width ${width}`);
  const runners = [];
  for (const name of wanted.filter((one) => isMeasured(one, shape))) {
    const runner = await open(name, task);
    if (!runner) continue;
    try {
      // Also warms up: engines recompile hot code between calls.
      const losses = [];
      const start = performance.now();
      while (losses.length === 0 || (losses.length < 3 && performance.now() - start < 5000))
        losses.push((await runner.step()).loss);
      const shown = losses.map((loss) => loss.toFixed(5)).join(' ');
      console.log(`  ${name.padEnd(14)} ${runner.about}${losses[0] ? `; losses ${shown}` : ''}`);
      runners.push({ ...runner, name });
    } catch (error) {
      console.log(`  ${name} is skipped: ${error.message}`);
    }
  }
  const timings = await race(runners, Number(options.seconds), Number(options.rounds));
  const ours = timings.find(({ name }) => name === 'heed');
  for (const timing of timings) {
    const { median: ratio, low, high } = speedup(ours, timing);
    const spread = `${quantile(timing.ms, 0.25).toFixed(1)} to ${quantile(timing.ms, 0.75).toFixed(1)}`;
    const peak = timing.name === 'heed forward' ? '' : `, peak ${await peakOf(timing.name, shape)} MB`;
    console.log(
      `  ${timing.name.padEnd(14)} ${median(timing.ms).toFixed(1).padStart(8)} ms (${spread}); ` +
        `its time / heed's ${ratio.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)}), ${timing.ms.length} rounds${peak}`,
    );
  }
  for (const runner of runners) await runner.dispose();
}

console.log('\nJavaScript and WebAssembly that a page downloads to train, KB and KB brotli');
for (const { name, raw, brotli } of await trainingBytes())
  console.log(`  ${name.padEnd(14)} ${(raw / 1024).toFixed(0).padStart(6)} ${(brotli / 1024).toFixed(0).padStart(6)}`);
process.exit(0); // tfjs keeps the process alive
