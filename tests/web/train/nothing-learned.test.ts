/** Trainings that would have no effect, or that continue a different training: each is an error with the reason. */
import { load, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { batchesWithin, isConstant } from '../../../web/src/train/contrast.js';
import { examples, pairs, stateOf, tiny } from './tiny-models.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

const refused = (...parts: string[]) => ({
  code: 'INVALID_ARGUMENT',
  message: expect.stringMatching(new RegExp(parts.join('.*'), 's')),
});

describe('fit', () => {
  const inputs = [[1, 2], [3, 4], [5, 6]]; // biome-ignore format: one row
  const data = { inputs, labels: inputs };
  const make = (from = heed) => new from.Sequential([new from.Linear({ inFeatures: 2, outFeatures: 2 })], { seed: 1 });

  it('refuses an optimizer that cannot change the model', async () => {
    const [model, other] = [make(), make()];
    const elsewhere = await load();
    const foreign = make(elsewhere);
    for (const optimizer of [
      new heed.optim.SGD(other.parameters()),
      new elsewhere.optim.SGD(foreign.parameters()),
      new heed.optim.AdamW([...other.parameters()], { lr: 1 }),
    ])
      await expect(model.fit(data, { loss: 'mse', optimizer })).rejects.toMatchObject(
        refused('fit.optimizer', 'weight'),
      );
    const frozen = make();
    const optimizer = new heed.optim.SGD([frozen.parameters()[0]!]);
    frozen.freeze('0.weight');
    await expect(frozen.fit(data, { loss: 'mse', optimizer })).rejects.toMatchObject(refused('frozen'));
    const elsewhereLoss = () => heed.losses.mse(other.train().forward(inputs), inputs);
    const own = new heed.optim.SGD(model.parameters());
    await expect(model.fit(data, { loss: elsewhereLoss, optimizer: own })).rejects.toMatchObject(
      refused('loss depends'),
    );
    const schedule = heed.optim.schedules.constant(new heed.optim.SGD(other.parameters()), { warmup: 1 });
    const bytes = heed.saveCheckpoint({ model, optimizer: own, schedule });
    expect(() => heed.loadCheckpoint(bytes, { model, optimizer: own, schedule })).toThrow('a schedule of `optimizer`');
  });

  it('takes an optimizer of some of the parameters, and of others besides', async () => {
    const [model, other] = [make(), make()];
    const before = model.stateDict();
    const optimizer = new heed.optim.SGD([...other.parameters(), model.parameters()[0]!]);
    await model.fit(data, { loss: 'mse', optimizer });
    expect(model.stateDict()).not.toEqual(before);
  });

  it('with early stopping needs a validation loss that is finite', async () => {
    const optimizer = () => new heed.optim.SGD(model.parameters());
    const model = make();
    const ids = { inputs, labels: [0, 1, 0] };
    const options = { loss: 'crossEntropy', epochs: 3, earlyStopping: { patience: 2 } } as const;
    const validation = { inputs, labels: [-100, -100, -100] };
    const fitting = model.fit(ids, { ...options, optimizer: optimizer(), validation });
    await expect(fitting).rejects.toMatchObject({ code: 'DIVERGED', message: expect.stringContaining('NaN') });
    let epoch = 0;
    const changing = () => [epoch++ === 0 ? { inputs, labels: [0, 1, 0] } : validation];
    const { best } = await model.fit(ids, { ...options, optimizer: optimizer(), validation: changing });
    expect(best).toBe(0);
  });

  it('refuses examples for which a contrastive loss is constant', async () => {
    const model = new heed.Sequential([new heed.Linear({ inFeatures: 2, outFeatures: 2 })], { seed: 1 });
    const optimizer = new heed.optim.SGD(model.parameters());
    const rows = inputs.map((row) => [row, [...row].reverse()]);
    for (const [loss, labels] of [
      ['infoNCE', [1, 1, 1]],
      ['coSENT', [0.5, 0.5, 0.5]],
    ] as const)
      await expect(model.fit({ inputs: rows, labels }, { loss, optimizer })).rejects.toMatchObject(refused(loss));
    const losses: number[] = [];
    const options = { loss: 'infoNCE', optimizer, batchSize: 2, epochs: 4, seed: 1 } as const;
    await model.fit({ inputs: rows }, { ...options, onStep: ({ loss }) => losses.push(loss) });
    expect(losses).toHaveLength(8);
    for (const loss of losses) expect(loss).toBeGreaterThan(0);
  });
});

describe('fine-tuning', () => {
  it('weighs labels with any name', async () => {
    for (const name of ['toString', '__proto__', 'constructor', 'hasOwnProperty']) {
      const own = examples.map(({ text, label }) => ({ text, label: label === 'x' ? name : 'y' }));
      const run = async (classWeight?: Record<string, number>) => {
        const model = await tiny(heed);
        const { history } = await heed.trainClassifier(model, own, {
          ...(classWeight && { classWeight }),
          epochs: 3,
          seed: 1,
        });
        const again = await heed.fromPretrained(await model.save());
        expect(again.config.labels).toEqual([name, 'y'].sort());
        return history.loss;
      };
      const even = await run();
      expect(await run({ y: 1 })).toEqual(even);
      expect(await run({ [name]: 1 })).toEqual(even);
      expect(await run({ [name]: 5 })).not.toEqual(even);
    }
  });

  it.each([2, 3, 4])('compares pairs in every step, in batches of %d', async (batchSize) => {
    for (const count of [3, 5, 6]) {
      const some = ['x', 'y', 'z', 'fox', 'brown', 'quick'].slice(0, count).map((a) => ({ a, b: `the ${a}` }));
      const losses: number[] = [];
      const options = { batchSize, epochs: 3, seed: 1, onStep: ({ loss }: { loss: number }) => losses.push(loss) };
      await heed.trainEmbedding(await tiny(heed), some, options);
      expect(losses).toHaveLength(3 * Math.ceil(count / batchSize));
      for (const loss of losses) expect(loss).toBeGreaterThan(0);
    }
  });

  it('compares pairs in every step if most of them share a text', async () => {
    const shared = ['x', 'y', 'z', 'fox', 'brown', 'quick', 'a x'].map((a) => ({ a, b: 'the fox' }));
    const losses: number[] = [];
    const options = { batchSize: 2, epochs: 2, seed: 1, onStep: ({ loss }: { loss: number }) => losses.push(loss) };
    await heed.trainEmbedding(await tiny(heed), [...shared, { a: 'y z', b: 'a quick' }], options);
    expect(losses).toHaveLength(8);
    for (const loss of losses) expect(loss).toBeGreaterThan(0);
  });

  it('refuses pairs for validation that cannot be compared', async () => {
    const one = heed.trainEmbedding(await tiny(heed), pairs, { validation: 0.1, seed: 1 });
    await expect(one).rejects.toMatchObject(refused('trainEmbedding.validation', 'share no text', 'got 1'));
  });

  it('resumes only with the same examples, seed and settings', async () => {
    const checkpoints: Uint8Array[] = [];
    const options = { epochs: 2, batchSize: 4, seed: 1, head: 'sentence', train: 'full' } as const;
    const onCheckpoint = (bytes: Uint8Array) => checkpoints.push(bytes);
    const whole = await tiny(heed);
    await heed.trainClassifier(whole, examples, { ...options, onCheckpoint });
    const resume = checkpoints[0]!;
    const model = await tiny(heed);
    const before = [stateOf(model), model.config.labels];
    for (const [given, change, part] of [
      [examples, { seed: 2 }, 'seed 1'],
      [[...examples].reverse(), {}, 'examples 10'],
      [examples.slice(1), {}, 'examples 10'],
      [examples, { lr: 1e-3 }, 'lr 0.00005'],
      [examples, { batchSize: 5 }, 'batchSize 4'],
      [examples, { epochs: 3 }, 'epochs 2'],
      [examples, { classWeight: 'balanced' }, 'classWeight null'],
    ] as const) {
      const other = heed.trainClassifier(model, given, { ...options, ...change, resume });
      await expect(other).rejects.toMatchObject(refused('trainClassifier.resume', part));
      expect([stateOf(model), model.config.labels]).toEqual(before);
    }
    const { seed: _, ...rest } = options;
    await heed.trainClassifier(model, examples, { ...rest, resume }); // uses the checkpoint's seed
    expect(stateOf(model)).toEqual(stateOf(whole));
    await heed.trainEmbedding(whole, pairs, { epochs: 1, seed: 1, onCheckpoint });
    const scaled = heed.trainEmbedding(model, pairs, { epochs: 1, seed: 1, scale: 5, resume: checkpoints.at(-1)! });
    await expect(scaled).rejects.toMatchObject(refused('scale 5', 'scale 20'));
  });
});

it('divides examples into batches that have something to compare', () => {
  const order = (count: number) => Array.from({ length: count }, (_, i) => i);
  for (const batchSize of [2, 3, 4, 7])
    for (let count = 3; count < 40; count++)
      for (const kinds of [2, 3, 5, 40])
        for (const needsPair of [false, true]) {
          const contrast = { keys: order(count).map((i) => (i < count / 2 ? 0 : i % kinds)), needsPair };
          if (isConstant(order(count), contrast)) continue;
          const batches = batchesWithin(order(count), batchSize, contrast);
          expect(batches).toHaveLength(Math.ceil(count / batchSize));
          expect(new Set(batches.flat()).size).toBe(count);
          for (const batch of batches) {
            expect(new Set(batch).size).toBe(batch.length);
            expect(isConstant(batch, contrast), `${count} ${batchSize} ${kinds} ${needsPair} ${batch}`).toBe(false);
          }
        }
});
