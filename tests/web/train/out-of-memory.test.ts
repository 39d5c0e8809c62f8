// The engine refuses memory in the middle of training: one error, and neither parameters nor the optimizer's state have changed.
import { readFile } from 'node:fs/promises';
import { load, type Sequential, type TrainingHeed } from 'heed/train';
import { afterEach, expect, test } from 'vitest';

const { Memory } = WebAssembly;
const { grow } = Memory.prototype;
afterEach(() => {
  Memory.prototype.grow = grow;
});

const refuse = () => {
  Memory.prototype.grow = () => {
    throw new RangeError('refused');
  };
};

async function own(): Promise<TrainingHeed> {
  const bytes = await readFile(new URL('../../../dist/heed-train-simd128.wasm', import.meta.url));
  return load({ build: 'simd128', wasm: new Uint8Array(bytes) });
}

const makeModel = (heed: TrainingHeed) =>
  new heed.Sequential([new heed.Linear({ inFeatures: 700, outFeatures: 700 })], { seed: 1 });
const x = { data: Float32Array.from({ length: 700 }, (_, i) => Math.sin(i)), shape: [1, 700] };
const many = { data: new Float32Array(700 * 2000).fill(0.5), shape: [2000, 700] };

function stateOf(heed: TrainingHeed, model: Sequential, optimizer: InstanceType<TrainingHeed['optim']['AdamW']>) {
  return heed.saveCheckpoint({ model, optimizer });
}

test.each(['forward', 'backward', 'step'])('in %s', async (where) => {
  using heed = await own();
  const model = makeModel(heed).train();
  const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 1e-3 });
  // The first step() allocates moments, the first backward() the gradients.
  const before = stateOf(heed, model, optimizer);
  const refused = expect.objectContaining({ name: 'HeedError', code: 'OUT_OF_MEMORY' });
  optimizer.zeroGrad();
  if (where === 'forward') refuse();
  const run = () => heed.losses.mse(model.forward(where === 'forward' ? many : x), where === 'forward' ? many : x);
  if (where === 'forward') expect(run).toThrow(refused);
  else {
    const loss = run();
    if (where === 'backward') {
      refuse();
      expect(() => loss.backward()).toThrow(refused);
      // What has been added of the gradients is not to be used.
      expect(() => optimizer.step()).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
    } else {
      loss.backward();
      refuse();
      expect(() => optimizer.step()).toThrow(refused);
    }
  }
  const isAsBefore = () => Buffer.compare(stateOf(heed, model, optimizer), before) === 0; // toEqual takes seconds
  expect(isAsBefore()).toBe(true);
  Memory.prototype.grow = grow;
  optimizer.zeroGrad();
  heed.losses.mse(model.forward(x), x).backward();
  optimizer.step();
  expect(isAsBefore()).toBe(false);
});
