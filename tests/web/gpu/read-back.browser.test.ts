/** What a call waits for when it reads results back from the GPU. */
import { beforeAll, expect, test } from 'vitest';
import { encoderFiles } from '../../../bench/random-encoder.mjs';
import { type Any, useGpuSite } from './site.js';

const site = useGpuSite();
beforeAll(async () => {
  const { files } = encoderFiles(2, 40, { width: 12, heads: 2, positions: 20 });
  const plain = Object.entries(files).map(([name, bytes]) => [name, Array.from(bytes)] as const);
  await site.page.evaluate((plain) => {
    const small = Object.fromEntries(plain.map(([name, bytes]) => [name, Uint8Array.from(bytes)]));
    Object.assign(globalThis, { small });
  }, plain);
});

declare const heed: typeof import('heed');
declare const gpuWith: (change: (device: Any) => void, more?: object) => Any;
declare const small: Record<string, Uint8Array>;

test('a call waits for no timers and no frames, which pages that are hidden get rarely', async () => {
  const out = await site.page.evaluate(async () => {
    const runtime = await heed.load();
    const model = await runtime.fromPretrained(small, { device: 'webgpu' });
    const input = { inputIds: [[5, 6, 7], [8]] };
    const expected = await model.embed(input);
    const real = { setTimeout, setInterval, requestAnimationFrame };
    let asked = 0;
    const never = () => void asked++;
    Object.assign(globalThis, { setTimeout: never, setInterval: never, requestAnimationFrame: never });
    const { data } = await model.embed(input);
    const isSame = data.every((value, i) => value === expected.data[i]);
    Object.assign(globalThis, real);
    runtime.dispose();
    return { isSame, asked };
  });
  expect(out).toEqual({ isSame: true, asked: 0 });
});

test("Firefox's slow mapping is hurried by empty submissions, other browsers' is not", async () => {
  const out = await site.page.evaluate(async () => {
    const counts = { empty: 0, timers: 0, maps: 0 };
    let needed = 0;
    const gpu = gpuWith((device) => {
      const { queue } = device;
      const submit = queue.submit.bind(queue);
      let wake = () => {};
      queue.submit = (commands: object[]) => {
        submit(commands);
        if (commands.length > 0) return;
        counts.empty++;
        wake();
      };
      const create = device.createBuffer.bind(device);
      device.createBuffer = (options: object) => {
        const buffer = create(options);
        const map = buffer.mapAsync.bind(buffer);
        buffer.mapAsync = async (...range: unknown[]) => {
          counts.maps++;
          // As in Firefox, waits until something is submitted.
          for (const end = counts.empty + needed; counts.empty < end; )
            await new Promise<void>((resolve) => (wake = resolve));
          return map(...range);
        };
        return buffer;
      };
    });
    const real = { setInterval: setInterval.bind(globalThis), clearInterval: clearInterval.bind(globalThis) };
    Object.assign(globalThis, {
      setInterval: (...timer: [Any]) => {
        counts.timers++;
        return real.setInterval(...timer);
      },
      clearInterval: (id: number) => {
        counts.timers--;
        real.clearInterval(id);
      },
    });
    const runtime = await heed.load({ gpu });
    const call = async (userAgent: string) => {
      Object.defineProperty(navigator, 'userAgent', { value: userAgent, configurable: true });
      Object.assign(counts, { empty: 0, maps: 0 });
      const model = await runtime.fromPretrained(small, { device: 'webgpu' });
      await model.embed({ inputIds: [[5, 6, 7], [8]] });
      return { ...counts };
    };
    const { userAgent } = navigator;
    const chromium = await call(userAgent);
    needed = 2;
    const firefox = await call('Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0');
    Object.assign(globalThis, real);
    Object.defineProperty(navigator, 'userAgent', { value: userAgent, configurable: true });
    runtime.dispose();
    return { chromium, firefox };
  });
  expect(out.chromium).toMatchObject({ empty: 0, timers: 0 });
  expect(out.chromium.maps).toBeGreaterThan(0);
  expect(out.firefox.empty).toBeGreaterThanOrEqual(2 * out.firefox.maps);
  expect(out.firefox.timers).toBe(0); // all timers have been cleared
});
