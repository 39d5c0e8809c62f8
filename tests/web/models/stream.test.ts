/** `embedStream` and `encodeStream`: results batch by batch. */
import {
  embedLong,
  embedStream,
  encodeStream,
  load,
  type PretrainedModel,
  splitPassages,
  Tensor,
  type TextStream,
} from 'heed';
import { describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../../web/src/io/safetensors.js';
import { tinyModel } from './tiny.js';

const heed = await load();
const files = {
  ...tinyModel(),
  'config_sentence_transformers.json': JSON.stringify({ prompts: { query: 'the x ', document: 'a y ' } }),
};
const words = ['fox', 'the', 'quick', 'brown', 'a', 'x', 'y'];
const texts = Array.from({ length: 50 }, (_, i) => words.slice(0, 1 + (i % 7)).join(' '));

async function collect<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const each of stream) all.push(each);
  return all;
}

/** A source that records whether it has been closed. */
function source(items: unknown[]) {
  const state = { read: 0, closed: false };
  async function* make() {
    try {
      for (const item of items) {
        state.read++;
        yield item as string;
      }
    } finally {
      state.closed = true;
    }
  }
  return Object.assign(make(), { state });
}

describe.each([{}, { worker: true }, { workers: 2 }])('a model with %o', (options) => {
  test('gives the vectors of all texts in their order', async () => {
    using model = await heed.fromPretrained(files, options);
    const whole = await model.embed(texts);
    for (const given of [texts, new Set(texts).size > 0 && texts.values(), source(texts)] as TextStream[]) {
      const batches = await collect(embedStream(model, given, { batchSize: 20 }));
      expect(batches.map(({ start, texts }) => [start, texts.length])).toEqual([
        [0, 20],
        [20, 20],
        [40, 10],
      ]);
      expect(batches.flatMap(({ texts }) => texts)).toEqual(texts);
      expect(batches.flatMap(({ vectors }) => vectors.toArray<number[][]>())).toEqual(whole.toArray());
      expect(batches.flatMap(({ vectors }) => vectors.truncated)).toEqual(whole.truncated);
    }
    const [first] = await collect(embedStream(model, texts, { role: 'query' }));
    expect(first!.vectors).toEqual(await model.embedQuery(texts));
    const [small] = await collect(embedStream(model, ['fox'], { role: 'document', output: 'binary' }));
    expect(small!.vectors).toEqual(await model.embedDocument('fox', { output: 'binary' }));
  });

  test('gives the outputs of encode, padded batch by batch', async () => {
    using model = await heed.fromPretrained(files, options);
    const batches = await collect(encodeStream(model, texts, { batchSize: 30, outputAttentions: true }));
    expect(batches).toHaveLength(2);
    expect(batches[1]!.outputs).toEqual(await model.encode(texts.slice(30), { outputAttentions: true }));
    expect(batches[1]!.outputs.attentions.length).toBe(model.config.numLayers);
  });
});

test('no texts give no results', async () => {
  using model = await heed.fromPretrained(files);
  expect(await collect(embedStream(model, []))).toEqual([]);
  expect(await collect(encodeStream(model, source([])))).toEqual([]);
});

test('a result is there before the source has more texts', async () => {
  using model = await heed.fromPretrained(files);
  let send: (texts: string[]) => void = () => {};
  const later = new Promise<string[]>((resolve) => {
    send = resolve;
  });
  async function* slow() {
    yield* ['fox', 'the fox'];
    yield* await later;
  }
  const stream = embedStream(model, slow(), { batchSize: 2 });
  expect((await stream.next()).value).toMatchObject({ start: 0, texts: ['fox', 'the fox'] });
  send(['a']);
  expect((await stream.next()).value).toMatchObject({ start: 2, texts: ['a'] });
  expect((await stream.next()).done).toBe(true);
});

test.each([1, 2])('few texts are read ahead, and leaving the loop closes the source (%i workers)', async (workers) => {
  using model = await heed.fromPretrained(files, { workers });
  const given = source(Array.from({ length: 1000 }, () => 'fox'));
  for await (const { start } of embedStream(model, given, { batchSize: 4 })) {
    expect(given.state.read).toBeLessThanOrEqual(start + 4 * (workers + 1));
    if (start === 12) break;
  }
  expect(given.state.closed).toBe(true);
  expect((await model.embed('fox')).shape).toEqual([1, 24]);
});

describe('a loop ends with one error', () => {
  const failing = async (model: PretrainedModel, given: TextStream, options: object = {}) =>
    collect(embedStream(model, given, { batchSize: 3, ...options }));

  test('for texts that are none', async () => {
    using model = await heed.fromPretrained(files);
    for (const wrong of ['fox', 7, null, {}, undefined])
      expect(() => embedStream(model, wrong as never)).toThrow(/^texts: expected an array, or another iterable/);
    const given = source(['a', 'x', 'y', 'z', 5]);
    await expect(failing(model, given)).rejects.toThrow('texts[4]: expected a string, got 5');
    expect(given.state.closed).toBe(true);
    await expect(failing(model, ['a', 'x', 'y', null] as never)).rejects.toThrow(/^texts\[3\]/);
  });

  test('for wrong options and models, at once', async () => {
    using model = await heed.fromPretrained(files);
    expect(() => embedStream(model, texts, { batchSize: 0 })).toThrow(/embedStream.batchSize/);
    expect(() => embedStream(model, texts, { role: 'passage' as never })).toThrow(/embedStream.role/);
    expect(() => encodeStream(model, texts, { onProgress: () => {} } as never)).toThrow(/encodeStream.onProgress/);
    expect(() => embedStream({} as never, texts)).toThrow(/a model that `fromPretrained` returned/);
    await expect(failing(model, texts, { normalise: true })).rejects.toThrow(/'normalise'/);
    await expect(failing(model, ['a', 'x x x'], { truncation: false, maxLength: 4 })).rejects.toMatchObject({
      code: 'TOO_LONG',
    });
  });

  test('of the source', async () => {
    using model = await heed.fromPretrained(files);
    async function* broken() {
      yield* ['a', 'x', 'y', 'z'];
      throw new Error('the disk failed');
    }
    await expect(failing(model, broken())).rejects.toThrow('the disk failed');
  });

  test('of the signal, even while the source waits', async () => {
    using model = await heed.fromPretrained(files);
    async function* endless() {
      yield* ['a', 'x', 'y'];
      await new Promise(() => {});
    }
    const stop = new AbortController();
    const stream = embedStream(model, endless(), { batchSize: 3, signal: stop.signal });
    expect((await stream.next()).value).toMatchObject({ start: 0 });
    const next = stream.next();
    stop.abort(new Error('enough'));
    await expect(next).rejects.toThrow('enough');
    await expect(failing(model, texts, { signal: stop.signal })).rejects.toThrow('enough');
    expect((await model.embed('fox')).shape).toEqual([1, 24]);
  });
});

test('a stream retains nothing of the texts that it has embedded', async () => {
  const collectGarbage = globalThis.gc as () => void;
  const vectors = Object.assign(new Tensor(new Float32Array(1), [1, 1]), { truncated: [0] });
  const instant = { config: {}, workers: { count: 0 }, embed: async () => vectors } as unknown as PretrainedModel;
  const used: number[] = [];
  async function* arriving() {
    for (let n = 0; n < 60_000; n++) {
      yield 'a fox';
      if (n % 30_000 !== 1000) continue;
      collectGarbage();
      used.push(process.memoryUsage().heapUsed);
    }
    collectGarbage();
    used.push(process.memoryUsage().heapUsed);
  }
  for await (const _ of embedStream(instant, arriving(), { batchSize: 64 }));
  // Earlier, it was 352 bytes per text.
  expect((used.at(-1)! - used[0]!) / 59_000).toBeLessThan(50);
});

describe.each(['embed', 'encode', 'tokenize', 'predict', 'embedSparse', 'embedTokens', 'splitPassages', 'embedLong'])(
  'a long text: %s',
  (method) => {
    test('leaves the event loop its turns, and stops when the signal fires', async () => {
      using model = await heed.fromPretrained(files);
      const text = 'the quick brown fox, a x. '.repeat(100_000);
      const stop = new AbortController();
      const call = { signal: stop.signal };
      const calls: Record<string, () => Promise<unknown>> = {
        embed: () => model.embed(text, call),
        encode: () => model.encode(text, call),
        tokenize: () => model.tokenize(text, call),
        predict: () => model.predict('sequence-classification', text, call),
        embedSparse: () => model.embedSparse(text, { ...call, edit: [] }),
        embedTokens: () => model.embedTokens(text, call),
        splitPassages: () => splitPassages(model, text, call),
        embedLong: () => embedLong(model, text, call),
      };
      // The timer fires only if the call yields to the event loop before its end.
      setTimeout(() => stop.abort(new Error('enough')));
      await expect(calls[method]!()).rejects.toThrow('enough');
    });
  },
);

test('many texts of a model without layers leave the event loop its turns', async () => {
  using model = await heed.fromPretrained({
    'config.json': JSON.stringify({ model_type: 'model2vec', hidden_dim: 16, normalize: true }),
    'model.safetensors': writeSafetensors([
      { name: 'embeddings', dtype: 'F32', shape: [24, 16], data: new Float32Array(24 * 16).fill(1) },
    ]),
    'tokenizer.json': tinyModel()['tokenizer.json']!,
  });
  const stop = new AbortController();
  const many = Array.from({ length: 50_000 }, (_, i) => `the quick brown fox ${i}`);
  const rejected = expect(model.embed(many, { signal: stop.signal })).rejects.toThrow('enough');
  setTimeout(() => stop.abort(new Error('enough')));
  await rejected;
});
