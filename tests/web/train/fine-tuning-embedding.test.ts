/** Training of the encoder by trainEmbedding. */
import { load, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { tinyModel } from '../models/tiny.js';
import { changed, examples, pairs, stateOf, tiny } from './tiny-models.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

describe('trainEmbedding', () => {
  it('learns from pairs, triplets and labelled texts', async () => {
    const triplets = pairs.map(({ a, b }) => ({ anchor: a, positive: b, negative: '0 1 2' }));
    for (const data of [pairs, triplets, examples]) {
      const model = await tiny(heed);
      const before = stateOf(model);
      const options = { epochs: 6, batchSize: 3, lr: 1e-3, seed: 1 };
      const { history, truncated } = await heed.trainEmbedding(model, data, options);
      expect(history.loss.at(-1)).toBeLessThan(history.loss[0]!);
      expect(truncated).toBe(0);
      expect(changed(before, stateOf(model)).length).toBeGreaterThan(20);
    }
  });

  it.each([2, 6, 12])('trains on %d pairs with its own settings', async (count) => {
    const model = await tiny(heed);
    const before = stateOf(model);
    const few = [...pairs, ...pairs.map(({ a, b }) => ({ a: `the ${a}`, b: `x ${b}` }))].slice(0, count);
    const steps: number[] = [];
    await heed.trainEmbedding(model, few, { seed: 1, onStep: ({ step }) => steps.push(step) });
    expect(steps.length).toBeGreaterThanOrEqual(10);
    expect(changed(before, stateOf(model)).length).toBeGreaterThan(20);
  });

  it('takes a step that counts if there is only one', async () => {
    for (const train of ['full', { lora: { rank: 2, seed: 1 } }] as const) {
      const model = await tiny(heed);
      const before = stateOf(model);
      await heed.trainEmbedding(model, pairs, { train, epochs: 1, batchSize: 6, seed: 1 });
      expect(changed(before, stateOf(model)).length).toBeGreaterThan(0);
    }
  });

  it('refuses what has nothing to compare', async () => {
    const model = await tiny(heed);
    const refused = (message: string) => ({ code: 'INVALID_ARGUMENT', message: expect.stringContaining(message) });
    const same = [pairs[0]!, { a: 'x', b: 'z' }];
    await expect(heed.trainEmbedding(model, same)).rejects.toMatchObject(refused('two pairs that share no text'));
    await expect(heed.trainEmbedding(model, pairs, { batchSize: 1 })).rejects.toMatchObject(refused('batchSize'));
  });

  it('embeds a large batch in chunks with the same result', async () => {
    for (const data of [pairs, examples]) {
      const run = async (chunkSize: number) => {
        const model = await tiny(heed);
        const options = { epochs: 2, batchSize: 6, lr: 1e-3, seed: 1, chunkSize };
        const { history } = await heed.trainEmbedding(model, data, options);
        return { loss: history.loss, vectors: await model.embed(['x', 'the fox']) };
      };
      const [whole, chunked] = [await run(64), await run(5)];
      for (const [i, loss] of whole.loss.entries()) expect(chunked.loss[i]).toBeCloseTo(loss, 5);
      for (const [i, value] of whole.vectors.data.entries()) expect(chunked.vectors.data[i]).toBeCloseTo(value, 4);
    }
  });

  it('draws the same dropout in both passes over a chunk', async () => {
    const run = async () => {
      const model = await heed.fromPretrained(tinyModel(), { trainable: true, dropout: 0.3, seed: 1 });
      await heed.trainEmbedding(model, pairs, { epochs: 2, batchSize: 6, lr: 1e-3, seed: 1, chunkSize: 4 });
      return (await model.embed('x')).data;
    };
    expect(await run()).toEqual(await run());
  });

  it('continues a training on labelled texts from a checkpoint', async () => {
    const checkpoints: Uint8Array[] = [];
    const run = async (options: object) => {
      const model = await tiny(heed);
      const { history } = await heed.trainEmbedding(model, examples, {
        epochs: 3,
        batchSize: 4,
        lr: 1e-3,
        seed: 1,
        ...options,
      });
      return { history, vectors: (await model.embed('the fox')).data };
    };
    const whole = await run({ onCheckpoint: (bytes: Uint8Array) => checkpoints.push(bytes) });
    const rest = await run({ resume: checkpoints[0] });
    expect(rest.history.loss).toEqual(whole.history.loss.slice(1));
    expect(rest.vectors).toEqual(whole.vectors);
  });

  it('validates, stops early and stops when told', async () => {
    const model = await tiny(heed);
    const options = { epochs: 20, lr: 0.05, seed: 1, validation: 0.34, earlyStopping: { patience: 1 } };
    const { history } = await heed.trainEmbedding(model, pairs, options);
    expect(history.validation).toHaveLength(history.loss.length);
    const held = await heed.trainEmbedding(model, examples, { epochs: 1, seed: 1, validation: examples.slice(0, 4) });
    expect(held.history.validation).toHaveLength(1);
    const stop = new AbortController();
    const stopped = heed.trainEmbedding(model, pairs, {
      signal: stop.signal,
      onStep: () => stop.abort(new Error('enough')),
      epochs: 3,
    });
    await expect(stopped).rejects.toThrow('enough');
  });

  it.each([
    ['nothing', [], 'at least one example'],
    ['another form', [{ x: 1 }], '{ a, b }'],
    ['a missing text', [{ a: 'x' }], 'examples[0].b: expected a string'],
    ['an empty text', [{ a: 'x', b: '' }], 'examples[0].b: expected a text that is not empty'],
    ['two forms', [pairs[0], examples[0]], 'examples[1]: expected one of a, b, got the unknown option'],
    ['labels of one text each', ['x', 'y'].map((text) => ({ text, label: text })), 'at least two texts of a label'],
    ['one label', [{ text: 'x', label: 'a' }], "at least 2 labels, got 'a'"],
  ])('refuses %s', async (_, data, message) => {
    const model = await tiny(heed);
    await expect(heed.trainEmbedding(model, data as never)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(message),
    });
  });
});
