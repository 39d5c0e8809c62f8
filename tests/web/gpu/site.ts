/** A page with heed and the golden checkpoints in a Chromium whose GPU is SwiftShader, which computes on the CPU. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, type TestContext } from 'vitest';
import { chromiumArguments } from '../../../tools/chromium.mjs';
import { fixtures } from '../models/fixtures.js';
import { openSite, type Site } from '../models/site.js';

/**
 * By default, only some of the checkpoints and faults are tested, because the software adapter takes seconds to compile
 * a kernel.
 */
export const everything = process.env.HEED_TEST_GPU === 'all';

/** Command-line arguments for a Chromium with SwiftShader. */
export const gpuArguments = [
  ...chromiumArguments.filter((argument) => argument !== '--disable-gpu'),
  '--enable-unsafe-webgpu',
  '--use-webgpu-adapter=swiftshader',
];

// biome-ignore lint/suspicious/noExplicitAny: WebGPU's objects, whose types TypeScript's library lacks
export type Any = any;

interface GpuSite extends Site {
  /** Skips a test where Chromium offers no adapter. */
  require(context: TestContext): void;
}

async function openGpuSite(): Promise<GpuSite> {
  const site = await openSite(
    (path, _, response) => {
      const file = join(fixtures, path);
      const isThere = statSync(file, { throwIfNoEntry: false })?.isFile();
      if (isThere) response.writeHead(200, { 'content-length': statSync(file).size }).end(readFileSync(file));
      return isThere ?? false;
    },
    { chromiumArguments: gpuArguments },
  );
  // Wraps the page's GPU so that its adapter is not reported as a fallback and tests can modify its device.
  await site.page.evaluate(() => {
    const real = (navigator as unknown as { gpu?: { requestAdapter(): Promise<Any> } }).gpu!;
    Object.assign(globalThis, {
      gpuWith: (change: (device: Any) => void, more: object = {}) => ({
        async requestAdapter() {
          const { limits, info, ...rest } = await real.requestAdapter().then((adapter) => ({
            limits: { ...pick(adapter.limits), ...more },
            info: { vendor: adapter.info.vendor, isFallbackAdapter: false },
            requestDevice: (options: object) => adapter.requestDevice(options),
          }));
          return {
            limits,
            info,
            async requestDevice(options: object) {
              const device = await rest.requestDevice(options);
              change(device);
              return device;
            },
          };
        },
      }),
    });
    const pick = ({ maxBufferSize, maxStorageBufferBindingSize, maxComputeWorkgroupsPerDimension }: Any) => ({
      maxBufferSize,
      maxStorageBufferBindingSize,
      maxComputeWorkgroupsPerDimension,
    });
  });
  const hasAdapter = await site.page.evaluate(
    async () => !!(await (navigator as unknown as { gpu?: { requestAdapter(): unknown } }).gpu?.requestAdapter()),
  );
  const require = (context: TestContext) => context.skip(!hasAdapter, 'Chromium offers no WebGPU adapter');
  return { ...site, require };
}

/** The page of a file's tests, which are skipped where Chromium offers no adapter. */
export function useGpuSite(): Pick<Site, 'page'> {
  let site: GpuSite;
  beforeAll(async () => {
    site = await openGpuSite();
  });
  beforeEach((context) => site.require(context));
  afterAll(() => site?.close());
  return {
    get page() {
      return site.page;
    },
  };
}
