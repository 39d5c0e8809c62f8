/** A checkpoint like jina-embeddings-v3, with adapters per task (tests/fixtures/models/jina_v3.py). */
import { load, similarity, type Tensor } from 'heed';
import { load as loadTraining } from 'heed/train';
import { expect, test } from 'vitest';
import { bytesOf, expectClose, fixture } from './fixtures.js';

const { folder, expected, input } = fixture('jina-v3');
const TASKS = ['retrieval.query', 'retrieval.passage', 'text-matching'];
const heed = await load();

/** The least cosine of the vectors with the expected ones of a task. */
function leastCosine(vectors: Tensor, task: string): number {
  const { data, shape } = expected.get(task)!;
  const cosines = similarity(vectors, { data, shape: shape as [number, number] });
  return Math.min(...Array.from({ length: shape[0]! }, (_, n) => cosines.data[n * shape[0]! + n]!));
}

test("gives transformers' hidden states and pooler output", async () => {
  using model = await heed.fromPretrained(folder);
  const { hiddenStates, poolerOutput } = await model.encode(input, { outputHiddenStates: true });
  hiddenStates!.forEach((state, i) => {
    expectClose(state, expected.get(`hidden_states.${i}`), `hidden state ${i}`);
  });
  expectClose(poolerOutput!, expected.get('pooler'), 'pooler output');
  expect(model.config.family).toBe('jina_embeddings_v3');
  expect(model.config.unread).toEqual([]);
});

test.each([{}, { worker: true }, { workers: 2 }])(
  'adds the adapters of the task of a call, with %j',
  async (options) => {
    using model = await heed.fromPretrained(folder, options);
    // At the same time, so that their layers alternate.
    const all = await Promise.all([undefined, ...TASKS].map((task) => model.embed(input, { task })));
    ['none', ...TASKS].forEach((task, i) => {
      expectClose(all[i]!, expected.get(task), task);
    });
    expectClose(await model.embedQuery(input), expected.get('retrieval.query'), 'embedQuery');
    expectClose(await model.embedDocument(input), expected.get('retrieval.passage'), 'embedDocument');
    await expect(model.embed(input, { task: 'classification' })).rejects.toThrow(
      "task: expected one of retrieval.query, retrieval.passage, text-matching, or none, got 'classification'",
    );
  },
);

test('encode adds the adapters of a task, too', async () => {
  using model = await heed.fromPretrained(folder);
  for (const task of [undefined, ...TASKS]) {
    const { lastHiddenState } = await model.encode(input, { task });
    const [count, length, width] = lastHiddenState.shape as [number, number, number];
    const first = await model.embed(input, { task, pooling: 'cls', normalize: false });
    for (let n = 0; n < count; n++) {
      const row = lastHiddenState.data.subarray(n * length * width, n * length * width + width);
      expectClose(
        { data: row, shape: [width] },
        { data: first.data.subarray(n * width, (n + 1) * width), shape: [width] },
      );
    }
  }
  await expect(model.encode(input, { task: 'classification' })).rejects.toThrow(
    'task: expected one of retrieval.query',
  );
});

test('adds adapters in int8, and in quantized folders', async () => {
  const { files } = await heed.quantize(bytesOf(folder));
  for (const source of [folder, files]) {
    using model = await heed.fromPretrained(source, { dtype: 'q8' });
    for (const task of TASKS) expect(leastCosine(await model.embed(input, { task }), task), task).toBeGreaterThan(0.99);
    expect(leastCosine(await model.embed(input), 'none')).toBeGreaterThan(0.99);
  }
});

test('an edit may call the model with another task, or without one', async () => {
  using model = await heed.fromPretrained(folder);
  const inner: Promise<Tensor>[] = [];
  const outer = await model.embed(input, {
    task: 'text-matching',
    edit: [
      {
        site: 'layers.0.hidden',
        map() {
          inner.push(model.embed(input, { task: 'retrieval.query' }), model.embed(input));
        },
      },
    ],
  });
  expectClose(outer, expected.get('text-matching'), 'text-matching');
  const [query, none] = await Promise.all(inner.slice(0, 2));
  expectClose(query!, expected.get('retrieval.query'), 'retrieval.query');
  expectClose(none!, expected.get('none'), 'none');
});

test('files without trained adapters have none', async () => {
  const files = bytesOf(folder);
  const config = JSON.parse(new TextDecoder().decode(files['config.json'])) as object;
  const source = { ...files, 'config.json': JSON.stringify({ ...config, load_trained_adapters: false }) };
  using model = await heed.fromPretrained(source);
  expectClose(await model.embed(input, { task: 'text-matching' }), expected.get('none'), 'none');
});

test('prune rejects adapters, whose tables have a row per token', async () => {
  await expect(heed.prune(bytesOf(folder), { keep: ['a'] })).rejects.toThrow('a model without adapters of tasks');
});

test('trains the weights without adapters', async () => {
  const training = await loadTraining();
  const model = await training.fromPretrained(folder, { trainable: true, dropout: 0 });
  const vectors = model.train().sentenceVectors(input);
  expectClose(vectors, expected.get('none'), 'none');
  training.losses.mse(vectors, { data: new Float32Array(vectors.data.length), shape: vectors.shape }).backward();
  const changed = model.parameters().filter(({ grad }) => grad?.data.some((value) => value !== 0));
  expect(changed.length).toBeGreaterThan(10);
  expect(changed.filter(({ name }) => name.includes('lora'))).toEqual([]);
  expect(() => model.addLora()).toThrow('addLora: expected a model without adapters of tasks');
  using saved = await heed.fromPretrained(await model.save());
  for (const task of TASKS) expectClose(await saved.embed(input, { task }), expected.get(task), task);
  model.dispose();
});
