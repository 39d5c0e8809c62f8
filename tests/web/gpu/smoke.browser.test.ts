/**
 * One checkpoint on WebGPU's software adapter, compared with WebAssembly. `npm run test:gpu` tests all others, and
 * faults.
 */
import { expect, test } from 'vitest';
import { useGpuSite } from './site.js';

const site = useGpuSite();

declare const heed: typeof import('heed');

test("a model on the GPU gives WebAssembly's vectors, and `device` says where it runs", async () => {
  const out = await site.page.evaluate(async () => {
    const inputs = {
      inputIds: [
        [5, 6, 7, 8, 9],
        [3, 4],
      ],
    };
    const runtime = await heed.load();
    const vectors: number[][] = [];
    const devices: string[] = [];
    for (const device of ['wasm', 'webgpu'] as const) {
      const model = await runtime.fromPretrained('/models/bert', { device });
      vectors.push(Array.from((await model.embed(inputs)).data));
      devices.push(model.device.type);
    }
    runtime.dispose();
    return { devices, vectors };
  });
  expect(out.devices).toEqual(['wasm', 'webgpu']);
  const [wasm, webgpu] = out.vectors;
  webgpu!.forEach((value, i) => {
    expect(value).toBeCloseTo(wasm![i]!, 5);
  });
});
