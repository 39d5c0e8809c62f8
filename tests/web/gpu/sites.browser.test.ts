/** Reading and editing sites on a GPU: what hooks on the reference models give, and the ways in which calls run. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { expectClose, fixtures, readSafetensors } from '../models/fixtures.js';
import { everything, type GpuSite, openGpuSite } from './site.js';

interface Case {
  folder: string;
  input?: { inputIds: number[][]; attentionMask: number[][] };
  pixels?: number[];
  read: string[];
  edit: { site: string }[];
}

const cases = JSON.parse(readFileSync(join(fixtures, 'sites.json'), 'utf8')) as Case[];
const golden = readSafetensors(join(fixtures, 'sites.safetensors'));
const folders = [...new Set(cases.map(({ folder }) => folder))];

let site: GpuSite;
beforeAll(async () => {
  site = await openGpuSite();
});
beforeEach((context) => site.require(context));
afterAll(() => site?.close());

declare const heed: typeof import('heed');

/** A tensor that can leave the page. */
type Plain = { data: number[]; shape: number[] };
const tensor = ({ data, shape }: Plain) => ({ data: Float32Array.from(data), shape });

const isOfMatrix = ({ edit }: Case) => edit.some(({ site }) => /\.(scores|weights)$/.test(site));

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
            // What else shows sites shows them edited.
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
        expect(error, what).toMatch(/^UNSUPPORTED: edit: expected other sites on a GPU, got 'scores' or 'weights'/);
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
