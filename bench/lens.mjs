/**
 * What the lens costs, on encoders of MiniLM's shape with random weights: `node bench/lens.mjs [SECONDS]`. Each call is compared with the plain one by the CPU time of this thread,
 * in turns that alternate, so that what else runs on the machine disturbs both alike. The medians of ratios are printed; the plain call against itself shows the noise.
 */
import { load } from '../dist/index.js';
import { patchGrid } from '../dist/lens.js';
import { cpuTime } from './cpu-time.mjs';
import { encoderFiles } from './random-encoder.mjs';

const seconds = Number(process.argv[2] ?? 10);
const heed = await load();
const model = await heed.fromPretrained(encoderFiles(6).files);

const idsOf = (length, seed = 0) => ({
  inputIds: [Array.from({ length }, (_, i) => 5 + ((37 * i + seed) % 2000))],
});
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

/** The medians of each call's CPU time in milliseconds, and of its ratio to the first call's of the same turn. */
async function compare(calls, time = seconds) {
  const names = Object.keys(calls);
  const times = Object.fromEntries(names.map((name) => [name, []]));
  const end = performance.now() + 1000 * time;
  for (let turn = 0; turn < 5 || performance.now() < end; turn++) {
    // Every second turn backwards, so that none is always after the same other one.
    for (const name of turn % 2 ? names.toReversed() : names) {
      const start = cpuTime();
      await calls[name]();
      if (turn > 0) times[name].push(cpuTime() - start); // the first turn compiles
    }
  }
  const first = times[names[0]];
  return Object.fromEntries(
    names.map((name) => [name, { ms: median(times[name]), ratio: median(times[name].map((ms, i) => ms / first[i])) }]),
  );
}

function print(title, result) {
  console.log(title);
  for (const [name, { ms, ratio }] of Object.entries(result))
    console.log(`  ${name.padEnd(44)} ${ms.toFixed(2).padStart(8)} ms  ${ratio.toFixed(3).padStart(6)}`);
}

const input = idsOf(128);
const { activations } = await model.encode(input, { read: ['layers.2.heads'] });
print(
  'MiniLM-L6, 1 x 128',
  await compare({
    plain: () => model.encode(input),
    'plain again': () => model.encode(input),
    'read: layers.*.output': () => model.encode(input, { read: ['layers.*.output'] }),
    'read: layers.*.attention': () => model.encode(input, { read: ['layers.*.attention'] }),
    'edit: a head of each layer': () =>
      model.encode(input, { edit: [{ site: 'layers.*.heads', heads: [3], scale: 0 }] }),
    'edit: set one layer’s heads': () =>
      model.encode(input, { edit: [{ site: 'layers.2.heads', set: activations['layers.2.heads'] }] }),
  }),
);
model.dispose();

const deep = await heed.fromPretrained(encoderFiles(12).files);
const [clean, corrupted] = [idsOf(32), idsOf(32, 11)];
const metric = ({ lastHiddenState }) => lastHiddenState.data[0];
const passes = async () => {
  const { activations: own } = await deep.encode(clean, { read: ['layers.*.heads'] });
  for (let layer = 0; layer < 12; layer++) {
    const site = `layers.${layer}.heads`;
    for (let head = 0; head < 12; head++)
      metric(await deep.encode(corrupted, { edit: [{ site, heads: [head], set: own[site].at(0, head) }] }));
  }
};
const grid = () => patchGrid(deep, { clean, corrupted, metric, over: 'heads' });
print(
  'MiniLM-L12, 32 tokens, 12 x 12 grid of heads',
  await compare({ '144 passes': passes, patchGrid: grid }, seconds),
);
heed.dispose();
