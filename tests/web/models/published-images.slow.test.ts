/** Image checkpoints with the published names, shapes and widths. */
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { imageFilesOf, PUBLISHED_IMAGES } from './published-images.js';
import { withOtherSettings } from './published-settings.js';

describe.each(Object.entries(PUBLISHED_IMAGES))('%s', (name, model) => {
  test('has the published number of parameters', () => {
    const shapes = Object.values(model.shapes(model));
    const count = shapes.reduce((sum, shape) => sum + shape.reduce((a, b) => a * b, 1), 0);
    expect(Math.round(count / 1000)).toBe(model.thousands);
  });

  test('loads with every tensor used, and int8 gives nearly the same vectors', async () => {
    const files = withOtherSettings(name, imageFilesOf(model, 2, 64));
    const images = [0, 1, 2].map((n) => ({
      width: 60 + 20 * n,
      height: 64,
      data: Uint8ClampedArray.from(
        { length: 3 * (60 + 20 * n) * 64 },
        (_, i) => 128 + 100 * Math.sin(i * (n + 1) * 0.013),
      ),
    }));
    const inputIds = [
      [5, 6, 7, 63],
      [9, 63],
    ];
    const heed = await load();
    const vectors = [];
    for (const dtype of ['fp32', 'q8'] as const) {
      using encoder = await heed.fromPretrained(files, { dtype });
      expect(encoder.config.unusedTensors.sort()).toEqual(model.unused);
      expect(encoder.config.unread).toEqual([]);
      const outputs = [await encoder.embedImages(images, { normalize: true })];
      expect(encoder.dimensions).toBe(outputs[0]!.shape[1]);
      if (model.vocab > 0) outputs.push(await encoder.embed({ inputIds }, { normalize: true }));
      vectors.push(outputs);
    }
    for (const [i, exact] of vectors[0]!.entries()) {
      const { data } = vectors[1]![i]!;
      expect(exact.data.every(Number.isFinite)).toBe(true);
      const mean = data.reduce((sum, value, k) => sum + value * exact.data[k]!, 0) / exact.shape[0]!;
      expect(mean).toBeGreaterThan(0.999);
    }
  });
});
