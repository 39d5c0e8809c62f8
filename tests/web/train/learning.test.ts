/** Models that learn: reversing sequences, memorizing examples, training on frozen features. */
import { load, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { draw } from '../layers/numbers.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

/** Pseudorandom integers in [0, below) that depend only on the seed. */
function integers(seed: number, below: number, count: number, length: number): number[][] {
  const { data } = draw(seed, count, length);
  return Array.from({ length: count }, (_, n) =>
    Array.from(data.subarray(n * length, (n + 1) * length), (u) => Math.floor(((u + 1) / 2) * below)),
  );
}

describe('a small encoder', () => {
  const SYMBOLS = 10;
  const LENGTH = 16;

  /** The fraction of symbols of new sequences that the model predicts correctly. */
  function accuracy(model: { forward(ids: number[][]): { data: Float32Array } }): number {
    const ids = integers(999, SYMBOLS, 64, LENGTH);
    const { data } = model.forward(ids);
    let right = 0;
    for (const [n, row] of ids.entries()) {
      for (let i = 0; i < LENGTH; i++) {
        const start = (n * LENGTH + i) * SYMBOLS;
        const logits = data.subarray(start, start + SYMBOLS);
        if (logits.indexOf(Math.max(...logits)) === row[LENGTH - 1 - i]) right++;
      }
    }
    return right / (64 * LENGTH);
  }

  it('learns to reverse 16 of 10 symbols: 99 % of those that it has not seen', () => {
    const model = new heed.Sequential(
      [
        new heed.Embedding({ numEmbeddings: SYMBOLS, embedDim: 32 }),
        new heed.PositionalEncoding({ embedDim: 32, maxLength: LENGTH }),
        new heed.Encoder({ embedDim: 32, numHeads: 2, feedForwardDim: 64, numLayers: 2, dropout: 0 }),
        new heed.Linear({ inFeatures: 32, outFeatures: SYMBOLS }),
      ],
      { seed: 1 },
    ).train();
    const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 3e-3 });
    const schedule = heed.optim.schedules.constant(optimizer, { warmup: 20 });
    expect(accuracy(model.eval())).toBeLessThan(0.3);
    let reached = 0;
    for (let step = 1; step <= 400 && reached < 0.99; step++) {
      model.train();
      const ids = integers(step, SYMBOLS, 64, LENGTH);
      optimizer.zeroGrad();
      heed.losses
        .crossEntropy(
          model.forward(ids),
          ids.map((row) => [...row].reverse()),
        )
        .backward();
      heed.optim.clipGradNorm(model.parameters(), 1);
      optimizer.step();
      schedule.step();
      if (step % 25 === 0) reached = accuracy(model.eval());
    }
    expect(reached).toBeGreaterThanOrEqual(0.99);
    model.dispose();
  });

  it('learns 16 labelled examples by heart, to a loss below 1e-3', () => {
    const model = new heed.Sequential(
      [
        new heed.Embedding({ numEmbeddings: 20, embedDim: 16 }),
        new heed.PositionalEncoding({ embedDim: 16, maxLength: 7, learned: true }),
        new heed.EncoderLayer({ embedDim: 16, numHeads: 2, feedForwardDim: 32, dropout: 0, normFirst: true }),
        new heed.Linear({ inFeatures: 16, outFeatures: 3 }),
      ],
      { seed: 2 },
    ).train();
    const ids = integers(5, 20, 16, 7);
    // One label per example, at its first position; the others are ignored.
    const labels = integers(6, 3, 16, 1).map(([label]) => [label!, ...new Array<number>(6).fill(-100)]);
    const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 5e-3, weightDecay: 0 });
    const losses: number[] = [];
    for (let step = 0; step < 400; step++) {
      optimizer.zeroGrad();
      const loss = heed.losses.crossEntropy(model.forward(ids), labels);
      loss.backward();
      optimizer.step();
      losses.push(loss.item());
    }
    expect(losses[0]).toBeGreaterThan(0.5);
    expect(losses.at(-1)).toBeLessThan(1e-3);
    model.dispose();
  });
});

describe('what is frozen', () => {
  it('stays as it is to the bit, and learns again when it is thawed', () => {
    const model = new heed.Sequential(
      [
        new heed.Linear({ inFeatures: 5, outFeatures: 8 }),
        new heed.EncoderLayer({ embedDim: 8, numHeads: 2, feedForwardDim: 9, dropout: 0 }),
        new heed.Linear({ inFeatures: 8, outFeatures: 2 }),
      ],
      { seed: 3 },
    ).train();
    const [x, y] = [draw(1, 4, 6, 5), draw(2, 4, 6, 2)];
    const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 0.01, weightDecay: 0.1 });
    const step = () => {
      optimizer.zeroGrad();
      const loss = heed.losses.mse(model.forward(x), y);
      loss.backward();
      optimizer.step();
      return loss.item();
    };
    const before = model.stateDict();
    model.freeze('0.*');
    model.freeze(/^1\./);
    const requiring = [...model.parameters()].filter(({ requiresGrad }) => requiresGrad).map(({ name }) => name);
    expect(requiring).toEqual(['2.weight', '2.bias']);
    const losses = Array.from({ length: 20 }, step);
    expect(losses.at(-1)).toBeLessThan(losses[0]!);
    for (const [name, { data }] of Object.entries(model.stateDict())) {
      if (requiring.includes(name)) expect(data).not.toEqual(before[name]!.data);
      else expect(data, name).toEqual(before[name]!.data);
    }
    model.unfreeze(/./);
    step();
    for (const [name, { data }] of Object.entries(model.stateDict()))
      expect(data, name).not.toEqual(before[name]!.data);
    model.dispose();
  });
});
