/** Checkpoints of the newer families with the published names, shapes and widths. */
import { readFileSync } from 'node:fs';
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { PUBLISHED, shapesOf } from './published.js';
import { PUBLISHED_IMAGES } from './published-images.js';
import { withOtherSettings } from './published-settings.js';
import { filesOf } from './random-checkpoint.js';

const sum = (numbers: number[]) => numbers.reduce((a, b) => a + b, 0);
const countOf = (shapes: Record<string, number[]>) =>
  sum(Object.values(shapes).map((shape) => shape.reduce((a, b) => a * b, 1)));

test('docs/checkpoints.md lists them all, with their parameters', () => {
  const page = readFileSync(new URL('../../../docs/checkpoints.md', import.meta.url), 'utf8');
  const all = [
    ...Object.entries(PUBLISHED).map(([name, model]) => [name, model.config.model_type, countOf(shapesOf(model))]),
    ...Object.entries(PUBLISHED_IMAGES).map(([name, model]) => [
      name,
      model.config.model_type,
      countOf(model.shapes(model)),
    ]),
  ] as [string, string, number][];
  const rows = [...page.matchAll(/^\| (\S+) \| `(\S+)` \| ([\d,]+) \|/gm)].map(([, name, type, count]) => [
    name,
    type,
    Number(count!.replaceAll(',', '')),
  ]);
  expect(rows).toEqual(all);
});

describe.each(Object.entries(PUBLISHED))('%s', (name, model) => {
  test('has the published number of parameters', () => {
    expect(Math.round(countOf(shapesOf(model)) / 1e6)).toBe(model.millions);
  });

  test('loads with every tensor used, and int8 gives nearly the same vectors', async () => {
    const [layers, vocab] = [2, 64];
    const files = withOtherSettings(name, filesOf(model, layers, vocab));
    const heed = await load();
    const inputIds = [6, 24, 60].map((length, n) => Array.from({ length }, (_, i) => (7 * i * i + 13 * n) % vocab));
    const vectors = [];
    for (const dtype of ['fp32', 'q8'] as const) {
      using encoder = await heed.fromPretrained(files, { dtype });
      expect(encoder.config.unusedTensors).toEqual([]);
      expect(encoder.config.unread).toEqual([]);
      expect(encoder.config.parameterCount).toBe(countOf(shapesOf(model, { layers, vocab })));
      vectors.push(await encoder.embed({ inputIds }, { pooling: 'mean', normalize: true }));
    }
    const [exact, int8] = vectors.map(({ data }) => data) as [Float32Array, Float32Array];
    expect(exact.every(Number.isFinite)).toBe(true);
    const cosines = inputIds.map((_, n) =>
      sum([...exact.subarray(n * model.width, (n + 1) * model.width)].map((v, i) => v * int8[n * model.width + i]!)),
    );
    expect(sum(cosines) / cosines.length).toBeGreaterThan(0.999);
  });
});
