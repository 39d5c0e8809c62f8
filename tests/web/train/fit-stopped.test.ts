import { describe, expect, test } from 'vitest';
import { adam, errorOf, heed, inputs, labels, makeModel, options } from './fit-sequences.js';

describe('a fit that is stopped', () => {
  test('by a signal keeps the last whole step', async () => {
    const model = makeModel();
    const stop = new AbortController();
    let after: unknown;
    const promise = model.fit(
      { inputs, labels },
      {
        ...options,
        optimizer: adam(model),
        epochs: 100,
        signal: stop.signal,
        onStep: ({ step }) => {
          if (step !== 6) return;
          after = model.stateDict();
          stop.abort(new Error('enough'));
        },
      },
    );
    expect(await errorOf(promise)).toBe(stop.signal.reason);
    expect(model.stateDict()).toEqual(after);
    expect(model.training).toBe(false);
    const aborted = model.fit({ inputs, labels }, { ...options, optimizer: adam(model), signal: stop.signal });
    expect(await errorOf(aborted)).toBe(stop.signal.reason);
  });

  test('by a timer: the event loop runs between steps', async () => {
    const model = makeModel();
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 30);
    const error = await errorOf(
      model.fit({ inputs, labels }, { ...options, optimizer: adam(model), epochs: 2 ** 30, signal: stop.signal }),
    );
    expect(error).toBe(stop.signal.reason);
  });

  test('by a signal while it waits for a batch', async () => {
    const model = makeModel();
    const stop = new AbortController();
    async function* batches() {
      yield { inputs, labels };
      await new Promise(() => {});
    }
    const optimizer = adam(model);
    const onStep = () => setTimeout(() => stop.abort());
    expect(await errorOf(model.fit(batches(), { ...options, optimizer, signal: stop.signal, onStep }))).toBe(
      stop.signal.reason,
    );
  });

  test('by onStep passes its error on', async () => {
    const model = makeModel();
    const error = new Error('mine');
    const onStep = () => {
      throw error;
    };
    expect(await errorOf(model.fit({ inputs, labels }, { ...options, optimizer: adam(model), onStep }))).toBe(error);
    await model.fit({ inputs, labels }, { ...options, optimizer: adam(model) }); // can be fitted again
  });

  test('by a loss that is not finite writes nothing', async () => {
    const model = new heed.Sequential(
      [
        new heed.Linear({ inFeatures: 2, outFeatures: 3 }),
        new heed.BatchNorm({ numFeatures: 3 }),
        new heed.Dropout({ p: 0.5 }),
        new heed.Linear({ inFeatures: 3, outFeatures: 1 }),
      ],
      { seed: 1 },
    );
    const optimizer = new heed.optim.SGD(model.parameters(), { lr: 0.01, momentum: 0.9 });
    const good = {
      inputs: [
        [1, 2],
        [3, 4],
        [0, 1],
      ],
      labels: [[1], [2], [3]],
    };
    const bad = {
      inputs: [
        [1, 2],
        [3, 4],
      ],
      labels: [[1], [1e30]],
    };
    let before: unknown;
    const onStep = () => {
      before = heed.saveCheckpoint({ model, optimizer });
    };
    const error = await errorOf(model.fit([good, good, bad, good], { loss: 'mse', optimizer, onStep }));
    expect(error).toMatchObject({ code: 'DIVERGED' });
    expect(heed.saveCheckpoint({ model, optimizer })).toEqual(before);
  });
});
