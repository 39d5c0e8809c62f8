/** Reading and editing sites on a GPU, compared with hooks on the reference models, in all kinds of calls. */
import { expect, test } from 'vitest';
import { expectClose, type SiteCase, siteFixtures } from '../models/fixtures.js';
import { everything, useGpuSite } from './site.js';

const { cases, expected: golden } = siteFixtures();
const folders = [...new Set(cases.map(({ folder }) => folder))];

const site = useGpuSite();

declare const heed: typeof import('heed');

/** A tensor that can leave the page. */
type Plain = { data: number[]; shape: number[] };
const tensor = ({ data, shape }: Plain) => ({ data: Float32Array.from(data), shape });

const isOfMatrix = ({ edit }: SiteCase) => edit.some(({ site }) => /\.(scores|weights)$/.test(site));

test.each(everything ? folders : ['bert', 'clip'])(
  "%s: PyTorch's values of sites, with and without edits",
  async (folder) => {
    const own = cases.map((each, n) => ({ ...each, n })).filter((each) => each.folder === folder);
    const out = await site.page.evaluate(
      async ([folder, cases]) => {
        const plain = ({ data, shape }: { data: ArrayLike<number>; shape: readonly number[] }): Plain => ({
          data: Array.from(data),
          shape: [...shape],
        });
        const runtime = await heed.load();
        const model = await runtime.fromPretrained(`/models/${folder}`, { device: 'webgpu' });
        const results: {
          n: number;
          last?: Plain;
          activations?: Record<string, Plain>;
          same?: boolean;
          error?: string;
        }[] = [];
        for (const { n, input, pixels, read, edit } of cases) {
          const options = { read, edit: edit as never, outputHiddenStates: true, outputAttentions: true };
          try {
            const { lastHiddenState, activations, hiddenStates, attentions } = pixels
              ? await model.encodeImage({ data: Float32Array.from(pixels), shape: [1, 3, 20, 20] }, options)
              : await model.encode(input!, options);
            // Other results that contain sites contain the edited values.
            const same = read.every((name) => {
              const [, layer, site] = name.split('.');
              const other =
                site === 'weights' ? attentions![Number(layer)]! : name === 'layers.0.input' ? hiddenStates![0]! : null;
              return !other || other.data.every((value, i) => value === activations![name]!.data[i]);
            });
            const plainOnes = Object.entries(activations!).map(([name, values]) => [name, plain(values)] as const);
            results.push({ n, last: plain(lastHiddenState), activations: Object.fromEntries(plainOnes), same });
          } catch (error) {
            results.push({ n, error: `${(error as { code?: string }).code}: ${(error as Error).message}` });
          }
        }
        runtime.dispose();
        return results;
      },
      [folder, own] as const,
    );
    expect(out.length).toBeGreaterThan(5);
    for (const { n, last, activations, same, error } of out) {
      const what = `case ${n}`;
      if (isOfMatrix(cases[n]!)) {
        expect(error, what).toMatch(/^UNSUPPORTED: edit: 'scores' and 'weights' cannot be edited on a GPU/);
        continue;
      }
      expect(error, what).toBeUndefined();
      expect(same, what).toBe(true);
      expectClose(tensor(last!), golden.get(`${n}.output`), `${what}: last hidden state`);
      for (const name of cases[n]!.read)
        expectClose(tensor(activations![name]!), golden.get(`${n}.${name}`), `${what}: ${name}`);
    }
  },
);

test('reading changes no bit and needs no submission of its own; edits leave nothing behind', async () => {
  const out = await site.page.evaluate(async () => {
    const scope = globalThis as unknown as { GPUQueue: { prototype: { submit(commands: object[]): void } } };
    const { prototype } = scope.GPUQueue;
    const { submit } = prototype;
    let submissions = 0;
    prototype.submit = function (commands) {
      submissions++;
      submit.call(this, commands);
    };
    const counted = async <T>(run: Promise<T>): Promise<[T, number]> => {
      submissions = 0;
      return [await run, submissions];
    };
    const runtime = await heed.load();
    const core = await runtime.fromPretrained('/models/bert');
    const model = await runtime.fromPretrained('/models/bert', { device: 'webgpu' });
    const texts = {
      inputIds: [
        [5, 6, 7, 8],
        [9, 10],
      ],
    };
    const equal = (a: { data: ArrayLike<number> }, b: { data: ArrayLike<number> }) =>
      a.data.length === b.data.length && Array.from(a.data).every((value, i) => value === b.data[i]);
    const far = (a: { data: ArrayLike<number> }, b: { data: ArrayLike<number> }) =>
      Math.max(...Array.from(a.data, (value, i) => Math.abs(value - b.data[i]!)));
    const inner = ['queries', 'keys', 'values', 'heads', 'attention', 'hidden', 'feedForward', 'output'];
    const read = [
      'embeddings',
      'output',
      ...['input', 'scores', 'weights', ...inner].map((site) => `layers.*.${site}`),
    ];

    const [{ lastHiddenState: plain }] = await counted(model.encode(texts));
    const [all, readSubmissions] = await counted(model.encode(texts, { read, outputProjections: true }));
    const activations = all.activations!;
    const set = Object.entries(activations)
      .filter(([site]) => !/scores|weights/.test(site))
      .map(([site, set]) => ({ site, set }));
    const headMask = [
      [1, 1, 1],
      [0, 1, 0],
      [1, 1, 1],
    ];
    const noHeads = [{ site: 'layers.1.heads', heads: [0, 2], scale: 0 }];
    const [ablated, editSubmissions] = await counted(model.encode(texts, { edit: noHeads }));

    const shapes: number[][] = [];
    let padding = 0;
    const doubled = {
      site: 'layers.*.output',
      positions: [0, 3],
      map: (x: { data: Float32Array; shape: number[] }) => {
        shapes.push(x.shape);
        padding = Math.max(padding, ...x.data.subarray(x.data.length - 24).map(Math.abs)); // the second text has no position 3
        x.data.forEach((value, i) => (x.data[i] = 2 * value));
      },
    };
    const mapped = await model.encode(texts, { edit: [doubled as never] });
    const thrown = await model
      .encode(texts, {
        edit: [
          {
            site: 'layers.1.hidden',
            map: () => {
              throw new Error('on purpose');
            },
          },
        ],
      })
      .catch((error) => `${error.code}: ${error.message}`);

    const edit = [
      { site: 'layers.*.attention', set: 'mean' as const, texts: [1] },
      { site: 'layers.0.values', positions: [1], add: 0.5 },
      { site: 'layers.2.feedForward', scale: -1 },
    ];
    const pictures = { data: Float32Array.from({ length: 2 * 1200 }, (_, i) => Math.sin(i)), shape: [2, 3, 20, 20] };
    const images = await runtime.fromPretrained('/models/clip', { device: 'webgpu' });
    const imagesOnCore = await runtime.fromPretrained('/models/clip');
    const result = {
      types: [model.device.type, core.device.type, images.device.type],
      readChangesNothing: equal(all.lastHiddenState, plain),
      readSubmissions,
      sites: Object.keys(activations).length,
      projections: all.projections!.queries.every((each, i) => equal(each, activations[`layers.${i}.queries`]!)),
      setChangesNothing: equal((await model.encode(texts, { edit: set })).lastHiddenState, plain),
      ablated: equal(ablated.lastHiddenState, (await model.encode(texts, { headMask })).lastHiddenState),
      differs: far(ablated.lastHiddenState, plain),
      editSubmissions,
      shapes,
      padding,
      mapped: far(mapped.lastHiddenState, (await core.encode(texts, { edit: [doubled as never] })).lastHiddenState),
      thrown,
      vectors: far(await model.embed(texts, { edit }), await core.embed(texts, { edit })),
      vectorsDiffer: far(await model.embed(texts, { edit }), await model.embed(texts)),
      logits: far(
        (await model.predict('token-classification', texts, { edit })).logits,
        (await core.predict('token-classification', texts, { edit })).logits,
      ),
      ofImages: far(await images.embedImages(pictures, { edit }), await imagesOnCore.embedImages(pictures, { edit })),
      afterwards: equal((await model.encode(texts)).lastHiddenState, plain),
    };
    runtime.dispose();
    prototype.submit = submit;
    return result;
  });
  expect(out).toMatchObject({
    types: ['webgpu', 'wasm', 'webgpu'],
    readChangesNothing: true,
    readSubmissions: 1,
    sites: 2 + 3 * 11,
    projections: true,
    setChangesNothing: true,
    ablated: true,
    editSubmissions: 2,
    padding: 0,
    afterwards: true,
  });
  expect(out.shapes).toEqual(Array.from({ length: 6 }, () => [2, 2, 24])); // from both models
  expect(out.thrown).toMatch(/^INVALID_ARGUMENT: encode.edit\[0\].map: threw .*on purpose/);
  for (const difference of [out.differs, out.vectorsDiffer]) expect(difference).toBeGreaterThan(1e-3);
  for (const difference of [out.mapped, out.vectors, out.logits, out.ofImages]) expect(difference).toBeLessThan(1e-4);
});
