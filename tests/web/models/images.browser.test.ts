/** Images in browsers' formats, in a page and in its worker, compared with pixels in Node. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { classifyImages, load } from 'heed';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fixture, fixtures } from './fixtures.js';
import { openSite, type Site } from './site.js';

let site: Site;
beforeAll(async () => {
  site = await openSite(
    (path, _, response) => {
      const file = join(fixtures, path);
      const isFile = statSync(file, { throwIfNoEntry: false })?.isFile();
      if (isFile) response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(readFileSync(file));
      return isFile === true;
    },
    { policy: "default-src 'self' blob:; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'" },
  );
});
afterAll(() => site.close());

const [width, height] = [31, 22];
const pixels = Array.from({ length: 4 * width * height }, (_, i) => (i % 4 === 3 ? 255 : (i * 37 + (i >> 5)) % 256));

test.each([false, true])(
  'Blobs and what a canvas draws give the vectors of their pixels (worker: %s)',
  async (worker) => {
    const heed = await load();
    using model = await heed.fromPretrained(fixture('siglip').folder);
    const expected = [...(await model.embedImages({ data: Uint8ClampedArray.from(pixels), width, height })).data];
    const found = await site.page.evaluate(
      async ({ pixels, width, height, worker }) => {
        const heed = await (globalThis as unknown as { heed: typeof import('heed') }).heed.load({ build: 'simd128' });
        const model = await heed.fromPretrained('/models/siglip', { worker });
        const data = new ImageData(Uint8ClampedArray.from(pixels), width, height);
        const canvas = document.createElement('canvas');
        Object.assign(canvas, { width, height });
        canvas.getContext('2d')!.putImageData(data, 0, 0);
        const offscreen = new OffscreenCanvas(width, height);
        offscreen.getContext('2d')!.putImageData(data, 0, 0);
        const blob = await offscreen.convertToBlob({ type: 'image/png' });
        const img = new Image();
        img.src = URL.createObjectURL(blob);
        await img.decode();
        const all = [data, canvas, offscreen, blob, new File([blob], 'a.png'), img, await createImageBitmap(data)];
        const vectors = await model.embedImages(all);
        const messages = [];
        const bad = [new Blob(['no image'], { type: 'image/png' }), new Blob([]), new Uint8Array(4)];
        for (const each of bad)
          messages.push(await model.embedImages([blob, each as Blob]).catch((error: Error) => error.message));
        model.dispose();
        return { shape: vectors.shape, data: [...vectors.data], messages };
      },
      { pixels, width, height, worker },
    );
    expect(found.shape).toEqual([7, 24]);
    for (const [i, value] of found.data.entries()) expect(value).toBeCloseTo(expected[i % 24]!, 4);
    expect(found.messages[0]).toMatch(
      /^images\[1\]: expected an image that this browser can decode, got a Blob of type 'image\/png'/,
    );
    expect(found.messages[1]).toBe('images[1]: expected an encoded image, got an empty Blob');
    expect(found.messages[2]).toMatch(/^images\[1\]: .* new Blob\(\[bytes\]\)$/);
  },
);

test('image-classification fetches addresses of images', async () => {
  const heed = await load();
  using model = await heed.fromPretrained(fixture('vit-labels').folder);
  const expected = await classifyImages(model, { data: Uint8ClampedArray.from(pixels), width, height });
  const found = await site.page.evaluate(
    async ({ pixels, width, height }) => {
      const { pipeline } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
      const classifier = await pipeline('image-classification', '/models/vit-labels');
      const canvas = new OffscreenCanvas(width, height);
      canvas.getContext('2d')!.putImageData(new ImageData(Uint8ClampedArray.from(pixels), width, height), 0, 0);
      const address = URL.createObjectURL(await canvas.convertToBlob({ type: 'image/png' }));
      const missing = await classifier('/models/none.png').catch((error: Error) => error.message);
      const all = [await classifier(address), ...(await classifier([address, canvas]))];
      await classifier.dispose();
      return { all, missing };
    },
    { pixels, width, height },
  );
  expect(found.all).toHaveLength(3);
  for (const labels of found.all) {
    expect(labels.map(({ label }) => label)).toEqual(expected[0]!.map(({ label }) => label));
    for (const [i, { score }] of labels.entries()) expect(score).toBeCloseTo(expected[0]![i]!.score, 4);
  }
  expect(found.missing).toBe("images: expected the address of an image, got '/models/none.png' (status 404)");
});
