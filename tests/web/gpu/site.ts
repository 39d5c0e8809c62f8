/** A page with heed in a Chromium whose GPU is SwiftShader, which computes on the processor, and the golden checkpoints. */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'vitest';
import { chromiumArguments } from '../../../tools/chromium.mjs';
import { fixtures } from '../models/fixtures.js';
import { openSite, type Site } from '../models/site.js';

/** The software adapter takes seconds to compile a kernel: by default, a part of the checkpoints and of the faults is tested. */
export const everything = process.env.HEED_TEST_GPU === 'all';

/** Of a Chromium with SwiftShader. */
export const gpuArguments = [
  ...chromiumArguments.filter((argument) => argument !== '--disable-gpu'),
  '--enable-unsafe-webgpu',
  '--use-webgpu-adapter=swiftshader',
];

export interface GpuSite extends Site {
  /** Skips a test where Chromium offers no adapter. */
  require(context: TestContext): void;
}

export async function openGpuSite(): Promise<GpuSite> {
  const site = await openSite(
    (path, _, response) => {
      const file = join(fixtures, path);
      const isThere = statSync(file, { throwIfNoEntry: false })?.isFile();
      if (isThere) response.writeHead(200, { 'content-length': statSync(file).size }).end(readFileSync(file));
      return isThere ?? false;
    },
    { chromiumArguments: gpuArguments },
  );
  const hasAdapter = await site.page.evaluate(
    async () => !!(await (navigator as unknown as { gpu?: { requestAdapter(): unknown } }).gpu?.requestAdapter()),
  );
  const require = (context: TestContext) => context.skip(!hasAdapter, 'Chromium offers no WebGPU adapter');
  return { ...site, require };
}
