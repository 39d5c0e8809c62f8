/**
 * Properties of trainable checkpoints: recomputation, LoRA adapters, dropout, modes, checkpoints of training, errors.
 */
import { readFileSync } from 'node:fs';
import { type HeedError, load, type Tensor, type TrainableModel, type TrainingHeed } from 'heed/train';
import { beforeAll, describe, expect, it } from 'vitest';
import { fixture, readSafetensors } from '../models/fixtures.js';
import { tinyModel } from '../models/tiny.js';
import { setLora } from './pretrained.js';

const FAMILIES = [
  ...['bert', 'roberta', 'distilbert', 'mpnet', 'electra', 'albert', 'modernbert', 'nomic_bert'],
  ...['jina-bert-v2', 'jina-bert-v2-code', 'new', 'qwen3', 'gemma3_text'],
  ...['deberta-v2', 'deberta-v2-unshared', 'deberta-v2-convolution'],
];

let heed: TrainingHeed;
beforeAll(async () => {
  heed = await load({ build: 'simd128' });
});

const open = (name: string, options: { recompute?: boolean; dropout?: number } = {}) =>
  heed.fromPretrained(fixture(name).folder, { trainable: true, seed: 3, ...options });

const zeros = (tensor: Tensor) => ({ data: new Float32Array(tensor.data.length), shape: tensor.shape });
const squares = (tensor: Tensor) => heed.losses.mse(tensor, zeros(tensor));
const gradientsOf = (model: TrainableModel) =>
  Object.fromEntries(model.parameters().map(({ name, grad }) => [name, grad?.data ?? null]));
const codeOf = async (call: () => unknown): Promise<string | undefined> => {
  try {
    await call();
    return undefined;
  } catch (error) {
    return (error as HeedError).code;
  }
};

describe.each(FAMILIES)('%s', (name) => {
  const { input } = fixture(name);

  it('has the same gradients when it computes layers again, with dropout and updates', async () => {
    const found = [];
    for (const recompute of [false, true]) {
      const model = await open(name, { recompute, dropout: 0.2 });
      const vectors = () => model.train().sentenceVectors(input, { pooling: 'max' });
      for (let i = 0; i < 2; i++) squares(vectors()).backward();
      const all = gradientsOf(model);
      model.addLora({ rank: 2, seed: 1, dropout: 0.3 });
      setLora(model, { seed: 5, scale: 0.3 });
      model.unfreeze(/orm.*weight/);
      squares(vectors()).backward();
      found.push([all, gradientsOf(model)]);
      model.dispose();
    }
    expect(found[1]).toEqual(found[0]);
  });

  it('computes what inference computes, and zeros for padding', async () => {
    const model = await open(name);
    const expected = await model.encode(input);
    const { lastHiddenState, attentionMask } = model.forward(input);
    expect(lastHiddenState).toEqual(expected.lastHiddenState);
    expect(attentionMask).toEqual(expected.attentionMask);
    model.train().forward(input);
    expect((await model.encode(input)).lastHiddenState, 'encode() in training mode').toEqual(lastHiddenState);
    model.dispose();
  });

  it('changes nothing by fresh updates, and computes the same with merged ones', async () => {
    const model = await open(name, { dropout: 0 });
    const base = await model.encode(input, { outputAttentions: true });
    model.addLora({ rank: 3, alpha: 6, seed: 2 });
    expect(model.lora!.modules.length).toBeGreaterThan(0);
    expect(model.parameters().filter(({ requiresGrad }) => requiresGrad).length).toBe(2 * model.lora!.modules.length);
    expect(model.train().forward(input).lastHiddenState).toEqual(base.lastHiddenState);
    expect((await model.encode(input, { outputAttentions: true })).attentions).toEqual(base.attentions);
    const frozen = model.parameters().filter(({ requiresGrad }) => !requiresGrad);
    const before = frozen.map(({ value }) => value.data);
    const optimizer = new heed.optim.AdamW(model.parameters(), { lr: 1e-2 });
    for (let step = 0; step < 3; step++) {
      optimizer.zeroGrad();
      squares(model.sentenceVectors(input)).backward();
      optimizer.step();
    }
    expect(frozen.every(({ grad }) => grad === null)).toBe(true);
    expect(frozen.map(({ value }) => value.data)).toEqual(before);
    const unmerged = model.eval().forward(input).lastHiddenState;
    expect(unmerged).not.toEqual(base.lastHiddenState);
    expect((await model.encode(input)).lastHiddenState).toEqual(unmerged);
    expect((await model.embed(input)).data).toEqual(model.sentenceVectors(input).data);
    const { queries, values } = (await model.encode(input, { outputProjections: true })).projections;
    model.mergeLora();
    expect(model.lora).toBeNull();
    const merged = model.forward(input).lastHiddenState;
    const worst = Math.max(...merged.data.map((x, i) => Math.abs(x - unmerged.data[i]!)));
    expect(worst).toBeLessThan(1e-5);
    const afterMerge = (await model.encode(input, { outputProjections: true })).projections;
    for (const [layers, expected] of [
      [queries, afterMerge.queries],
      [values, afterMerge.values],
    ] as const)
      for (const [layer, tensor] of layers.entries())
        tensor.data.forEach((x, i) => void expect(Math.abs(x - expected[layer]!.data[i]!)).toBeLessThan(1e-5));
    expect((await model.encode(input)).lastHiddenState).toEqual(merged);
    model.dispose();
  });

  it('gives every parameter a gradient', async () => {
    const model = await open(name, { dropout: 0 });
    model.train();
    squares(model.forward(input).lastHiddenState).backward();
    for (const head of ['sequence-classification', 'token-classification', 'question-answering'] as const) {
      if ((await codeOf(() => squares(model.logits(head, input)).backward())) === 'UNSUPPORTED') continue;
    }
    const without = model.parameters().filter(({ grad }) => !grad?.data.some((x) => x !== 0));
    // Parameters of the MLM head, which are unused because the folder has no tokenizer.
    const words = /predictions|lm_head|vocab_|generator_|decoder|^head\./;
    const unused = name === 'mpnet' ? /^mpnet\.pooler/ : /^$/; // its classifier has a dense layer of its own
    expect(
      without.map((parameter) => parameter.name).filter((each) => !words.test(each) && !unused.test(each)),
    ).toEqual([]);
    model.dispose();
  });
});

describe('trainable checkpoints', () => {
  const { input } = fixture('bert');

  it('draw dropout in training mode only, and anew in each call', async () => {
    const model = await open('bert');
    const vectors = () => model.sentenceVectors(input).data;
    const still = vectors();
    expect(vectors()).toEqual(still);
    model.train();
    const drawn = vectors();
    expect(drawn).not.toEqual(still);
    expect(vectors()).not.toEqual(drawn);
    expect(model.logits('sequence-classification', input)).not.toEqual(model.logits('sequence-classification', input));
    expect((await model.embed(input)).data).toEqual(still);
    expect(model.eval().sentenceVectors(input).data).toEqual(still);
    const other = await open('bert');
    expect(other.train().sentenceVectors(input).data, 'the same seed').toEqual(drawn);
    model.dispose();
    other.dispose();
  });

  it('go on from a checkpoint of training bit for bit', async () => {
    const start = async () => {
      const model = await open('bert', { dropout: 0.1 });
      model.addLora({ rank: 2, seed: 4, dropout: 0.1, modulesToSave: ['classifier'] }).train();
      return { model, optimizer: new heed.optim.AdamW(model.parameters(), { lr: 1e-2 }) };
    };
    const steps = ({ model, optimizer }: Awaited<ReturnType<typeof start>>, count: number) => {
      for (let i = 0; i < count; i++) {
        optimizer.zeroGrad();
        heed.losses.crossEntropy(model.logits('sequence-classification', input), [0, 1, 2]).backward();
        optimizer.step();
      }
    };
    const whole = await start();
    steps(whole, 2);
    const bytes = heed.saveCheckpoint(whole);
    steps(whole, 3);
    const resumed = await start();
    heed.loadCheckpoint(bytes, resumed);
    steps(resumed, 3);
    expect(resumed.model.stateDict()).toEqual(whole.model.stateDict());
    for (const { model, optimizer } of [whole, resumed]) {
      optimizer.dispose();
      model.dispose();
    }
  });

  it('add gradients of the word table as a lookup and as the output layer', async () => {
    const model = await heed.fromPretrained(tinyModel(), { trainable: true, dropout: 0 });
    const texts = ['the [MASK] fox', 'a quick [MASK] [MASK]'];
    const still = await model.predict('fill-mask', texts);
    const word = model
      .train()
      .parameters()
      .find(({ name }) => name.includes('word_embeddings'))!;
    expect(model.logits('fill-mask', texts).data).toEqual(still.logits.data);
    const optimizer = new heed.optim.SGD([word], { lr: 0 });
    const lookup = () => squares(model.sentenceVectors(texts)).backward();
    const output = () => squares(model.logits('fill-mask', texts)).backward();
    const gradientOf = (...uses: (() => void)[]) => {
      optimizer.zeroGrad();
      for (const use of uses) use();
      return word.grad!.data;
    };
    const [rows, dense] = [gradientOf(lookup), gradientOf(output)];
    const both = rows.map((x, i) => x + dense[i]!);
    for (const found of [gradientOf(lookup, output), gradientOf(output, lookup)])
      expect(Math.max(...found.map((x, i) => Math.abs(x - both[i]!)))).toBeLessThan(1e-5);
    optimizer.dispose();
    model.dispose();
  });

  it('train the bias of the output layer for masked words', async () => {
    const model = await heed.fromPretrained(tinyModel(), { trainable: true, dropout: 0 });
    const texts = ['the [MASK] fox', 'a quick [MASK] [MASK]'];
    const { data, shape } = (await model.predict('fill-mask', texts)).logits;
    const width = shape[1]!;
    const bias = model.parameters().find(({ name }) => name === 'cls.predictions.bias')!;
    expect(bias.shape).toEqual([width]);
    squares(model.train().logits('fill-mask', texts)).backward();
    const expected = new Float64Array(width);
    for (const [i, y] of data.entries()) expected[i % width]! += (2 * y) / data.length;
    const gradient = bias.grad!.data;
    expect(Math.max(...gradient.map((x, i) => Math.abs(x - expected[i]!)))).toBeLessThan(1e-6);
    const before = bias.value.data;
    const optimizer = new heed.optim.SGD([bias], { lr: 3 });
    optimizer.step();
    const after = (await model.predict('fill-mask', texts)).logits.data;
    expect(after).not.toEqual(data);
    const moved = bias.value.data;
    expect(
      Math.max(...after.map((y, i) => Math.abs(y - data[i]! - moved[i % width]! + before[i % width]!))),
    ).toBeLessThan(1e-5);
    const again = await heed.fromPretrained(await model.save());
    expect((await again.predict('fill-mask', texts)).logits.data).toEqual(after);
    again.dispose();
    optimizer.dispose();
    model.dispose();
  });

  it('train a classifier on sentence vectors that the folder has', async () => {
    const first = await heed.fromPretrained();
    const examples = ['a fox', 'a dog', 'a plum', 'a pear'].map((text, i) => ({ text, label: i < 2 ? 'x' : 'y' }));
    await heed.trainClassifier(first, examples, { seed: 1, epochs: 2 });
    const files = await first.save();
    first.dispose();
    const model = await heed.fromPretrained(files, { trainable: true, dropout: 0 });
    const task = 'sequence-classification';
    const texts = examples.map(({ text }) => text);
    const own = model.parameters().filter(({ name }) => name.startsWith('3_Dense.'));
    expect(own.map(({ name, shape }) => [name, ...shape])).toEqual([
      ['3_Dense.linear.weight', 2, 384],
      ['3_Dense.linear.bias', 2],
    ]);
    const optimizer = new heed.optim.SGD(model.train().parameters(), { lr: 0.1 });
    const losses = [0, 1, 2, 3].map(() => {
      optimizer.zeroGrad();
      const loss = heed.losses.crossEntropy(model.logits(task, texts), [0, 0, 1, 1]);
      loss.backward();
      expect(own.every(({ grad }) => grad!.data.some((x) => x !== 0))).toBe(true);
      optimizer.step();
      return loss.item();
    });
    expect(losses[3]).toBeLessThan(losses[0]!);
    const { logits } = await model.predict(task, texts);
    const again = await heed.fromPretrained(await model.save());
    expect((await again.predict(task, texts)).logits.data).toEqual(logits.data);
    // With other labels, a new classifier replaces it.
    const others = examples.map(({ text }, i) => ({ text, label: ['p', 'q', 'r'][i % 3]! }));
    await heed.trainClassifier(model, others, { epochs: 1, head: 'sentence' });
    expect((await model.predict(task, texts)).logits.shape).toEqual([4, 3]);
    expect(own[0]!.value.shape).toEqual([2, 384]);
    const replaced = await heed.fromPretrained(await model.save());
    expect((await replaced.predict(task, texts)).logits.data).toEqual((await model.predict(task, texts)).logits.data);
    for (const each of [again, replaced, optimizer, model]) each.dispose();
  });

  it('give their memory back', async () => {
    const bytes = new Uint8Array(readFileSync(new URL('../../../dist/heed-train-simd128.wasm', import.meta.url)));
    using own = await load({ build: 'simd128', wasm: bytes });
    const round = async () => {
      const model = await own.fromPretrained(fixture('bert').folder, { trainable: true, recompute: true });
      model.addLora({ rank: 2 }).train();
      const optimizer = new own.optim.AdamW(model.parameters());
      for (let i = 0; i < 3; i++) {
        optimizer.zeroGrad();
        const { lastHiddenState } = model.forward(input);
        own.losses
          .mse(lastHiddenState, { data: new Float32Array(lastHiddenState.data.length), shape: lastHiddenState.shape })
          .backward();
        model.logits('sequence-classification', input); // without backward()
        optimizer.step();
      }
      await model.embed(input);
      optimizer.dispose();
      model.dispose();
    };
    for (let i = 0; i < 5; i++) await round();
    const before = own.info.memoryBytes;
    for (let i = 0; i < 20; i++) await round();
    expect(own.info.memoryBytes).toBe(before);
  });

  it('train the layers after the pooling', async () => {
    const { folder, input: ids } = fixture('sentence');
    const model = await heed.fromPretrained(folder, { trainable: true, dropout: 0 });
    expect(model.train().sentenceVectors(ids).data).toEqual((await model.embed(ids)).data);
    squares(model.sentenceVectors(ids, { normalize: false })).backward();
    const dense = model.parameters().filter(({ name }) => /^\d_/.test(name));
    expect(dense.map(({ name }) => name)).toEqual([
      '2_LayerNorm.norm.weight',
      '2_LayerNorm.norm.bias',
      '3_Dense.linear.weight',
      '3_Dense.linear.bias',
      '4_Dense.linear.weight',
    ]);
    expect(dense.every(({ grad }) => grad!.data.some((x) => x !== 0))).toBe(true);
    model.dispose();
  });

  it('take texts, prompts and dimensions as embed() does', async () => {
    const model = await heed.fromPretrained(undefined, { trainable: true, dropout: 0 });
    const texts = ['a fox', 'the quick brown dog jumps over the lazy cat'];
    expect(model.train().sentenceVectors(texts).data).toEqual((await model.embed(texts)).data);
    const options = { dimensions: 5, normalize: true, prompt: 'say: ', maxLength: 6 };
    expect(model.sentenceVectors(texts, options).data).toEqual((await model.embed(texts, options)).data);
    const { truncated, tokens } = model.forward(texts, { maxLength: 4 });
    expect(truncated[1]).toBeGreaterThan(0);
    expect(tokens[1]!.length).toBe(4);
    model.dispose();
  });

  it('load and set their state by the names of the file', async () => {
    const model = await open('bert');
    const state = model.stateDict();
    expect(Object.keys(state)).toEqual(model.parameters().map(({ name }) => name));
    for (const [name, { data, shape }] of readSafetensors(`${fixture('bert').folder}/model.safetensors`))
      if (state[name]) expect([state[name].data, state[name].shape]).toEqual([data, shape]);
    const moved = Object.fromEntries(
      Object.entries(state).map(([name, { data, shape }]) => [name, { data: data.map((x) => 2 * x), shape }]),
    );
    model.loadStateDict(moved);
    expect(model.stateDict()[Object.keys(state)[5]!]!.data).toEqual(moved[Object.keys(state)[5]!]!.data);
    const { 'classifier.bias': _, ...less } = state;
    expect(await codeOf(() => model.loadStateDict(less))).toBe('INVALID_ARGUMENT');
    model.dispose();
  });

  it('refuse what they cannot do, and stay usable', async () => {
    const q8 = await heed.fromPretrained(fixture('bert').folder, { trainable: true, dtype: 'q8' });
    expect((await q8.embed(input)).shape).toEqual([3, 24]);
    expect(await codeOf(() => q8.train().forward(input))).toBe('UNSUPPORTED');
    expect(await codeOf(() => q8.addLora())).toBe('UNSUPPORTED');
    q8.dispose();
    const model = await open('bert-bare');
    expect(await codeOf(() => model.logits('sequence-classification', input))).toBe('UNSUPPORTED');
    expect(await codeOf(() => model.logits('nothing' as never, input))).toBe('INVALID_ARGUMENT');
    expect(await codeOf(() => model.forward('a text'))).toBe('UNSUPPORTED'); // no tokenizer
    expect(await codeOf(() => model.forward(input, { backward: true } as never))).toBe('UNSUPPORTED');
    expect(await codeOf(() => model.sentenceVectors(input, { dimensions: 99 }))).toBe('INVALID_ARGUMENT');
    expect(await codeOf(() => model.sentenceVectors(input, { output: 'int8' } as never))).toBe('INVALID_ARGUMENT');
    expect(() => model.addLora({ targets: ['quer'] })).toThrow(/attention\.self\.query/);
    expect(await codeOf(() => model.addLora({ targets: ['word_embeddings'] }))).toBe('INVALID_ARGUMENT');
    expect(await codeOf(() => model.addLora({ rank: 0 }))).toBe('INVALID_ARGUMENT');
    expect(await codeOf(() => model.mergeLora())).toBe('INVALID_ARGUMENT');
    expect(await codeOf(() => model.addLora().addLora())).toBe('INVALID_ARGUMENT');
    const { bert } = { bert: fixture('bert').folder };
    for (const where of [{ workers: 2 }, { workers: 2, worker: true }])
      expect(await codeOf(() => heed.fromPretrained(bert, { trainable: true, ...where } as never))).toBe(
        'INVALID_ARGUMENT',
      );
    expect(await codeOf(() => heed.fromPretrained(bert, { trainable: true, dropout: 2 }))).toBe('INVALID_ARGUMENT');
    // LoRA adapters that changed after the forward pass.
    const loss = squares(model.train().sentenceVectors(input));
    setLora(model, { seed: 1, scale: 1 });
    expect(await codeOf(() => loss.backward())).toBe('INVALID_ARGUMENT');
    const [parameter] = model.parameters();
    model.dispose();
    for (const call of [
      () => model.forward(input),
      () => model.parameters(),
      () => model.addLora(),
      () => parameter!.value,
    ])
      expect(await codeOf(call)).toBe('DISPOSED');
    const again = await heed.fromPretrained(bert, { trainable: false } as never);
    expect((await again.embed(input)).shape).toEqual([3, 24]);
    again.dispose();
  });
});
