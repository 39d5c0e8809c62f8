/**
 * Every text and image checkpoint of the fixtures has every site. Properties of reading and editing for all families,
 * numbers of threads and numbers of images.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  classify,
  classifyTokens,
  type EncodeResult,
  fillMask,
  type Heed,
  load,
  type PretrainedModel,
  type SiteEdit,
  Tensor,
} from 'heed';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { siteNames } from '../layers/examples.js';
import { expectClose, fixture, fixtures } from './fixtures.js';
import { tinyModel } from './tiny.js';

interface Config {
  vision_config?: object;
  patch_size?: number;
  text_config?: object;
}

/** The encoders of each folder. */
const encoders = readdirSync(fixtures)
  .filter((name) => existsSync(join(fixtures, name, 'config.json')))
  .flatMap((name) => {
    const config = JSON.parse(readFileSync(join(fixtures, name, 'config.json'), 'utf8')) as Config;
    const images = config.vision_config !== undefined || config.patch_size !== undefined;
    return [
      ...(images ? [[name, 'images'] as const] : []),
      ...(!images || config.text_config ? [[name, 'texts'] as const] : []),
    ];
  });

const wave = (...shape: number[]) =>
  new Tensor(
    Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => Math.sin(1 + i * i)),
    shape,
  );
/** Several distinct images. */
const pictures = wave(3, 3, 20, 20);
const inputIds = [
  [5, 6, 7, 8],
  [9, 10],
];

type Options = { read?: string[]; edit?: SiteEdit[] };
type Run = (options: Options) => Promise<Pick<EncodeResult, 'lastHiddenState' | 'activations'>>;
const runOf =
  (model: PretrainedModel, kind: 'texts' | 'images'): Run =>
  (options) =>
    kind === 'texts' ? model.encode({ inputIds }, options) : model.encodeImage(pictures, options);

let heed: Heed;
beforeAll(async () => {
  heed = await load();
});
afterAll(() => heed?.dispose());

test('the fixtures have both kinds of encoders', () => {
  expect(encoders.filter(([, kind]) => kind === 'texts').length).toBeGreaterThan(25);
  expect(encoders.filter(([, kind]) => kind === 'images').length).toBeGreaterThan(8);
});

describe.each(encoders)('%s, encoder of %s', (name, kind) => {
  let model: PretrainedModel;
  let run: Run;
  beforeAll(async () => {
    model = await heed.fromPretrained(fixture(name).folder);
    run = runOf(model, kind);
  });
  afterAll(() => model?.dispose());

  test('has every site, and reading changes no bit; nor does setting what was read, or a map that changes nothing', async () => {
    const { lastHiddenState } = await run({});
    const read = ['embeddings', ...siteNames.map((site) => `layers.*.${site}`), 'output'];
    const all = await run({ read });
    expect(all.lastHiddenState.data).toEqual(lastHiddenState.data);
    const activations = all.activations!;
    const layers = (Object.keys(activations).length - 2) / siteNames.length;
    expect(layers).toBeGreaterThanOrEqual(1);
    expect(Number.isInteger(layers)).toBe(true);
    const [texts, length, width] = lastHiddenState.shape as [number, number, number];
    for (let layer = 0; layer < layers; layer++) {
      const shapeOf = (site: string) => activations[`layers.${layer}.${site}`]!.shape;
      const [, heads, , keyDim] = shapeOf('queries') as [number, number, number, number];
      const [, keyHeads, , valueDim] = shapeOf('values') as [number, number, number, number];
      for (const site of ['input', 'attention', 'feedForward', 'output'])
        expect(shapeOf(site), site).toEqual([texts, length, width]);
      for (const site of ['scores', 'weights']) expect(shapeOf(site), site).toEqual([texts, heads, length, length]);
      expect(shapeOf('queries')).toEqual([texts, heads, length, keyDim]);
      expect(shapeOf('keys')).toEqual([texts, keyHeads, length, keyDim]);
      expect(shapeOf('heads')).toEqual([texts, heads, length, valueDim]);
      expect(shapeOf('hidden').slice(0, 2)).toEqual([texts, length]);
    }
    expect(activations.embeddings!.data).toEqual(activations['layers.0.input']!.data);
    expect(activations.output!.data).toEqual(lastHiddenState.data);
    const edit = Object.entries(activations).map(([site, set]) => ({ site, set }));
    expect((await run({ edit })).lastHiddenState.data).toEqual(lastHiddenState.data);
    const maps = edit.map(({ site }) => ({ site, map: () => {} }));
    expect((await run({ edit: maps })).lastHiddenState.data).toEqual(lastHiddenState.data);
  });

  test('an edit of each site changes the output of its own text only, and nothing later', async () => {
    const { lastHiddenState: plain } = await run({});
    for (const site of siteNames) {
      const edit = [{ site: `layers.0.${site}`, texts: [0], set: wave(1).data[0]! }];
      const { lastHiddenState } = await run({ edit });
      expect(lastHiddenState.at<Tensor>(0).data, site).not.toEqual(plain.at<Tensor>(0).data);
      expect(lastHiddenState.at<Tensor>(1).data, site).toEqual(plain.at<Tensor>(1).data);
    }
    expect((await run({})).lastHiddenState.data).toEqual(plain.data);
  });
});

describe('several images in a call', () => {
  let model: PretrainedModel;
  beforeAll(async () => {
    model = await heed.fromPretrained(fixture('dinov2-same').folder);
  });
  afterAll(() => model?.dispose());

  test('have one mean, over the rows of all of them', async () => {
    const read = ['layers.1.output'];
    const plain = await model.encodeImage(pictures, { read });
    const rows = plain.activations!['layers.1.output']!;
    const [images, length, width] = rows.shape as [number, number, number];
    expect(images).toBe(3);
    const mean = new Float64Array(width);
    rows.data.forEach((value, i) => (mean[i % width]! += value / (images * length)));
    const edit = [{ site: 'layers.1.output', texts: [2], positions: [0, 3], set: 'mean' as const }];
    const edited = (await model.encodeImage(pictures, { read, edit })).activations!['layers.1.output']!;
    const wanted = { data: Float32Array.from(mean), shape: [width] };
    for (const position of [0, 3]) expectClose(edited.at<Tensor>(2, position), wanted);
    for (const position of [1, 2]) expect(edited.at<Tensor>(2, position)).toEqual(rows.at<Tensor>(2, position));
    expect(edited.at<Tensor>(1).data).toEqual(rows.at<Tensor>(1).data);
  });

  test('are given to a map once, together', async () => {
    const seen: number[][] = [];
    const edit = [
      {
        site: 'layers.*.heads',
        texts: [0, 2],
        heads: [1],
        map: (x: Tensor) => {
          seen.push(x.shape);
          x.data.fill(0);
        },
      },
    ];
    const mapped = await model.encodeImage(pictures, { edit });
    const { shape } = (await model.encodeImage(pictures, { read: ['layers.0.heads'] })).activations!['layers.0.heads']!;
    expect(seen).toEqual(Array.from({ length: 3 }, () => [2, 1, shape[2], shape[3]]));
    const scaled = await model.encodeImage(pictures, {
      edit: [{ site: 'layers.*.heads', texts: [0, 2], heads: [1], scale: 0 }],
    });
    expect(mapped.lastHiddenState.data).toEqual(scaled.lastHiddenState.data);
    expect((await model.embedImages(pictures, { edit })).data).toEqual(
      (await model.embedImages(pictures, { edit: [{ ...edit[0]!, map: undefined!, scale: 0 }] })).data,
    );
  });
});

test('tasks pass edits on', async () => {
  using model = await heed.fromPretrained(tinyModel('bert'));
  const [text, edit] = ['the quick [MASK] fox', [{ site: 'layers.2.output', set: 0 }]];
  const scoresOf = async (options: { edit?: SiteEdit[] }) => [
    (await fillMask(model, text, options)).flat().map(({ score }) => score),
    (await classify(model, text, options)).flat().map(({ score }) => score),
    (await classifyTokens(model, text, options)).flat().map(({ score }) => score),
  ];
  const [plain, edited] = [await scoresOf({}), await scoresOf({ edit })];
  plain.forEach((scores, i) => expect(edited[i]).not.toEqual(scores));
  expect(await scoresOf({})).toEqual(plain);
});

test('“*” edits every layer, in the order of the edits', async () => {
  using model = await heed.fromPretrained(fixture('bert').folder);
  const each = [0, 1, 2].flatMap((layer) => [
    { site: `layers.${layer}.hidden`, add: 0.25, positions: [1] },
    { site: `layers.${layer}.hidden`, scale: 2, texts: [0] },
  ]);
  const all = [
    { site: 'layers.*.hidden', add: 0.25, positions: [1] },
    { site: 'layers.*.hidden', scale: 2, texts: [0] },
  ];
  const [a, b] = [await model.encode({ inputIds }, { edit: each }), await model.encode({ inputIds }, { edit: all })];
  expect(b.lastHiddenState.data).toEqual(a.lastHiddenState.data);
  const turned = await model.encode({ inputIds }, { edit: [...all].reverse() });
  expect(turned.lastHiddenState.data).not.toEqual(a.lastHiddenState.data);
});

test('where one edit is wrong, none is applied, and the tensors of edits stay as they are', async () => {
  using model = await heed.fromPretrained(fixture('bert').folder);
  let calls = 0;
  const edit = [
    { site: 'layers.0.output', map: () => void calls++ },
    { site: 'layers.2.heads', heads: [7], scale: 0 },
  ];
  await expect(model.encode({ inputIds }, { edit })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  expect(calls).toBe(0);
  const set = wave(2, 4, 24);
  const before = set.data.slice();
  await model.encode(
    { inputIds },
    {
      edit: [
        { site: 'layers.0.output', set },
        { site: 'layers.0.output', scale: 3 },
      ],
    },
  );
  expect(set.data).toEqual(before);
});

describe.each(['fp32', 'q8'] as const)('in %s', (dtype) => {
  test('threads give the bits of one thread', async () => {
    using threaded = await load({ threads: 3 });
    using one = await load();
    const folder = fixture('modernbert').folder;
    using there = await threaded.fromPretrained(folder, { dtype });
    using here = await one.fromPretrained(folder, { dtype });
    expect(threaded.info.threads).toBeGreaterThan(1);
    const many = { inputIds: Array.from({ length: 9 }, (_, n) => [5 + n, 6, 7 + n, 8].slice(0, 2 + (n % 3))) };
    const edit: SiteEdit[] = [
      { site: 'embeddings', positions: [0], add: wave(24) },
      { site: 'layers.*.heads', heads: [0], texts: [1, 8], scale: 0.5 },
      { site: 'layers.1.scores', keys: [1], set: -2 },
      { site: 'layers.1.weights', texts: [3], map: (w) => w.data.fill(0.25) },
      { site: 'layers.2.output', set: 'mean', texts: [3] },
    ];
    const read = ['embeddings', ...siteNames.map((site) => `layers.*.${site}`), 'output'];
    const [a, b] = [await here.encode(many, { edit, read }), await there.encode(many, { edit, read })];
    expect(b.lastHiddenState.data).toEqual(a.lastHiddenState.data);
    for (const [name, { data }] of Object.entries(a.activations!)) expect(b.activations![name]!.data).toEqual(data);
    expect((await there.embed(many, { edit })).data).toEqual((await here.embed(many, { edit })).data);
  });
});
