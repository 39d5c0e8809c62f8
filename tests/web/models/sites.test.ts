/**
 * Reading and editing sites of pretrained encoders: comparison with hooks on the reference models, selections, errors,
 * workers and pools.
 */
import { load, Tensor } from 'heed';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { editSchema } from '../../../web/src/base/site-options.js';
import { SitePlan } from '../../../web/src/base/site-plan.js';
import { siteNames } from '../layers/examples.js';
import { expectClose, fixture, siteFixtures } from './fixtures.js';

type Heed = Awaited<ReturnType<typeof load>>;
type Model = Awaited<ReturnType<Heed['fromPretrained']>>;

const { cases, expected } = siteFixtures();

let heed: Heed;
const models = new Map<string, Model>();
const modelOf = async (folder: string) => {
  const model = models.get(folder) ?? (await heed.fromPretrained(fixture(folder).folder));
  models.set(folder, model);
  return model;
};
beforeAll(async () => {
  heed = await load();
});
afterAll(() => {
  for (const model of models.values()) model.dispose();
});

const pixelsOf = (values: number[]) => new Tensor(Float32Array.from(values), [1, 3, 20, 20]);

describe('what hooks on the reference models give', () => {
  test('there are cases of every site', () => {
    expect(cases.length).toBeGreaterThan(250);
    const edited = new Set(cases.flatMap(({ edit }) => edit.map(({ site }) => site.split('.').at(-1))));
    expect([...edited]).toEqual(expect.arrayContaining(siteNames));
  });

  test.each(cases.map((each, i) => [i, each.folder, each.edit.map(({ site }) => site).join(' '), each] as const))(
    '%i: %s %s',
    async (i, folder, _, { input, pixels, read, edit }) => {
      const model = await modelOf(folder);
      const options = { read, edit, outputHiddenStates: true, outputAttentions: true };
      const { lastHiddenState, activations, hiddenStates, attentions } = pixels
        ? await model.encodeImage(pixelsOf(pixels), options)
        : await model.encode(input!, options);
      expectClose(lastHiddenState, expected.get(`${i}.output`), 'last hidden state');
      expect(Object.keys(activations!)).toEqual(read);
      for (const name of read) {
        expectClose(activations![name]!, expected.get(`${i}.${name}`), name);
        const [, layer, site] = name.split('.');
        // Other results that contain sites contain the edited values.
        if (site === 'weights') expect(attentions![Number(layer)]!.data).toEqual(activations![name]!.data);
        if (name === 'layers.0.input') expect(hiddenStates![0]!.data).toEqual(activations![name]!.data);
      }
    },
  );
});

const texts = {
  inputIds: [
    [5, 6, 7, 8],
    [9, 10],
  ],
};

test.each(['bert', 'modernbert', 'gemma3_text', 'deberta-v2', 'jina-bert-v2-code'])(
  '%s: reading, and setting what was read, change no bit',
  async (name) => {
    const model = await modelOf(name);
    const { lastHiddenState } = await model.encode(texts);
    const read = [...siteNames.map((site) => `layers.*.${site}`), 'embeddings', 'output'];
    const first = await model.encode(texts, { read });
    expect(first.lastHiddenState.data).toEqual(lastHiddenState.data);
    expect(Object.keys(first.activations!)).toHaveLength(3 * siteNames.length + 2);
    expect(first.activations!.output!.data).toEqual(lastHiddenState.data);
    const edit = Object.entries(first.activations!).map(([site, set]) => ({ site, set }));
    expect((await model.encode(texts, { edit })).lastHiddenState.data).toEqual(lastHiddenState.data);
    const maps = edit.map(({ site }) => ({ site, map: () => {} }));
    expect((await model.encode(texts, { edit: maps })).lastHiddenState.data).toEqual(lastHiddenState.data);
  },
);

test('switching heads off is the head mask; edits leave nothing behind', async () => {
  const model = await modelOf('bert');
  const plain = await model.encode(texts);
  const headMask = [
    [1, 1, 1],
    [0, 1, 0],
    [1, 1, 1],
  ];
  const masked = await model.encode(texts, { headMask });
  const edit = [{ site: 'layers.1.heads', heads: [0, 2], scale: 0 }];
  expect((await model.encode(texts, { edit })).lastHiddenState.data).toEqual(masked.lastHiddenState.data);
  expect((await model.encode(texts)).lastHiddenState.data).toEqual(plain.lastHiddenState.data);
});

test('activations of another text can be patched in, for all calls', async () => {
  const model = await modelOf('bert');
  const [one, other] = [{ inputIds: [[5, 6, 7]] }, { inputIds: [[8, 9, 10]] }];
  const { activations } = await model.encode(other, { read: ['layers.2.output'] });
  const edit = [{ site: 'layers.2.output', set: activations!['layers.2.output']! }];
  expect((await model.embed(one, { edit })).data).toEqual((await model.embed(other)).data);
  expect((await model.predict('token-classification', one, { edit })).logits.data).toEqual(
    (await model.predict('token-classification', other)).logits.data,
  );
  const [vector] = await model.embedSparse(one, { edit });
  expect(vector).toEqual((await model.embedSparse(other))[0]);
  const prediction = await model.predict('sequence-classification', one, { edit, read: ['output'] });
  expect(prediction.activations!.output!.shape).toEqual([1, 3, 24]);
});

test('a map gets the selection with zeros as padding, once per site', async () => {
  const model = await modelOf('bert');
  const seen: number[][] = [];
  const edit = [
    { site: 'layers.1.weights', texts: [1], heads: [2], map: (w: Tensor) => w.data.fill(1 / 2) },
    {
      site: 'layers.*.output',
      positions: [0, 3],
      map: (x: Tensor) => {
        seen.push(x.shape);
        expect(x.at<Tensor>(1, 1).data.every((value) => value === 0)).toBe(true);
      },
    },
  ];
  const read = ['layers.1.weights', 'layers.1.heads', 'layers.1.values'];
  const { activations } = await model.encode(texts, { edit, read });
  expect(seen).toEqual(Array.from({ length: 3 }, () => [2, 2, 24]));
  const weights = activations!['layers.1.weights']!.at<Tensor>(1, 2);
  expect([...weights.data]).toEqual([0.5, 0.5, 0, 0, 0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
  const [values, heads] = ['values', 'heads'].map((site) => activations![`layers.1.${site}`]!.at<Tensor>(1, 2));
  const mean = Array.from({ length: 8 }, (_, d) => (values!.data[d]! + values!.data[8 + d]!) / 2);
  expectClose({ data: heads!.data.slice(0, 8), shape: [8] }, { data: Float32Array.from(mean), shape: [8] });
});

test('a mean is over all tokens of the call, however many pieces it has', async () => {
  const model = await modelOf('bert');
  const inputIds = Array.from({ length: 300 }, (_, n) => Array.from({ length: 30 }, (_, i) => 5 + ((7 * n + i) % 70)));
  const { activations } = await model.encode({ inputIds }, { read: ['layers.0.output'] });
  const rows = activations!['layers.0.output']!;
  const mean = new Float64Array(24);
  rows.data.forEach((value, i) => (mean[i % 24]! += value / 9000));
  const edited = await model.encode(
    { inputIds },
    { read: ['layers.0.output'], edit: [{ site: 'layers.0.output', texts: [299], positions: [2], set: 'mean' }] },
  );
  const got = edited.activations!['layers.0.output']!.at<Tensor>(299, 2);
  expectClose(got, { data: Float32Array.from(mean), shape: [24] });
});

test('NaN spreads within its text only', async () => {
  const model = await modelOf('bert');
  const plain = await model.encode(texts);
  for (const site of siteNames) {
    const edit = [{ site: `layers.0.${site}`, texts: [0], set: NaN }];
    const { lastHiddenState } = await model.encode(texts, { edit });
    expect(lastHiddenState.at<Tensor>(0).data.some(Number.isNaN), site).toBe(true);
    expect(lastHiddenState.at<Tensor>(1).data).toEqual(plain.lastHiddenState.at<Tensor>(1).data);
  }
});

test('ids with zeros in their attention mask keep their columns', async () => {
  const model = await modelOf('bert');
  const inputIds = [[0, 0, 5, 6, 7]];
  const input = { inputIds, attentionMask: [[0, 0, 1, 1, 1]] };
  const edit = [{ site: 'layers.1.output', positions: [3], add: 1 }];
  const read = ['layers.1.output', 'layers.1.keys'];
  const [a, b] = [await model.encode(input, { read }), await model.encode(input, { read, edit })];
  const difference = b.activations!['layers.1.output']!.data.map(
    (x, i) => x - a.activations!['layers.1.output']!.data[i]!,
  );
  expect([...difference].map((x) => Math.round(x))).toEqual(
    Array.from({ length: 5 * 24 }, (_, i) => (Math.floor(i / 24) === 3 ? 1 : 0)),
  );
  expect(b.activations!['layers.1.keys']!.at<Tensor>(0, 0, 0).data.every((x) => x === 0)).toBe(true);
});

describe.each([{ dtype: 'q8' as const }, { worker: true }, { workers: 2 }])('with %o', (how) => {
  test('edits and reads are those of this thread', async () => {
    const folder = fixture('bert').folder;
    using here = await heed.fromPretrained(folder, { dtype: how.dtype ?? 'fp32' });
    using there = await heed.fromPretrained(folder, how);
    const input = { inputIds: Array.from({ length: 12 }, (_, n) => [5 + n, 6, 7 + n]) };
    const edit = [
      { site: 'layers.1.heads', heads: [0], texts: [11], scale: 0 },
      { site: 'layers.2.output', set: 'mean' as const, texts: [3] },
    ];
    const read = ['layers.*.scores', 'output'];
    const [a, b] = [await here.encode(input, { edit, read }), await there.encode(input, { edit, read })];
    expect(b.lastHiddenState.data).toEqual(a.lastHiddenState.data);
    expect(b.activations!['layers.2.scores']).toEqual(a.activations!['layers.2.scores']);
    expect((await there.embed(input, { edit })).data).toEqual((await here.embed(input, { edit })).data);
    if (how.dtype) return;
    const map = there.embed(input, { edit: [{ site: 'output', map: () => {} }] });
    await expect(map).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('embed.edit[0].map'),
    });
  });
});

describe('bad input', () => {
  const bad: [string, object, string, string][] = [
    [
      'an unknown site',
      { read: ['layers.0.head'] },
      'INVALID_ARGUMENT',
      "encode.read[0]: expected a site: 'layers.0.heads'",
    ],
    ['no layer', { read: ['weights'] }, 'INVALID_ARGUMENT', 'layers.0.weights'],
    ['a layer beyond', { read: ['layers.3.heads'] }, 'INVALID_ARGUMENT', 'a layer from 0 to 2'],
    ['a string', { read: 'output' }, 'INVALID_ARGUMENT', 'encode.read'],
    ['no verb', { edit: [{ site: 'output' }] }, 'INVALID_ARGUMENT', 'one of scale, add, set, map, got none'],
    ['another word', { edit: [{ site: 'output', set: 'median' }] }, 'INVALID_ARGUMENT', "edit[0].set: expected a tensor, a number or 'mean', got 'median'"], // biome-ignore format: a line of the table
    ['a factor that is NaN', { edit: [{ site: 'output', scale: NaN }] }, 'INVALID_ARGUMENT', 'edit[0].scale: expected finite factors, got NaN'], // biome-ignore format: a line of the table
    ['an infinite factor', { edit: [{ site: 'output', scale: [1, Infinity] }] }, 'INVALID_ARGUMENT', 'got Infinity at entry 1'], // biome-ignore format: a line of the table
    ['a summand that is NaN', { edit: [{ site: 'output', add: NaN }] }, 'INVALID_ARGUMENT', 'edit[0].add: expected finite numbers or -Infinity, got NaN'], // biome-ignore format: a line of the table
    ['two verbs', { edit: [{ site: 'output', add: 1, scale: 2 }] }, 'INVALID_ARGUMENT', 'got scale and add'],
    ['an unknown key', { edit: [{ site: 'output', head: 1, add: 1 }] }, 'INVALID_ARGUMENT', "'heads'"],
    ['no edit', { edit: [null] }, 'INVALID_ARGUMENT', 'encode.edit[0]'],
    [
      'a head beyond',
      { edit: [{ site: 'layers.0.heads', heads: [3], scale: 0 }] },
      'INVALID_ARGUMENT',
      'edit[0].heads: expected indices from 0 to 2, got 3',
    ],
    [
      'a negative position',
      { edit: [{ site: 'output', positions: [-1], scale: 0 }] },
      'INVALID_ARGUMENT',
      'positions[0]',
    ],
    [
      'heads of rows',
      { edit: [{ site: 'output', heads: [0], scale: 0 }] },
      'INVALID_ARGUMENT',
      "one of the axes of 'output' (texts, positions), got 'heads'",
    ],
    ['keys of heads', { edit: [{ site: 'layers.0.heads', keys: [0], scale: 0 }] }, 'INVALID_ARGUMENT', 'edit[0].keys'],
    ['an index twice', { edit: [{ site: 'output', texts: [0, 0], scale: 0 }] }, 'INVALID_ARGUMENT', 'each index once'],
    [
      'another shape',
      { edit: [{ site: 'output', set: [1, 2, 3] }] },
      'SHAPE_MISMATCH',
      'broadcasts to the selection, [2, 4, 24], got [3]',
    ],
    ['an unknown word', { edit: [{ site: 'output', set: 'median' }] }, 'INVALID_ARGUMENT', 'edit[0].set'],
    ['a map of another shape', { edit: [{ site: 'output', map: () => [1] }] }, 'SHAPE_MISMATCH', 'edit[0].map'],
    ['a map that returns a string', { edit: [{ site: 'output', map: () => 'x' }] }, 'INVALID_ARGUMENT', 'edit[0].map'],
    ['a promise', { edit: [{ site: 'output', map: async () => {} }] }, 'INVALID_ARGUMENT', 'a promise'],
    ['no function', { edit: [{ site: 'output', map: 1 }] }, 'INVALID_ARGUMENT', 'a function'],
  ];
  test.each(bad)('%s', async (_, options, code, message) => {
    const model = await modelOf('bert');
    const before = await model.encode(texts);
    await expect(model.encode(texts, options as never)).rejects.toMatchObject({
      name: 'HeedError',
      code,
      message: expect.stringContaining(message),
    });
    expect((await model.encode(texts)).lastHiddenState.data).toEqual(before.lastHiddenState.data);
  });

  test('what a map throws is the cause', async () => {
    const model = await modelOf('bert');
    const cause = new Error('mine');
    const edit = [
      {
        site: 'layers.1.scores',
        map: () => {
          throw cause;
        },
      },
    ];
    await expect(model.encode(texts, { edit })).rejects.toMatchObject({ name: 'HeedError', cause });
    await expect(model.embed(texts, { edit })).rejects.toMatchObject({ cause });
    expect((await model.embed(texts)).shape).toEqual([2, 24]);
  });

  test('a map may call heed', async () => {
    const model = await modelOf('bert');
    const edit = [{ site: 'output', map: (x: Tensor) => heed.softmax(x) }];
    const { lastHiddenState } = await model.encode(texts, { edit });
    const sum = lastHiddenState.at<Tensor>(0, 0).data.reduce((a, b) => a + b, 0);
    expect(sum).toBeCloseTo(1, 5);
  });
});

test('signals stop edited calls', async () => {
  const model = await modelOf('bert');
  const edit = [{ site: 'output', add: 1 }];
  await expect(model.encode(texts, { edit, signal: AbortSignal.abort() })).rejects.toMatchObject({
    name: 'AbortError',
  });
});

describe('layers below a residual stream that is set', () => {
  const first = (read: string[] | null, edit: object[], showsLayers = false) => {
    const sizes = {
      texts: 1,
      queries: 2,
      keys: 2,
      heads: 1,
      keyHeads: 1,
      keyDim: 2,
      valueDim: 2,
      embedDim: 2,
      feedForwardDim: 2,
    };
    const layout = { owner: 'encode', stacks: [{ numLayers: 4, sizesOf: () => sizes }] };
    return new SitePlan({ read, edit: editSchema.edit(edit, 'encode.edit'), showsLayers }, layout).firstLayer;
  };
  test('do not run, unless something there is seen', () => {
    const set = { site: 'layers.2.input', set: 0 };
    expect(first(null, [set])).toBe(2);
    expect(first(null, [set, { site: 'layers.3.input', set: 1 }])).toBe(3);
    expect(first(['layers.2.input', 'output'], [set])).toBe(2);
    expect(first(null, [set, { site: 'layers.0.output', scale: 2 }])).toBe(2);
    expect(first(['layers.1.output'], [set])).toBe(0);
    expect(first(['layers.1.output'], [{ site: 'layers.1.input', set: 1 }, set])).toBe(1);
    expect(first(null, [set, { site: 'layers.1.heads', map: () => {} }])).toBe(0);
    expect(first(null, [set], true)).toBe(0);
    expect(first(null, [{ ...set, positions: [0] }])).toBe(0);
    expect(first(null, [{ ...set, set: 'mean' }])).toBe(0);
    expect(first(null, [{ site: 'layers.2.input', scale: 0 }])).toBe(0);
  });

  test('change nothing that follows', async () => {
    for (const name of ['bert', 'modernbert', 'deberta-v2', 'deberta-v2-convolution', 'gemma3_text']) {
      const model = await modelOf(name);
      const { activations, lastHiddenState, attentions } = await model.encode(texts, {
        read: ['layers.2.input'],
        outputAttentions: true,
      });
      const edit = [{ site: 'layers.2.input', set: activations!['layers.2.input']! }];
      expect((await model.encode(texts, { edit })).lastHiddenState.data).toEqual(lastHiddenState.data);
      const shown = await model.encode(texts, { edit, outputAttentions: true });
      expect(shown.attentions).toEqual(attentions);
      expect(shown.lastHiddenState.data).toEqual(lastHiddenState.data);
    }
  });
});
