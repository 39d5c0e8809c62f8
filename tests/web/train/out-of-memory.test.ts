// Running out of memory during training: one error, and neither parameters nor the optimizer's state change.
import { readFile } from 'node:fs/promises';
import { load, type TrainingHeed } from 'heed/train';
import { expect, test } from 'vitest';

const PAGE = 65536;
const bytes = await readFile(new URL('../../../dist/heed-train-simd128.wasm', import.meta.url));

/** The module with a memory of at most `pages` pages. */
function limited(pages: number): Uint8Array<ArrayBuffer> {
  const module = new Uint8Array(bytes);
  for (let at = 8; at < module.length; ) {
    const id = module[at++]!;
    let size = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = module[at++]!;
      size += (byte & 127) << shift;
      if (byte < 128) break;
    }
    // The memory section: one memory, with a maximum of 4 GB, which is 65536 in three bytes.
    if (id === 5) {
      const last = at + size - 3;
      expect([...module.subarray(last, last + 3)]).toEqual([0x80, 0x80, 4]);
      module.set([(pages & 127) | 128, ((pages >> 7) & 127) | 128, pages >> 14], last);
      return module;
    }
    at += size;
  }
  throw new Error('no memory section');
}

const width = 1500;
const rows = (count: number) => ({
  data: Float32Array.from({ length: width * count }, (_, i) => Math.sin(i)),
  shape: [count, width],
});

/**
 * A training step of a large layer in parts. Each part allocates memory: the forward pass for the output, backward for
 * the gradients, the optimizer for its moments.
 */
function makeStep(heed: TrainingHeed, count: number) {
  const model = new heed.Sequential([new heed.Linear({ inFeatures: width, outFeatures: width })], { seed: 1 }).train();
  const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 1e-3 });
  const x = rows(count);
  const state = () => heed.saveCheckpoint({ model, optimizer });
  let loss: ReturnType<typeof heed.losses.mse>;
  const parts = {
    forward: () => {
      loss = heed.losses.mse(model.forward(x), x);
    },
    backward: () => loss.backward(),
    step: () => optimizer.step(),
  };
  const restore = (saved: Uint8Array) => heed.loadCheckpoint(saved, { model, optimizer });
  return { optimizer, state, restore, parts };
}

test('a run resumes in the memory that it ran in', async () => {
  const run = (heed: TrainingHeed) => {
    const made = makeStep(heed, 1);
    for (const part of Object.values(made.parts)) part();
    return made;
  };
  const start = async (module: Uint8Array<ArrayBuffer>) => load({ build: 'simd128', wasm: module });
  const free = await start(new Uint8Array(bytes));
  const saved = run(free).state();
  const pages = free.info.memoryBytes / PAGE;
  free.dispose();

  // If a process restores first, its memory is fragmented differently, so saving may need space for one further copy of
  // a matrix; a copy
  // of both moments would not fit.
  using heed = await start(limited(pages + Math.ceil((4 * width * width) / PAGE)));
  const fresh = makeStep(heed, 1); // in a separate instance
  fresh.restore(saved);
  expect(Buffer.compare(fresh.state(), saved)).toBe(0);
  for (const part of Object.values(fresh.parts)) part();
  fresh.restore(saved); // now the optimizer has moments
  expect(Buffer.compare(fresh.state(), saved)).toBe(0);
});

test.each(['forward', 'backward', 'step'] as const)('in %s', async (where) => {
  const count = where === 'forward' ? 3000 : 1;
  const begin = (heed: TrainingHeed) => {
    const made = makeStep(heed, count);
    const before = made.state();
    for (const [name, part] of Object.entries(made.parts)) {
      if (name === where) break;
      part();
    }
    return { ...made, before, run: made.parts[where] };
  };

  // The amount of memory before the part that must fail because it needs more.
  const free = await load({ build: 'simd128', wasm: new Uint8Array(bytes) });
  const { run } = begin(free);
  const pages = free.info.memoryBytes / PAGE;
  run();
  expect(free.info.memoryBytes / PAGE).toBeGreaterThan(pages);
  free.dispose();

  using heed = await load({ build: 'simd128', wasm: limited(pages) });
  const step = begin(heed);
  expect(step.run).toThrow(expect.objectContaining({ name: 'HeedError', code: 'OUT_OF_MEMORY' }));
  // Partially accumulated gradients must not be used.
  if (where === 'backward')
    expect(() => step.optimizer.step()).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
  expect(Buffer.compare(step.state(), step.before)).toBe(0); // toEqual takes seconds

  // The runtime continues to work.
  step.optimizer.zeroGrad();
  const small = new heed.Sequential([new heed.Linear({ inFeatures: 2, outFeatures: 2 })], { seed: 1 }).train();
  const optimizer = new heed.optim.AdamW(small.parameters(), { lr: 0.1 });
  const measure = () => heed.losses.mse(small.forward([[1, 2]]), [[0, 0]]);
  const loss = measure();
  loss.backward();
  optimizer.step();
  expect(measure().item()).toBeLessThan(loss.item());
});
