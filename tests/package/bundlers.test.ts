// Bundlers and frameworks that the repository does not use itself: each builds a tiny app from the packed tarball, which
// then runs in Chromium. bundlers/ is a separate npm package that contains them; tools/test.mjs installs it.
import * as fs from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchChromium } from '../../tools/chromium.mjs';
import { copyRuntime, install, root, runNode } from './installed.js';
import { checkPage, expectedResult, type Smoke } from './page.js';
import { serve } from './serve.js';

const bundlers = join(root, 'tests/package/bundlers');
const require = createRequire(join(bundlers, 'package.json'));

let browser: Browser;
let expected: Smoke;
beforeAll(async () => {
  [browser, expected] = await Promise.all([launchChromium(), expectedResult()]);
});
afterAll(() => browser?.close());

// Inside bundlers/, so that the apps can resolve the frameworks.
const installApp = (name: string) => install(name, name, join(bundlers, 'apps'));

async function check(folder: string, base = '/') {
  await using server = await serve(folder, { base });
  await checkPage(browser, server.url, expected);
  expect(server.missing).toEqual([]);
}

test('webpack, no configuration', async () => {
  const folder = installApp('webpack');
  const { default: webpack } = await import(require.resolve('webpack'));
  const out = join(folder, 'out');
  await new Promise<void>((resolve, reject) => {
    const options = { mode: 'production', context: folder, entry: './main.js', output: { path: out } };
    webpack(options, (error: Error | null, stats: { hasErrors(): boolean; toString(): string }) => {
      if (error || stats.hasErrors()) reject(error ?? new Error(stats.toString()));
      else resolve();
    });
  });
  fs.copyFileSync(join(folder, 'index.html'), join(out, 'index.html'));
  await check(out, '/some/where/');
});

test('Rollup, with its node-resolve plugin', async () => {
  const folder = installApp('rollup');
  const { rollup } = await import(require.resolve('rollup'));
  const { nodeResolve } = await import(require.resolve('@rollup/plugin-node-resolve'));
  const bundle = await rollup({ input: join(folder, 'main.js'), plugins: [nodeResolve({ browser: true })] });
  const out = join(folder, 'out');
  await bundle.write({ dir: out, format: 'es' });
  copyRuntime(folder, out);
  fs.copyFileSync(join(folder, 'index.html'), join(out, 'index.html'));
  await check(out, '/some/where/');
});

test('Parcel, no configuration', async () => {
  const folder = installApp('parcel');
  const parcel = require.resolve('parcel/lib/bin.js');
  await runNode(
    [parcel, 'build', 'index.html', '--dist-dir', 'out', '--public-url', './', '--no-cache', '--no-autoinstall'],
    {
      cwd: folder,
    },
  );
  await check(join(folder, 'out'), '/some/where/');
});

test.each([
  ['Turbopack', '--turbopack'],
  ['webpack', '--webpack'],
])('Next.js, a client component, %s', async (_, flag) => {
  const folder = installApp('next');
  const next = require.resolve('next/dist/bin/next');
  await runNode([next, 'build', flag], { cwd: folder, env: { NEXT_TELEMETRY_DISABLED: '1', CI: '1' } });
  await check(join(folder, 'out'));
});
