/** LoRA adapters that are trained further, and classifiers in adapters. */
import { load, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { headerEnd, parseHeader } from '../../../web/src/io/safetensors.js';
import { tinyModel } from '../models/tiny.js';
import { examples, pairs, stateOf, tiny } from './tiny-models.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

const lora = { rank: 2, alpha: 4, targets: ['query'], seed: 1 };
const options = { train: { lora }, epochs: 2, lr: 1e-2, seed: 1 } as const;

describe('low-rank updates', () => {
  it('are trained further by each call with the same settings', async () => {
    const model = await tiny(heed);
    await heed.trainEmbedding(model, pairs, options);
    const first = stateOf(model);
    await model.save({ adapter: true });
    await heed.trainEmbedding(model, pairs, { ...options, train: { lora: { ...lora, seed: 2 } } });
    expect(stateOf(model)).not.toEqual(first);
    expect(Object.keys(stateOf(model))).toEqual(Object.keys(first));
    await heed.trainClassifier(model, examples, { ...options, head: 'sentence' });
    await heed.trainClassifier(model, examples, { ...options, head: 'sentence' });
    expect(model.lora).toMatchObject({ rank: 2, alpha: 4 });
    for (const { name, requiresGrad } of model.parameters()) expect(requiresGrad).toBe(name.includes('.lora_'));
  });

  it('are trained further after a training that was stopped or has diverged', async () => {
    const model = await tiny(heed);
    const stop = new AbortController();
    const stopped = { ...options, signal: stop.signal, onStep: () => stop.abort(new Error('enough')) };
    await expect(heed.trainEmbedding(model, pairs, stopped)).rejects.toThrow('enough');
    const diverging = heed.trainEmbedding(model, pairs, { ...options, lr: 3e38, epochs: 9 });
    await expect(diverging).rejects.toMatchObject({ code: 'DIVERGED' });
    const again = await tiny(heed);
    await expect(heed.trainEmbedding(again, pairs, stopped)).rejects.toThrow('enough');
    await heed.trainEmbedding(again, pairs, options);
    expect(again.lora).toMatchObject({ rank: 2 });
  });

  it('with other settings are refused by a message that helps', async () => {
    const model = await tiny(heed);
    await heed.trainEmbedding(model, pairs, options);
    const before = stateOf(model);
    for (const train of [
      { lora: { ...lora, rank: 4 } },
      { lora: { ...lora, alpha: 8 } },
      { lora: { ...lora, targets: ['value'] } },
      'full' as const,
      '*.bias',
    ]) {
      const other = heed.trainEmbedding(model, pairs, { ...options, train });
      await expect(other).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        message: expect.stringContaining('model.mergeLora()'),
      });
    }
    expect(stateOf(model)).toEqual(before);
    const vectors = (await model.embed('x fox')).data;
    model.mergeLora();
    for (const [i, value] of (await model.embed('x fox')).data.entries()) expect(value).toBeCloseTo(vectors[i]!, 5);
    await heed.trainEmbedding(model, pairs, { ...options, train: { lora: { ...lora, rank: 4 } } });
    expect(model.lora).toMatchObject({ rank: 4 });
  });

  it('in a worker, too', async () => {
    const model = await heed.fromPretrained(tinyModel(), { trainable: true, worker: true, dropout: 0, seed: 1 });
    const local = await tiny(heed);
    for (const one of [model, local]) {
      await heed.trainEmbedding(one, pairs, options);
      await heed.trainClassifier(one, examples, { ...options, head: 'sentence' });
    }
    const logits = async (one: Pick<typeof model, 'predict'>) =>
      (await one.predict('sequence-classification', 'x fox')).logits.data;
    expect(await logits(model)).toEqual(await logits(local));
    const other = { ...options, train: { lora: { ...lora, rank: 4 } } };
    await expect(heed.trainEmbedding(model, pairs, other)).rejects.toThrow('model.mergeLora()');
    await model.mergeLora();
    await heed.trainEmbedding(model, pairs, other);
    model.dispose();
  });
});

describe('an adapter with a classifier', () => {
  const logitsOf = async (model: Awaited<ReturnType<typeof tiny>>) =>
    (await model.predict('sequence-classification', ['x y', 'fox z'])).logits;

  it.each([
    ['bert', 'sentence', ['x', 'y']],
    ['bert', 'family', null],
    ['roberta', 'family', null],
    ['distilbert', 'family', null],
    ['electra', 'family', null],
  ] as const)('loads with its labels: %s, %s', async (family, head, labels) => {
    const model = await tiny(heed, family);
    const names = labels ?? model.config.labels;
    const own = examples.map(({ text }, i) => ({ text, label: names[i % names.length]! }));
    const result = await heed.trainClassifier(model, own, { ...options, train: { lora: { rank: 2, seed: 1 } }, head });
    expect(result.head).toBe(head);
    const files = await model.save({ adapter: true });
    expect(Object.keys(files)).toEqual(['adapter_config.json', 'adapter_model.safetensors']);
    const { modules_to_save } = JSON.parse(new TextDecoder().decode(files['adapter_config.json']));
    const bytes = files['adapter_model.safetensors']!;
    const header = parseHeader(bytes.subarray(8, headerEnd(bytes, 'f', bytes.length)), 'f', bytes.length);
    const besides = header.map(({ name }) => name).filter((name) => !name.includes('.lora_'));
    if (head === 'sentence') {
      expect(modules_to_save).toBeNull();
      expect(besides.sort()).toEqual(['classifier.bias', 'classifier.weight']);
    } else {
      const trained = model.parameters().map(({ name }) => name);
      for (const name of besides) {
        const own = name.replace('base_model.model.', '');
        expect(trained).toContain(own);
        expect(modules_to_save).toContain(own.slice(0, own.lastIndexOf('.')));
      }
      expect(besides.length).toBeGreaterThanOrEqual(2);
    }
    const other = await tiny(heed, family);
    await other.loadAdapter(files);
    expect(other.config.labels).toEqual(model.config.labels);
    expect((await logitsOf(other)).data).toEqual((await logitsOf(model)).data);
    expect(await other.save()).toEqual(await model.save());
    await heed.trainClassifier(other, own, { ...options, train: { lora: { rank: 2 } }, head }); // goes on
  });

  it('is refused whole if the classifier does not fit', async () => {
    const model = await tiny(heed);
    await heed.trainClassifier(model, examples, { ...options, head: 'sentence' });
    const files = await model.save({ adapter: true });
    const text = new TextDecoder('latin1').decode(files['adapter_model.safetensors']);
    const bytes = Uint8Array.from(text.replace('\\"x\\",\\"y\\"', '\\"x\\"      '), (c) => c.charCodeAt(0));
    const other = await tiny(heed);
    const before = [stateOf(other), [...other.config.labels]];
    const loading = other.loadAdapter({ ...files, 'adapter_model.safetensors': bytes });
    await expect(loading).rejects.toMatchObject({ code: 'INVALID_FILE' });
    expect([stateOf(other), other.config.labels]).toEqual(before);
    expect(other.lora).toBeNull();
  });
});
