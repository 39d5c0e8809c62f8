/** A cached model in a page, for cache.browser.test.ts. */
import type { LoadProgress } from 'heed';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { fixture } from './fixtures.js';

const { input, expected } = fixture('bert');

/** The model's vectors, or the code and message of the error. */
export function embedCached(
  page: Page,
  options: object = {},
): Promise<{ vectors?: number[]; code?: string; message?: string }> {
  return page.evaluate(
    async ({ input, options }) => {
      const { load } = (globalThis as unknown as { heed: typeof import('heed') }).heed;
      const heed = await load();
      try {
        const { onWeights } = globalThis as unknown as { onWeights(loaded: number): void };
        const onProgress = ({ file }: LoadProgress) => file.name.endsWith('model.safetensors') && onWeights(file.done);
        const model = await heed.fromPretrained('/models/bert', { cache: true, onProgress, ...options });
        const { data } = await model.embed(input, { pooling: 'mean', normalize: true });
        model.dispose();
        return { vectors: [...data] };
      } catch (error) {
        const { code, message } = error as { code: string; message: string };
        return { code, message };
      }
    },
    { input, options },
  );
}

/** The paths of the files in the cache, with their sizes. */
export const cachedFiles = (page: Page): Promise<Record<string, number>> =>
  page.evaluate(async () => {
    const paths: [string, number][] = [];
    for (const name of await caches.keys()) {
      const cache = await caches.open(name);
      for (const request of await cache.keys()) {
        const body = await (await cache.match(request))!.arrayBuffer();
        // The other entry is the folder's record.
        if (body.byteLength > 0) paths.push([new URL(request.url).pathname, body.byteLength]);
      }
    }
    return Object.fromEntries(paths);
  });

export function expectRight({ vectors, message }: { vectors?: number[]; message?: string }): void {
  expect(message).toBeUndefined();
  expected.get('mean')!.data.forEach((value, i) => {
    expect(Math.abs(vectors![i]! - value)).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(value));
  });
}
