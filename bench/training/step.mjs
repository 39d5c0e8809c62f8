/**
 * Trains in this process for some seconds; prints the first losses, the milliseconds of each step and the peak memory as one line of JSON.
 *
 *     node bench/training/step.mjs LIBRARY TASK SECONDS
 */
import { libraries } from './libraries.mjs';
import { COMPARED } from './task.mjs';

const [library, task, seconds] = process.argv.slice(2);
const step = await libraries[library](task);
const losses = [];
for (let i = 0; i < COMPARED; i++) losses.push(await step()); // also the warm-up
const ms = [];
const end = performance.now() + 1000 * Number(seconds);
do {
  const before = performance.now();
  await step();
  ms.push(performance.now() - before);
} while (performance.now() < end);
console.log(
  JSON.stringify({
    losses: losses.filter((loss) => loss !== undefined),
    ms,
    peakMB: process.resourceUsage().maxRSS / 1024,
  }),
);
process.exit(0);
