import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { bytesOf, expectClose, fixture } from './fixtures.js';

const families = [
  'bert',
  'roberta',
  'xlm-roberta',
  'distilbert',
  'mpnet',
  'electra',
  'albert',
  'modernbert',
  'nomic_bert',
  'qwen3',
  'gemma3_text',
  'jina-bert-v2',
  'jina-bert-v2-code',
  'deberta-v2',
  'deberta-v2-unshared',
  'deberta-v2-convolution',
  'new',
];
/** Families whose fixtures have no heads. */
const headless = ['nomic_bert', 'qwen3', 'gemma3_text'];
const storages = ['bert-bare', 'bert-f16', 'bert-bf16', 'bert-i8'];

describe.each([...families, ...storages])('%s', (name) => {
  const { folder, expected, input } = fixture(name);

  test("gives PyTorch's hidden states, attentions and pooler output", async () => {
    const heed = await load();
    using model = await heed.fromPretrained(folder);
    const out = await model.encode(input, { outputAttentions: true, outputHiddenStates: true });
    out.hiddenStates!.forEach((state, i) => {
      expectClose(state, expected.get(`hidden_states.${i}`), `hidden state ${i}`);
    });
    expect(out.hiddenStates).toHaveLength(model.config.numLayers + 1);
    expectClose(out.lastHiddenState, expected.get(`hidden_states.${model.config.numLayers}`), 'last hidden state');
    out.attentions!.forEach((weights, i) => {
      expectClose(weights, expected.get(`attentions.${i}`), `attention ${i}`);
    });
    expect(out.poolerOutput === undefined).toBe(!expected.has('pooler'));
    if (out.poolerOutput) expectClose(out.poolerOutput, expected.get('pooler'), 'pooler output');
    expect(out.attentionMask.toArray()).toEqual(input.attentionMask);
    expect(out.truncated).toEqual([0, 0, 0]);
  });

  test("gives PyTorch's queries, keys and values", async () => {
    const heed = await load();
    using model = await heed.fromPretrained(folder);
    const { projections } = await model.encode(input, { outputProjections: true });
    for (const name of ['queries', 'keys', 'values'] as const) {
      expect(projections[name]).toHaveLength(model.config.numLayers);
      projections[name].forEach((x, i) => {
        expectClose(x, expected.get(`${name}.${i}`), `${name} of layer ${i}`);
      });
    }
  });

  test("gives PyTorch's pooled vectors", async () => {
    const heed = await load();
    using model = await heed.fromPretrained(folder);
    expectClose(await model.embed(input, { pooling: 'mean', normalize: true }), expected.get('mean'), 'mean');
    expectClose(await model.embed(input, { pooling: 'cls', normalize: false }), expected.get('cls'), 'cls');
    expectClose(await model.embed(input, { pooling: 'max', normalize: false }), expected.get('max'), 'max');
  });

  test('attends with rows that sum to one', async () => {
    const heed = await load();
    using model = await heed.fromPretrained(folder);
    const { attentions, attentionMask } = await model.encode(input, { outputAttentions: true });
    const [, heads, width] = attentions![0]!.shape as [number, number, number];
    for (const { data } of attentions!) {
      for (let row = 0; row < data.length / width; row++) {
        const sum = data.subarray(row * width, (row + 1) * width).reduce((a, b) => a + b, 0);
        const text = Math.floor(row / (heads * width));
        expect(Math.abs(sum - attentionMask.data[text * width + (row % width)]!)).toBeLessThan(1e-5);
      }
    }
  });
});

const halves = storages.filter((name) => name !== 'bert-bare'); // heads in F16, BF16 and int8, too
describe.each([...families.filter((name) => !headless.includes(name)), ...halves])('heads of %s', (name) => {
  const { folder, expected, input } = fixture(name);
  const heads = [
    ['sequence-classification', 'sequence'],
    ['token-classification', 'token'],
    ['question-answering', 'question'],
  ] as const;

  test.each(heads.filter(([, key]) => expected.has(key)))("%s gives PyTorch's logits", async (head, key) => {
    const heed = await load();
    using model = await heed.fromPretrained(folder);
    const { logits } = await model.predict(head, input);
    expectClose(logits, expected.get(key), key);
  });
});

test.each(['mpnet-long', 'deberta-v2-long', 'deberta-v2-distances'])(
  '%s counts distances in buckets up to where they end',
  async (name) => {
    const { folder, expected, input } = fixture(name);
    const heed = await load();
    using model = await heed.fromPretrained(folder);
    expectClose((await model.encode(input)).lastHiddenState, expected.get('hidden_states.3'), 'last hidden state');
  },
);

/** A fixture's files with a changed config.json. */
function withConfig(name: string, change: object): Record<string, Uint8Array | string> {
  const files = bytesOf(fixture(name).folder);
  const config = JSON.parse(new TextDecoder().decode(files['config.json']));
  return { ...files, 'config.json': JSON.stringify({ ...config, ...change }) };
}

test.each(['geglu', 'glu'])('nomic_bert gates its feed-forward as config.json says: %s', async (gate) => {
  const { expected, input } = fixture('nomic_bert');
  const heed = await load();
  using model = await heed.fromPretrained(withConfig('nomic_bert', { activation_function: gate }));
  expectClose((await model.encode(input)).lastHiddenState, expected.get(gate), gate);
});

test('ModernBERT may list the kind of each layer instead of the period of its global ones', async () => {
  const { expected, input } = fixture('modernbert');
  const types = ['full_attention', 'sliding_attention', 'full_attention'];
  const heed = await load();
  using model = await heed.fromPretrained(
    withConfig('modernbert', { layer_types: types, global_attn_every_n_layers: undefined }),
  );
  expectClose((await model.encode(input)).lastHiddenState, expected.get('hidden_states.3'), 'last hidden state');
  using allGlobal = await heed.fromPretrained(
    withConfig('modernbert', { layer_types: [types[0], types[0], types[0]] }),
  );
  expect((await allGlobal.encode(input)).lastHiddenState.data).not.toEqual(
    (await model.encode(input)).lastHiddenState.data,
  );
});

test('ModernBERT may have windows in any of its layers', async () => {
  const { folder, expected, input } = fixture('modernbert-layers');
  const heed = await load();
  using model = await heed.fromPretrained(folder);
  const { lastHiddenState, attentions } = await model.encode(input, { outputAttentions: true });
  expectClose(lastHiddenState, expected.get('hidden_states.3'), 'last hidden state');
  for (const i of [0, 2]) expectClose(attentions[i]!, expected.get(`attentions.${i}`), `attention ${i}`);
});

test('Qwen3 does not look ahead: the vectors of the first tokens do not depend on later ones', async () => {
  const heed = await load();
  using model = await heed.fromPretrained(fixture('qwen3').folder);
  const { lastHiddenState } = await model.encode({
    inputIds: [
      [5, 6, 7, 8, 9],
      [5, 6, 7],
    ],
  });
  const rows = (n: number) => lastHiddenState.data.slice(n * 5 * 24, (n * 5 + 3) * 24);
  expect(rows(0)).toEqual(rows(1));
});

test("a folder like EmbeddingGemma's gives vectors with its Dense layers", async () => {
  const { folder, expected, input } = fixture('embeddinggemma');
  const heed = await load();
  using model = await heed.fromPretrained(folder);
  expectClose(await model.embed(input), expected.get('vectors'), 'vectors');
});

test('keys and values may have fewer heads than queries, of any width', async () => {
  const heed = await load();
  using model = await heed.fromPretrained(fixture('qwen3').folder);
  const { projections } = await model.encode({ inputIds: [[5, 6, 7]] }, { outputProjections: true });
  expect(projections.queries[0]!.shape).toEqual([1, 4, 3, 10]);
  expect(projections.keys[0]!.shape).toEqual([1, 2, 3, 10]);
  expect(projections.values[0]!.shape).toEqual([1, 2, 3, 10]);
});

test('position embeddings of DeBERTa v2 are those of the columns, as in the published code', async () => {
  const heed = await load();
  using model = await heed.fromPretrained(fixture('deberta-v2-unshared').folder);
  const inputIds = [[0, 0, 5, 6, 7]];
  const padded = await model.encode({ inputIds, attentionMask: [[0, 0, 1, 1, 1]] }, { outputHiddenStates: true });
  const whole = await model.encode({ inputIds }, { outputHiddenStates: true });
  // Embeddings use all columns; attention uses only tokens that are not padding.
  const rows = (x: { data: Float32Array }) => x.data.slice(2 * 24, 5 * 24);
  expect(rows(padded.hiddenStates[0]!)).toEqual(rows(whole.hiddenStates[0]!));
  expect(rows(padded.lastHiddenState)).not.toEqual(rows(whole.lastHiddenState));
});

test.each(['mpnet', 'modernbert', 'qwen3', 'gemma3_text', 'jina-bert-v2', 'deberta-v2', 'new'])(
  '%s refuses holes in a mask, which would shift distances',
  async (name) => {
    const heed = await load();
    using model = await heed.fromPretrained(fixture(name).folder);
    const inputIds = [[5, 6, 7]];
    await expect(model.encode({ inputIds, attentionMask: [[1, 0, 1]] })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining(
        "attentionMask[0]: expected one run of ones, as this model's attention depends on distances, got zeros between ones",
      ),
    });
    expect((await model.encode({ inputIds, attentionMask: [[0, 1, 1]] })).lastHiddenState.shape).toEqual([1, 3, 24]);
  },
);

test('int8 arithmetic stays near fp32 in every family', async () => {
  const heed = await load();
  for (const name of families) {
    const { folder, expected, input } = fixture(name);
    using model = await heed.fromPretrained(folder, { dtype: 'q8' });
    expect(model.config.dtype).toBe('q8');
    const { data } = await model.embed(input, { pooling: 'mean', normalize: true });
    const width = model.config.embedDim;
    const exact = expected.get('mean')!.data;
    for (let n = 0; n < 3; n++) {
      const cosine = data
        .subarray(n * width, (n + 1) * width)
        .reduce((sum, v, i) => sum + v * exact[n * width + i]!, 0);
      expect(cosine, name).toBeGreaterThan(0.99);
    }
  }
});
