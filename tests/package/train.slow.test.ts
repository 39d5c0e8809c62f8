// heed/train from the installed package: its files, Node with ES modules and CommonJS, an example, and two bundlers.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { build as esbuild } from 'esbuild';
import type { Browser } from 'playwright-core';
import { build as viteBuild } from 'vite';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { launchChromium } from '../../tools/chromium.mjs';
import { apps, copyRuntime, install, root, runNode } from './installed.js';
import { serve } from './serve.js';

const learned = { learned: true, finite: true, inWorker: true, onWorkers: true, error: 'INVALID_ARGUMENT' };

function installed(name: string): string {
  const folder = install(name);
  fs.copyFileSync(join(apps, 'smoke-train.js'), join(folder, 'smoke-train.mjs'));
  return folder;
}

test('its files are in the tarball, and the manifest exports it', () => {
  const names = inject('packed').files.map(({ path }) => path);
  const needed = ['train.js', 'train-worker.js', 'heed-train-simd128.wasm', 'heed-train-relaxed-simd.wasm'];
  expect(names).toEqual(expect.arrayContaining([...needed, 'types/train.d.ts'].map((name) => `dist/${name}`)));
});

describe('in Node', () => {
  let folder: string;
  beforeAll(() => {
    folder = installed('train-node');
    const use = (heed: string) => `
      const heed = ${heed};
      import('./smoke-train.mjs').then(async ({ smokeTrain }) => console.log(JSON.stringify(await smokeTrain(heed))));`;
    fs.writeFileSync(join(folder, 'esm.mjs'), use("await import('heed/train')"));
    fs.writeFileSync(join(folder, 'common.cjs'), `(async () => {${use("await import('heed/train')")}})();`);
    fs.writeFileSync(join(folder, 'require.cjs'), use("require('heed/train')"));
  });

  const [major, minor] = process.versions.node.split('.').map(Number) as [number, number];
  const supportsRequire = major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19);
  test.each(['esm.mjs', 'common.cjs', ...(supportsRequire ? ['require.cjs'] : [])])('%s', async (name) => {
    expect(JSON.parse(await runNode(['--no-warnings', name], { cwd: folder }))).toEqual(learned);
  });

  test('an example', async () => {
    fs.cpSync(join(root, 'examples'), join(folder, 'examples'), { recursive: true });
    const printed = await runNode(['--no-warnings', 'examples/train-claims.mjs'], { cwd: folder });
    expect(printed).toMatch(/^feature tokens, encoder +[\d.]+$/m);
  });
});

describe('in Chromium', () => {
  let browser: Browser;
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());

  /** A folder with an entry point and a page for it. */
  function app(name: string): string {
    const folder = installed(name);
    const main = `import * as heed from 'heed/train'; import { smokeTrain } from './smoke-train.mjs';
      globalThis.smokeResult = smokeTrain(heed).catch((error) => String(error?.stack));`;
    fs.writeFileSync(join(folder, 'main.js'), main);
    fs.copyFileSync(join(apps, 'vite/index.html'), join(folder, 'index.html'));
    return folder;
  }

  async function check(folder: string) {
    await using server = await serve(folder, { base: '/some/where/' });
    const page = await browser.newPage();
    await page.goto(server.url);
    await page.waitForFunction(() => 'smokeResult' in globalThis);
    const result = page.evaluate(() => (globalThis as unknown as { smokeResult: Promise<unknown> }).smokeResult);
    expect(await result).toEqual(learned);
    expect(server.missing).toEqual([]);
  }

  test('bundled by esbuild', async () => {
    const folder = app('train-esbuild');
    const outdir = join(folder, 'out');
    await esbuild({ entryPoints: [join(folder, 'main.js')], outdir, bundle: true, format: 'esm', minify: true });
    copyRuntime(folder, outdir);
    fs.copyFileSync(join(folder, 'index.html'), join(outdir, 'index.html'));
    await check(outdir);
  });

  test('bundled by Vite', async () => {
    const folder = app('train-vite');
    const options = { root: folder, configFile: false, base: '/some/where/', logLevel: 'error' } as const;
    await viteBuild({ ...options, build: { outDir: 'out' } });
    await check(join(folder, 'out'));
  });
});
