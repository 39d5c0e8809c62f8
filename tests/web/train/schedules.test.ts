/** The learning rates of each step, by the formulas of transformers' `get_*_schedule_with_warmup` and of Vaswani et al. 2017, section 5.3. */
import { readFileSync } from 'node:fs';
import { load, type ReduceOnPlateauOptions, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

const LR = 0.125;

/** The factor on the learning rate after n steps. */
const linear = (warmup: number, steps: number) => (n: number) =>
  n < warmup ? n / warmup : Math.max(0, (steps - n) / Math.max(1, steps - warmup));
const cosine = (warmup: number, steps: number) => (n: number) =>
  n < warmup ? n / warmup : Math.max(0, (1 + Math.cos((Math.PI * (n - warmup)) / Math.max(1, steps - warmup))) / 2);
const constant = (warmup: number) => (n: number) => Math.min(1, n / Math.max(1, warmup));
const noam = (embedDim: number, warmup: number) => (n: number) =>
  embedDim ** -0.5 * Math.min((n + 1) ** -0.5, (n + 1) * warmup ** -1.5);

type Schedules = TrainingHeed['optim']['schedules'];
type Schedule = (schedules: Schedules, optimizer: never) => { step(): unknown };

const table: [name: string, make: Schedule, factor: (n: number) => number, count: number][] = [
  ['linear, 5 of 20', (s, o) => s.linear(o, { warmup: 5, steps: 20 }), linear(5, 20), 20],
  ['linear without warmup', (s, o) => s.linear(o, { warmup: 0, steps: 7 }), linear(0, 7), 7],
  ['cosine, 3 of 13', (s, o) => s.cosine(o, { warmup: 3, steps: 13 }), cosine(3, 13), 13],
  ['cosine without warmup', (s, o) => s.cosine(o, { warmup: 0, steps: 9 }), cosine(0, 9), 9],
  ['constant, 4', (s, o) => s.constant(o, { warmup: 4 }), constant(4), 9],
  ['constant, 1', (s, o) => s.constant(o, { warmup: 1 }), constant(1), 3],
  ['Noam, width 64, 7', (s, o) => s.noam(o, { embedDim: 64, warmup: 7 }), noam(64, 7), 30],
  ['Noam, width 1, 1', (s, o) => s.noam(o, { embedDim: 1, warmup: 1 }), noam(1, 1), 5],
];

it.each(table)('%s', (_, make, factor, count) => {
  const model = new heed.Linear({ inFeatures: 1, outFeatures: 1, bias: false }).train();
  const optimizer = new heed.optim.SGD(model.parameters(), { lr: LR });
  const schedule = make(heed.optim.schedules, optimizer as never);
  for (let n = 0; n < count; n++) {
    // At w = 0, the gradient of (w - 1)^2 is -2, so a step of SGD is twice the learning rate.
    model.loadStateDict({ weight: [[0]] });
    optimizer.zeroGrad();
    heed.losses.mse(model.forward([[1]]), [[1]]).backward();
    optimizer.step();
    schedule.step();
    const lr = model.stateDict().weight!.data[0]! / 2;
    expect(Math.abs(lr - LR * factor(n)), `step ${n}`).toBeLessThanOrEqual(1e-6 * LR * factor(n) + 1e-9);
  }
  model.dispose();
});

describe('a schedule', () => {
  it('changes nothing before the first step of a warmup', () => {
    const model = new heed.Linear({ inFeatures: 3, outFeatures: 2, seed: 1 }).train();
    const before = model.stateDict();
    const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 1, weightDecay: 0.5 });
    heed.optim.schedules.linear(optimizer, { warmup: 10, steps: 100 });
    heed.losses.mse(model.forward([[1, 2, 3]]), [[4, 5]]).backward();
    optimizer.step(); // its factor is 0
    expect(model.stateDict()).toEqual(before);
    model.dispose();
  });

  it('multiplies the rate of each group', () => {
    const model = new heed.Linear({ inFeatures: 1, outFeatures: 1 }).train();
    model.loadStateDict({ weight: [[0]], bias: [0] });
    const [weight, bias] = ['weight', 'bias'].map(
      (name) => [...model.parameters()].find((each) => each.name === name)!,
    );
    const groups = [{ params: [weight!], lr: 0.25 }, { params: [bias!] }];
    const optimizer = new heed.optim.SGD(groups, { lr: 0.5 });
    const schedule = heed.optim.schedules.constant(optimizer, { warmup: 2 });
    const step = () => {
      optimizer.zeroGrad();
      heed.losses.mse(model.forward([[1]]), [[1]]).backward();
      optimizer.step();
      schedule.step();
    };
    step();
    expect(model.stateDict().weight!.data[0]).toBe(0);
    step(); // factor 1/2 on a gradient of -2
    expect(model.stateDict().weight!.data[0]).toBe(0.25);
    expect(model.stateDict().bias!.data[0]).toBe(0.5);
    model.dispose();
  });
});

interface PlateauCase {
  options: ReduceOnPlateauOptions;
  lr: number;
  metrics: number[];
  rates: number[];
}

const plateaus = JSON.parse(
  readFileSync(new URL('../../fixtures/training/plateau.json', import.meta.url), 'utf8'),
) as PlateauCase[];

describe('reduceOnPlateau', () => {
  const optimizerOf = (lr: number) =>
    new heed.optim.SGD(new heed.Linear({ inFeatures: 1, outFeatures: 1 }).parameters(), { lr });

  it.each(plateaus)("has PyTorch's rates, $options", ({ options, lr, metrics, rates }) => {
    const optimizer = optimizerOf(lr);
    const schedule = heed.optim.schedules.reduceOnPlateau(optimizer, options);
    for (const [i, metric] of metrics.entries()) {
      schedule.step(metric);
      expect(optimizer.paramGroups[0]!.lr, `step ${i}`).toBeCloseTo(rates[i]!, 12);
    }
  });

  it('continues from a checkpoint', () => {
    const { options, lr, metrics, rates } = plateaus[3]!;
    const model = new heed.Linear({ inFeatures: 1, outFeatures: 1 });
    const parts = () => {
      const optimizer = new heed.optim.SGD(model.parameters(), { lr });
      return { model, optimizer, schedule: heed.optim.schedules.reduceOnPlateau(optimizer, options) };
    };
    for (let stop = 0; stop < metrics.length; stop++) {
      const [first, second] = [parts(), parts()];
      for (const metric of metrics.slice(0, stop)) first.schedule.step(metric);
      heed.loadCheckpoint(heed.saveCheckpoint(first), second);
      for (const metric of metrics.slice(stop)) second.schedule.step(metric);
      expect(second.optimizer.paramGroups[0]!.lr, `from step ${stop}`).toBeCloseTo(rates.at(-1)!, 12);
    }
  });

  it('refuses what is no metric and no option', () => {
    const optimizer = optimizerOf(1);
    const schedule = heed.optim.schedules.reduceOnPlateau(optimizer);
    const refused = (message: RegExp) =>
      expect.objectContaining({ code: 'INVALID_ARGUMENT', message: expect.stringMatching(message) });
    expect(() => schedule.step()).toThrow(
      refused(/reduceOnPlateau.step: expected the metric, a number, got undefined/),
    );
    expect(() => heed.optim.schedules.reduceOnPlateau(optimizer, { factor: 1 })).toThrow(refused(/factor: .*\[0, 1\)/));
    expect(() => heed.optim.schedules.reduceOnPlateau(optimizer, { mode: 'low' as 'min' })).toThrow(refused(/mode/));
  });
});

describe('a custom schedule', () => {
  it('has the factor of its function for each step, from 0', () => {
    const optimizer = new heed.optim.SGD(new heed.Linear({ inFeatures: 1, outFeatures: 1 }).parameters(), { lr: 8 });
    const steps: number[] = [];
    const schedule = heed.optim.schedules.custom(optimizer, (step) => {
      steps.push(step);
      return 0.5 ** step;
    });
    const rates = [0, 1, 2].map(() => {
      const { lr } = optimizer.paramGroups[0]!;
      schedule.step();
      return lr;
    });
    expect(rates).toEqual([8, 4, 2]);
    expect(steps).toEqual([0, 1, 2, 3]);
  });

  it('refuses factors that are none', () => {
    const optimizer = new heed.optim.SGD(new heed.Linear({ inFeatures: 1, outFeatures: 1 }).parameters());
    const { custom } = heed.optim.schedules;
    expect(() => custom(optimizer, 3 as never)).toThrow(/custom: factor: expected a function, got 3/);
    expect(() => custom(optimizer, () => NaN)).toThrow(/a finite number >= 0, got NaN for step 0/);
    const later = custom(optimizer, (step) => (step === 0 ? 1 : -1));
    expect(() => later.step()).toThrow(/got -1 for step 1/);
  });
});
