/** LoRA adapters: training, merging, PEFT's files. */
import { load, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { headerEnd, parseHeader } from '../../../web/src/io/safetensors.js';
import { isIn } from '../../../web/src/train/trainable/lora.js';
import { pairs, stateOf, tiny } from './tiny-models.js';

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load();
});

describe('adapters', () => {
  const lora = { rank: 2, alpha: 4, targets: ['query', 'value'], seed: 1 };

  it("are stored in PEFT's layout, and load bit for bit", async () => {
    const model = await tiny(heed);
    await heed.trainEmbedding(model, pairs, { train: { lora }, lr: 1e-2, seed: 1, epochs: 3 });
    const files = await model.save({ adapter: true });
    expect(JSON.parse(new TextDecoder().decode(files['adapter_config.json']))).toMatchObject({
      peft_type: 'LORA',
      r: 2,
      lora_alpha: 4,
      target_modules: ['query', 'value'],
      bias: 'none',
      fan_in_fan_out: false,
    });
    const bytes = files['adapter_model.safetensors']!;
    const header = parseHeader(bytes.subarray(8, headerEnd(bytes, 'f', bytes.length)), 'f', bytes.length);
    expect(header.map(({ name, shape }) => [name, shape])).toContainEqual([
      'base_model.model.bert.encoder.layer.0.attention.self.query.lora_A.weight',
      [2, 24],
    ]);
    expect(header).toHaveLength(3 * 2 * 2);
    const other = await tiny(heed);
    await other.loadAdapter(files);
    expect((await other.embed('x fox')).data).toEqual((await model.embed('x fox')).data);
    expect(other.lora).toMatchObject({ rank: 2, alpha: 4, targets: ['query', 'value'] });
  });

  it('keep their dropout, as in PEFT, when they are loaded, saved again and trained on', async () => {
    const train = { lora: { ...lora, dropout: 0.25 } };
    const model = await tiny(heed);
    await heed.trainEmbedding(model, pairs, { train, lr: 1e-2, seed: 1, epochs: 1 });
    const files = await model.save({ adapter: true });
    const dropoutOf = (saved: typeof files) =>
      JSON.parse(new TextDecoder().decode(saved['adapter_config.json'])).lora_dropout as number;
    expect(dropoutOf(files)).toBe(0.25);
    const other = await tiny(heed);
    await other.loadAdapter(files);
    expect(other.lora!.dropout).toBe(0.25);
    expect(dropoutOf(await other.save({ adapter: true }))).toBe(0.25);
    expect((await other.embed('x fox')).data).toEqual((await model.embed('x fox')).data);
    await heed.trainEmbedding(other, pairs, { train, lr: 1e-2, seed: 1, epochs: 1 });
    // In training mode, the adapters' inputs are dropped.
    const [first, second] = [0, 1].map(() => other.train().sentenceVectors(['x fox']).data.slice());
    expect(first).not.toEqual(second);
    expect(other.eval().sentenceVectors(['x fox']).data).toEqual(other.sentenceVectors(['x fox']).data);
  });

  it('without lora_dropout in their file have none', async () => {
    const model = await tiny(heed);
    model.addLora(lora);
    const files = await model.save({ adapter: true });
    const config = JSON.parse(new TextDecoder().decode(files['adapter_config.json']));
    const loading = (lora_dropout: unknown) =>
      tiny(heed).then(async (other) => {
        const text = JSON.stringify({ ...config, lora_dropout });
        await other.loadAdapter({ ...files, 'adapter_config.json': text });
        return other.lora!.dropout;
      });
    expect(await loading(undefined)).toBe(0);
    for (const wrong of [-0.1, 1.5, 'much'])
      await expect(loading(wrong)).rejects.toMatchObject({ code: 'INVALID_FILE' });
  });

  it('hold the modules that are trained besides, with those inside them', async () => {
    const model = await tiny(heed, 'roberta');
    model.addLora({ ...lora, modulesToSave: ['classifier'] });
    const besides = ['classifier.dense', 'classifier.out_proj', 'classifier'].flatMap((module) => [
      `${module}.weight`,
      `${module}.bias`,
    ]);
    const own = model.parameters().filter(({ name }) => !name.includes('.lora_'));
    const trained = own.filter(({ requiresGrad }) => requiresGrad).map(({ name }) => name);
    expect(trained.sort()).toEqual([...besides].sort());
    const state = model.stateDict();
    for (const [name, { data }] of Object.entries(state)) if (besides.includes(name)) data.fill(0.25);
    model.loadStateDict(state);
    const files = await model.save({ adapter: true });
    const bytes = files['adapter_model.safetensors']!;
    const header = parseHeader(bytes.subarray(8, headerEnd(bytes, 'f', bytes.length)), 'f', bytes.length);
    const stored = header.map(({ name }) => name).filter((name) => !name.includes('.lora_'));
    expect(stored.sort()).toEqual(besides.map((name) => `base_model.model.${name}`).sort());
    const other = await tiny(heed, 'roberta');
    await other.loadAdapter(files);
    expect(stateOf(other)).toEqual(stateOf(model));
  });

  it('take the names of modules whole', () => {
    for (const name of ['classifier.weight', 'model.classifier.bias', 'classifier.dense.weight'])
      expect(isIn(name, ['classifier']), name).toBe(true);
    for (const name of [
      'pre_classifier.weight',
      'pre_classifier.dense.weight',
      'classifiers.weight',
      'pooler.classifier',
    ])
      expect(isIn(name, ['classifier']), name).toBe(false);
  });

  it('are refused if a training begins while they are read', async () => {
    const model = await tiny(heed);
    model.addLora(lora);
    const files = await model.save({ adapter: true });
    const other = await tiny(heed);
    let [onRead, release] = [() => {}, () => {}];
    const reading = new Promise<void>((resolve) => (onRead = resolve));
    const released = new Promise<void>((resolve) => (release = resolve));
    class Waiting extends Blob {
      override stream(): ReturnType<Blob['stream']> {
        onRead();
        const reader = super.stream().getReader();
        return new ReadableStream({
          async pull(controller) {
            await released;
            const { done, value } = await reader.read();
            if (done) controller.close();
            else controller.enqueue(value);
          },
        });
      }
    }
    const loading = other.loadAdapter({
      ...files,
      'adapter_model.safetensors': new Waiting([files['adapter_model.safetensors'] as Uint8Array<ArrayBuffer>]),
    });
    await reading;
    const stop = new AbortController();
    const options = { epochs: 100_000, signal: stop.signal, onStep: () => release() };
    const training = heed.trainEmbedding(other, pairs, options);
    const stopped = expect(training).rejects.toThrow('enough');
    await expect(loading).rejects.toThrow('loadAdapter: the model is being trained');
    expect(other.lora).toBeNull();
    stop.abort(new Error('enough'));
    await stopped;
  });

  it('refuses files of other models and other kinds, and leaves the model as it was', async () => {
    const model = await tiny(heed);
    await expect(model.save({ adapter: true })).rejects.toThrow('a model with a LoRA adapter');
    model.addLora(lora);
    expect(() => model.addLora(lora)).toThrow(
      `addLora: expected a model without a LoRA adapter, got a model with one of rank ${model.lora!.rank}. Call mergeLora() first`,
    );
    const files = await model.save({ adapter: true });
    const config = JSON.parse(new TextDecoder().decode(files['adapter_config.json']));
    const withConfig = (change: object) => ({
      ...files,
      'adapter_config.json': JSON.stringify({ ...config, ...change }),
    });
    const other = await tiny(heed);
    other.freeze('*.bias');
    const before = (await other.embed('x')).data;
    for (const [source, code, message = ''] of [
      [withConfig({ peft_type: 'IA3' }), 'UNSUPPORTED'],
      [withConfig({ use_dora: true }), 'UNSUPPORTED'],
      [withConfig({ rank_pattern: { query: 2 } }), 'UNSUPPORTED', 'rank_pattern: expected {}: .*, got {"query":2}'],
      [withConfig({ bias: 'all' }), 'UNSUPPORTED', "bias: expected 'none', got 'all'"],
      [withConfig({ r: 3 }), 'INVALID_FILE'],
      [withConfig({ target_modules: ['query'] }), 'INVALID_FILE'],
      [withConfig({ target_modules: ['queries'] }), 'INVALID_ARGUMENT'],
      [{ 'adapter_config.json': JSON.stringify(config) }, 'NOT_FOUND'],
    ] as const) {
      const expected = { code, message: expect.stringMatching(message) };
      await expect(other.loadAdapter(source)).rejects.toMatchObject(expected);
      expect(other.lora).toBeNull();
    }
    expect((await other.embed('x')).data).toEqual(before);
    for (const { name, requiresGrad } of other.parameters()) expect(requiresGrad).toBe(!name.endsWith('.bias'));
  });
});
