// Bundlers and frameworks that the repository does not use itself: each builds a tiny app from the packed tarball, which
// then runs in Chromium. bundlers/ is a separate npm package that contains them; tools/test.mjs installs it.
import { spawn } from 'node:child_process';
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

test('the Next.js example: a route that searches on the server', async () => {
  const folder = install('next-route', undefined, join(bundlers, 'apps'));
  fs.cpSync(join(root, 'examples/next'), folder, { recursive: true });
  fs.writeFileSync(join(folder, 'jsconfig.json'), '{ "compilerOptions": {} }'); // instead of the repository's tsconfig.json
  const next = require.resolve('next/dist/bin/next');
  const env = { NEXT_TELEMETRY_DISABLED: '1', CI: '1' };
  await runNode([next, 'build'], { cwd: folder, env });
  const server = spawn(process.execPath, [next, 'start', '--port', '0', '--hostname', '127.0.0.1'], {
    cwd: folder,
    env: { ...process.env, ...env, NODE_ENV: 'production' },
  });
  try {
    let said = '';
    const address = await new Promise<string>((resolve, reject) => {
      server.once('exit', () => reject(new Error(said)));
      for (const stream of [server.stdout, server.stderr])
        stream.on('data', (bytes: Buffer) => {
          said += bytes;
          const found = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
          if (found && /Ready/.test(said)) resolve(found);
        });
    });
    const get = async (query: string) => {
      const response = await fetch(`${address}/api/search?q=${encodeURIComponent(query)}`);
      return { status: response.status, body: await response.json() };
    };
    const { status, body } = await get('preparing a meal');
    expect(status).toBe(200);
    expect(body.hits).toHaveLength(3);
    expect(body.hits[0].text).toContain('onions');
    expect(await get('')).toEqual({ status: 400, body: { error: 'q is missing' } });
    expect((await get('a '.repeat(300))).status).toBe(413);
  } finally {
    server.removeAllListeners('exit');
    server.kill();
  }
});
