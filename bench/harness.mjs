/**
 * Interleaved timing. Every round runs each contestant once, in an order that rotates from round to round, so that other load on the machine slows all
 * of them. A speedup is a ratio of times within one round; the report has the median of these ratios and their quartiles.
 *
 * @typedef {{ name: string, run(batch: number[][]): Promise<Float32Array>, dispose(): unknown }} Contestant
 * @typedef {{ name: string, ms: number[] }} Timing `ms[round]`
 */

/** The shapes of the latency table: [texts, tokens]. */
export const SHAPES = [
  [1, 16],
  [1, 128],
  [8, 128],
  [1, 512],
];

export function quantile(values, q) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * q;
  const below = Math.floor(at);
  return sorted[below] + (at - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
}
export const median = (values) => quantile(values, 0.5);

/** How many times as fast `ours` is as `peer`: the median and the quartiles of the rounds' ratios. */
export function speedup(ours, peer) {
  const ratios = ours.ms.map((t, round) => peer.ms[round] / t);
  return { median: median(ratios), low: quantile(ratios, 0.25), high: quantile(ratios, 0.75) };
}

/** Token ids from a fixed seed, the same for every library. */
export function makeBatch([texts, tokens], vocab = 30000) {
  let state = 12345;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return 1000 + (state % (vocab - 1000));
  };
  return Array.from({ length: texts }, () => Array.from({ length: tokens }, next));
}

/** The largest |a - b| and the cosine of two outputs, to check that the libraries compute the same. */
export function agreement(a, b) {
  let [worst, ab, aa, bb] = [0, 0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    worst = Math.max(worst, Math.abs(a[i] - b[i]));
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return { worst, cosine: ab / Math.sqrt(aa * bb) };
}

/** The time of day of this engine, in milliseconds. */
const timeOfDay = () => performance.now();

/** Milliseconds between two values of the time of day, which browsers round. */
function clockTick() {
  let tick = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 5; i++) {
    const before = timeOfDay();
    let after = before;
    while (after === before) after = timeOfDay();
    tick = Math.min(tick, after - before);
  }
  return tick;
}

/**
 * Times the contestants on one batch. A sample is as many calls as take at least 50 ticks of the clock.
 * @param {Contestant[]} contestants
 * @param {number[][]} batch
 * @param {object} [options]
 * @param {number} [options.seconds]
 * @param {number} [options.minRounds]
 * @param {number} [options.warmup] seconds for which each contestant runs first; at least three calls
 * @param {() => number | Promise<number>} [options.clock] what is measured, in milliseconds; the time of day by default
 * @param {number} [options.tick] the resolution of `clock`
 * @param {number} [options.pause] milliseconds to wait before each turn. Libraries with threads need it: after a call, threads spin for a while before they
 *   sleep, on the cores that the next contestant's threads need
 * @returns {Promise<Timing[]>} milliseconds per call
 */
export async function race(
  contestants,
  batch,
  { seconds = 8, minRounds = 7, warmup = 0, clock = timeOfDay, tick = clockTick(), pause = 0 } = {},
) {
  const timings = contestants.map(({ name }) => ({ name, ms: [] }));
  let fastest = Number.POSITIVE_INFINITY;
  for (const c of contestants) {
    // Engines recompile hot code between calls.
    const start = await clock();
    let [count, now] = [0, start];
    for (; count < 3 || now - start < warmup * 1000; count++, now = await clock()) await c.run(batch);
    fastest = Math.min(fastest, (now - start) / count);
  }
  const calls = Math.max(1, Math.ceil((50 * tick) / fastest));
  const start = timeOfDay();
  for (let round = 0; round < minRounds || timeOfDay() - start < seconds * 1000; round++) {
    for (let k = 0; k < contestants.length; k++) {
      const at = (k + round) % contestants.length;
      if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
      const before = await clock();
      for (let i = 0; i < calls; i++) await contestants[at].run(batch);
      timings[at].ms.push(((await clock()) - before) / calls);
    }
  }
  return timings;
}
