/** Training of the encoder by trainClassifier, and of both kinds in a worker. */
import { HeedError, load, type PretrainedModel, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { tinyModel } from '../models/tiny.js';
import { changed, examples, pairs, stateOf, tiny } from './tiny-models.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

describe('trainClassifier with the encoder', () => {
  it.each([
    { copies: 1, batchSize: 16, steps: 10 },
    { copies: 1, batchSize: 1, steps: 60 },
    { copies: 3, batchSize: 1, steps: 90 },
  ])('takes about 60 steps, in 3 to 10 epochs: $steps', async ({ copies, batchSize, steps }) => {
    const stop = new AbortController();
    const told: number[] = [];
    const onStep = (progress: { steps: number }) => {
      told.push(progress.steps);
      stop.abort();
    };
    const all = Array.from({ length: copies }, () => examples).flat();
    const options = { train: 'full', head: 'sentence', batchSize, seed: 1, signal: stop.signal, onStep } as const;
    await expect(heed.trainClassifier(await tiny(heed), all, options)).rejects.toMatchObject({ name: 'AbortError' });
    expect(told).toEqual([steps]);
  });

  it('trains all parameters that the vectors depend on', async () => {
    const model = await tiny(heed);
    const before = stateOf(model);
    const steps: number[] = [];
    const options = { train: 'full', head: 'sentence', epochs: 4, batchSize: 4, lr: 1e-3, seed: 1 } as const;
    const { history, labels } = await heed.trainClassifier(model, examples, {
      ...options,
      onStep: ({ step }) => steps.push(step),
    });
    expect(labels).toEqual(['x', 'y']);
    expect(steps).toHaveLength(4 * 3);
    expect(history.loss.at(-1)).toBeLessThan(history.loss[0]!);
    const names = changed(before, stateOf(model));
    expect(names).toContain('bert.encoder.layer.0.attention.self.query.weight');
    expect(names).toContain('bert.embeddings.word_embeddings.weight');
    expect(names.filter((name) => /pooler|classifier|cls/.test(name))).toEqual([]);
    expect(model.parameters().every(({ requiresGrad }) => requiresGrad)).toBe(true);
    expect(model.training).toBe(false);
    const { logits } = await model.predict('sequence-classification', 'x y');
    expect(logits.shape).toEqual([1, 2]);
  });

  it('trains chosen parameters only, and leaves the bits of others', async () => {
    const model = await tiny(heed);
    model.freeze('*.bias');
    const before = stateOf(model);
    const train = ['bert.encoder.layer.2.*', /LayerNorm/];
    await heed.trainClassifier(model, examples, { train, head: 'sentence', epochs: 1, seed: 1 });
    for (const name of changed(before, stateOf(model))) expect(name).toMatch(/encoder\.layer\.2\.|LayerNorm/);
    for (const { name, requiresGrad } of model.parameters()) expect(requiresGrad).toBe(!name.endsWith('.bias'));
    const none = heed.trainClassifier(model, examples, { train: 'encoder.*', head: 'sentence' });
    await expect(none).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message: expect.stringContaining('pattern') });
  });

  it('trains low-rank updates, which save adds to the weights', async () => {
    const model = await tiny(heed);
    const before = stateOf(model);
    const lora = { rank: 2, alpha: 8, targets: ['query', 'intermediate.dense'], seed: 1 };
    await heed.trainClassifier(model, examples, { train: { lora }, head: 'sentence', epochs: 5, lr: 1e-2, seed: 1 });
    expect(model.lora).toMatchObject({ rank: 2, alpha: 8 });
    const names = changed(before, stateOf(model));
    expect(names).toHaveLength(3 * 2 * 2);
    expect(names.every((name) => /\.lora_[AB]\.weight$/.test(name))).toBe(true);
    const again = await heed.fromPretrained(await model.save());
    const [saved, own] = [await again.embed('x fox'), await model.embed('x fox')];
    for (const [i, value] of own.data.entries()) expect(saved.data[i]).toBeCloseTo(value, 5);
    expect(again.config.labels).toEqual(['x', 'y']);
    const second = heed.trainClassifier(model, examples, { train: 'full', head: 'sentence' });
    await expect(second).rejects.toThrow('mergeLora()');
  });

  it("trains the family's head together with the encoder", async () => {
    const model = await tiny(heed);
    const own = examples.map(({ text }, i) => ({ text, label: model.config.labels[i % 3] ?? `LABEL_${i % 3}` }));
    const before = stateOf(model);
    const { head } = await heed.trainClassifier(model, own, { train: 'full', head: 'family', epochs: 2, seed: 1 });
    expect(head).toBe('family');
    const after = stateOf(model);
    expect(changed(before, after)).toContain('classifier.weight');
    const { logits } = await model.predict('sequence-classification', 'x y');
    const again = await heed.fromPretrained(await model.save());
    const saved = await again.predict('sequence-classification', 'x y');
    expect(saved.logits.data).toEqual(logits.data);
    const other = heed.trainClassifier(model, examples, { train: 'full', head: 'family' });
    await expect(other).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('classifier of the labels'),
    });
  });

  it('records the logits of a classifier on sentence vectors, also of a saved one', async () => {
    const model = await tiny(heed);
    await heed.trainClassifier(model, examples, { head: 'sentence', epochs: 2, seed: 1 });
    const again = await heed.fromPretrained(await model.save(), { trainable: true, dropout: 0 });
    for (const one of [model, again]) {
      const { logits: expected } = await one.predict('sequence-classification', ['x y', 'fox']);
      const logits = one.train().logits('sequence-classification', ['x y', 'fox']);
      expect(logits.shape).toEqual([2, 2]);
      for (const [i, value] of expected.data.entries()) expect(logits.data[i]).toBeCloseTo(value, 5);
      heed.losses.crossEntropy(logits, [0, 1]).backward();
      const { grad } = one.parameters().find(({ name }) => name.endsWith('layer.0.attention.self.query.weight'))!;
      expect(grad!.data.some((x) => x !== 0)).toBe(true);
    }
  });

  it.each(['roberta', 'distilbert', 'electra', 'mpnet'])(
    'keeps the layers of the classifier that another one replaces: %s',
    async (family) => {
      const model = await tiny(heed, family);
      const names = model.parameters().map(({ name }) => name);
      expect(names.filter((name) => name.includes('classifier'))).not.toEqual([]);
      const { labels } = await heed.trainClassifier(model, examples, { train: 'full', epochs: 1, seed: 1 });
      expect(labels).toEqual(['x', 'y']);
      expect(model.parameters().map(({ name }) => name)).toEqual(names);
      const state = model.stateDict();
      expect(Object.values(state).every(({ data }) => data.length > 0)).toBe(true);
      const again = await heed.fromPretrained(await model.save());
      const [saved, own] = [
        await again.predict('sequence-classification', 'x fox'),
        await model.predict('sequence-classification', 'x fox'),
      ];
      expect(saved.logits.data).toEqual(own.logits.data);
      model.dispose();
    },
  );

  it('restores the best epoch of the whole model', async () => {
    const model = await tiny(heed);
    const states: Record<string, number[]>[] = [];
    const options = { train: 'full', head: 'sentence', epochs: 30, lr: 3e-2, batchSize: 4, seed: 2 } as const;
    const { history, validation } = await heed.trainClassifier(model, examples, {
      ...options,
      validation: 0.4,
      earlyStopping: { patience: 2 },
      onStep: ({ step }) => step % 2 === 0 && states.push(stateOf(model)),
    });
    expect(history.best).toBeDefined();
    expect(history.validation![history.best!]).toBe(Math.min(...history.validation!));
    expect(stateOf(model)).toEqual(states[history.best!]);
    expect(validation!.count).toBe(4);
  });

  it('keeps the last whole step when it is stopped, and nothing of updates that were not trained', async () => {
    const model = await tiny(heed);
    const stop = new AbortController();
    let last: Record<string, number[]> = {};
    const onStep = ({ step }: { step: number }) => {
      last = stateOf(model);
      if (step === 3) stop.abort(new Error('enough'));
    };
    const options = { train: 'full', head: 'sentence', seed: 1, batchSize: 4 } as const;
    await expect(heed.trainClassifier(model, examples, { ...options, signal: stop.signal, onStep })).rejects.toThrow(
      'enough',
    );
    expect(stateOf(model)).toEqual(last);
    expect(model.config.labels).toEqual(['x', 'y']);
    const diverging = heed.trainClassifier(model, examples, { ...options, lr: 3e38 });
    await expect(diverging).rejects.toMatchObject({ code: 'DIVERGED' });
    const fresh = await tiny(heed);
    const aborted = AbortSignal.abort(new Error('at once'));
    const train = { lora: { rank: 2 } };
    await expect(heed.trainClassifier(fresh, examples, { train, signal: aborted })).rejects.toThrow('at once');
    expect(fresh.lora).toBeNull();
    expect(fresh.parameters().every(({ requiresGrad }) => requiresGrad)).toBe(true);
  });

  it('continues from a checkpoint as if it had not been interrupted', async () => {
    const dropping = () => heed.fromPretrained(tinyModel(), { trainable: true, dropout: 0.2, seed: 1 });
    for (const train of ['full', { lora: { rank: 2, seed: 1 } }] as const) {
      const options = { train, head: 'sentence', epochs: 4, batchSize: 4, lr: 1e-3, seed: 1 } as const;
      const checkpoints: Uint8Array[] = [];
      const whole = await dropping();
      const onCheckpoint = (bytes: Uint8Array) => checkpoints.push(bytes);
      const { history } = await heed.trainClassifier(whole, examples, { ...options, onCheckpoint });
      expect(checkpoints).toHaveLength(4);
      const again = await dropping();
      const steps: number[] = [];
      const resumed = await heed.trainClassifier(again, examples, {
        ...options,
        resume: checkpoints[1]!,
        onStep: ({ step }) => steps.push(step),
      });
      expect(steps).toEqual([7, 8, 9, 10, 11, 12]);
      expect(resumed.history.loss).toEqual(history.loss.slice(2));
      expect(stateOf(again)).toEqual(stateOf(whole));
      const [a, b] = [
        await again.predict('sequence-classification', 'x'),
        await whole.predict('sequence-classification', 'x'),
      ];
      expect(a.logits.data).toEqual(b.logits.data);
    }
    const model = await tiny(heed);
    const bad = heed.trainEmbedding(model, pairs, { resume: new Uint8Array(20), train: { lora: { rank: 2 } } });
    await expect(bad).rejects.toMatchObject({ code: 'INVALID_FILE' });
    expect(model.lora).toBeNull();
  });

  it('refuses models that cannot be trained, with the reason', async () => {
    const plain = await heed.fromPretrained(tinyModel());
    const quantized = await heed.fromPretrained(tinyModel(), { dtype: 'q8' });
    const cases = [
      [plain, { train: 'full' }, 'a model loaded with `trainable: true`'],
      [quantized, { train: { lora: {} } }, 'int8 weights cannot be trained'],
    ] as const;
    for (const [model, options, message] of cases) {
      const training = heed.trainClassifier(model, examples, options);
      await expect(training).rejects.toMatchObject({ code: 'UNSUPPORTED', message: expect.stringContaining(message) });
    }
    await expect(heed.trainEmbedding(plain, pairs)).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    await expect(heed.trainClassifier(plain, examples, { train: 3 } as never)).rejects.toThrow("'head', 'full'");
  });
});

describe('in a worker', () => {
  it('trains, predicts and saves as in this thread', async () => {
    const model = await heed.fromPretrained(tinyModel(), { trainable: true, worker: true, dropout: 0, seed: 1 });
    const local = await tiny(heed);
    const options = { train: 'full', head: 'sentence', epochs: 2, seed: 1 } as const;
    const steps: number[] = [];
    const [result, expected] = [
      await heed.trainClassifier(model, examples, { ...options, onStep: ({ step }) => steps.push(step) }),
      await heed.trainClassifier(local, examples, options),
    ];
    expect(result).toEqual(expected);
    expect(steps).toEqual([1, 2]);
    expect(model.config.labels).toEqual(['x', 'y']);
    const logits = async (one: PretrainedModel) => (await one.predict('sequence-classification', 'x fox')).logits.data;
    expect(await logits(model)).toEqual(await logits(local));
    const { history } = await heed.trainEmbedding(model, pairs, { seed: 1 });
    expect(history).toEqual((await heed.trainEmbedding(local, pairs, { seed: 1 })).history);
    const [files, own] = [await model.save(), await local.save()];
    expect(files).toEqual(own);
    model.dispose();
  });

  it('stops, and can train again', async () => {
    const model = await heed.fromPretrained(tinyModel(), { worker: true });
    const stop = new AbortController();
    const call = heed.trainClassifier(model, examples, {
      signal: stop.signal,
      onStep: ({ step }) => step === 2 && stop.abort(new Error('enough')),
    });
    await expect(call).rejects.toThrow('enough');
    expect(model.config.labels).toEqual(['x', 'y']);
    await heed.trainClassifier(model, examples, { seed: 1, epochs: 2 });
    await expect(heed.trainClassifier(model, examples, { onCheckpoint: () => {} })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    await expect(heed.trainClassifier(model, [], {})).rejects.toBeInstanceOf(HeedError);
    model.dispose();
  });

  it('rejects when the worker ends, and for a pool', async () => {
    const model = await heed.fromPretrained(tinyModel(), { worker: true, trainable: true });
    const onStep = () => model.dispose();
    await expect(heed.trainClassifier(model, examples, { train: 'full', onStep })).rejects.toMatchObject({
      code: 'DISPOSED',
    });
    const pool = await heed.fromPretrained(tinyModel(), { workers: 1 });
    await expect(heed.trainClassifier(pool, examples)).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    pool.dispose();
  });
});
