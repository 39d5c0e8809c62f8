// Bundlers and Next.js, which the repository does not use itself: each builds a tiny app from the packed tarball, which
// then runs in Chromium; frameworks.test.ts has other frameworks. bundlers/ and next-15/ are separate npm packages that contain them; tools/test.mjs installs them.
import * as fs from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launchChromium } from '../../tools/chromium.mjs';
import { copyRuntime, install, root, runNode } from './installed.js';
import { checkPage, checkResult } from './page.js';
import { serve } from './serve.js';
import { withServer } from './started.js';

const bundlers = join(root, 'tests/package/bundlers');
const require = createRequire(join(bundlers, 'package.json'));

let browser: Browser;
beforeAll(async () => {
  browser = await launchChromium();
});
afterAll(() => browser?.close());

/** Copies an app to a folder inside bundlers/, so that it can resolve the frameworks. */
const installApp = (app: string, name = app) => install(name, app, join(bundlers, 'apps'));

/** Makes an app's script wait for its report, outside of functions. */
function awaitAtTopLevel(folder: string, options = ''): void {
  const main = fs.readFileSync(join(folder, 'main.js'), 'utf8');
  fs.writeFileSync(join(folder, 'main.js'), main.replace('report(heed);', `await report(heed${options});`));
}

async function check(folder: string, base = '/', options = {}) {
  await using server = await serve(folder, { base });
  await checkPage(browser, server.url, options);
  expect(server.missing).toEqual([]);
}

async function bundleByWebpack(folder: string): Promise<string> {
  const { default: webpack } = await import(require.resolve('webpack'));
  const out = join(folder, 'out');
  await new Promise<void>((resolve, reject) => {
    const options = { mode: 'production', context: folder, entry: './main.js', output: { path: out } };
    webpack(options, (error: Error | null, stats: { hasErrors(): boolean; toString(): string }) => {
      if (error || stats.hasErrors()) reject(error ?? new Error(stats.toString()));
      else resolve();
    });
  });
  const page = fs.readFileSync(join(folder, 'index.html'), 'utf8');
  fs.writeFileSync(join(out, 'index.html'), page.replace('type="module" ', '')); // webpack writes classic scripts
  return out;
}

async function bundleByRollup(folder: string): Promise<string> {
  const { rollup } = await import(require.resolve('rollup'));
  const { nodeResolve } = await import(require.resolve('@rollup/plugin-node-resolve'));
  const bundle = await rollup({ input: join(folder, 'main.js'), plugins: [nodeResolve({ browser: true })] });
  const out = join(folder, 'out');
  await bundle.write({ dir: out, format: 'es' });
  fs.copyFileSync(join(folder, 'index.html'), join(out, 'index.html'));
  return out;
}

/** `flags`: `--no-scope-hoist` for pages with workers. Otherwise, Parcel 2.16 leaves a module out of the scripts of workers that share it with others. */
async function bundleByParcel(folder: string, flags = ['--no-scope-hoist']): Promise<string> {
  const parcel = require.resolve('parcel/lib/bin.js');
  const options = ['--dist-dir', 'out', '--public-url', './', '--no-cache', '--no-autoinstall'];
  await runNode([parcel, 'build', 'index.html', ...options, ...flags], { cwd: folder });
  return join(folder, 'out');
}

describe('webpack, no configuration', () => {
  test('a page', async () => check(await bundleByWebpack(installApp('webpack')), '/some/where/'));

  test("a worker of the page's own", async () =>
    check(await bundleByWebpack(installApp('own-worker', 'webpack-own-worker')), '/', { worker: false }));
});

test('one function, by webpack: less than 6 KB and no WebAssembly module', async () => {
  const folder = installApp('one-function', 'webpack-one-function');
  fs.writeFileSync(join(folder, 'index.html'), '');
  const out = await bundleByWebpack(folder);
  expect(fs.readdirSync(out).sort()).toEqual(['index.html', 'main.js']);
  expect(brotliCompressSync(fs.readFileSync(join(out, 'main.js'))).length).toBeLessThan(6000);
});

test('Rollup, with its node-resolve plugin', async () => {
  const folder = installApp('rollup');
  const out = await bundleByRollup(folder);
  copyRuntime(folder, out);
  await check(out, '/some/where/');
});

describe('Parcel, --no-scope-hoist', () => {
  test('a page', async () => check(await bundleByParcel(installApp('parcel')), '/some/where/'));

  test("a worker of the page's own", async () =>
    check(await bundleByParcel(installApp('own-worker', 'parcel-own-worker')), '/', { worker: false }));
});

test('Parcel, no settings: a page without workers, with top-level await in its script', async () => {
  const folder = installApp('parcel', 'parcel-await');
  awaitAtTopLevel(folder, ', { worker: false }');
  await check(await bundleByParcel(folder, []), '/', { worker: false });
});

describe.each([5, 6, 7, 8])('Vite %d', (version) => {
  const load = async () => {
    const folder = join(bundlers, `node_modules/vite-${version}`);
    const { exports } = JSON.parse(fs.readFileSync(join(folder, 'package.json'), 'utf8'));
    const entry =
      typeof exports['.'] === 'string' ? exports['.'] : (exports['.'].import?.default ?? exports['.'].import);
    return import(pathToFileURL(join(folder, entry)).href);
  };

  test('the development server, no configuration', async () => {
    const folder = installApp('vite', `vite-${version}-dev`);
    const { createServer } = await load();
    const options = { root: folder, configFile: false, logLevel: 'error', server: { port: 0, host: '127.0.0.1' } };
    const server = await createServer(options);
    try {
      await server.listen();
      await checkPage(browser, server.resolvedUrls.local[0]);
    } finally {
      await server.close();
    }
  });

  test('a build, no configuration', async () => {
    const folder = installApp('vite', `vite-${version}`);
    const { build } = await load();
    const base = '/some/where/';
    await build({ root: folder, configFile: false, base, logLevel: 'error', build: { outDir: 'out' } });
    await check(join(folder, 'out'), base);
  });

  test.runIf(version < 7)("top-level await in the page's script, with build.target: 'es2022'", async () => {
    const folder = installApp('vite', `vite-${version}-await`);
    awaitAtTopLevel(folder);
    const { build } = await load();
    const options = { root: folder, configFile: false, logLevel: 'silent' };
    await expect(build({ ...options, build: { outDir: 'out' } })).rejects.toThrow('Top-level await');
    await build({ ...options, build: { outDir: 'out', target: 'es2022' } });
    await check(join(folder, 'out'));
  });

  test("a worker of the page's own, with worker.format: 'es'", async () => {
    const folder = installApp('own-worker', `vite-${version}-own-worker`);
    const { build } = await load();
    const options = { root: folder, configFile: false, logLevel: 'error', build: { outDir: 'out' } };
    await build({ ...options, worker: { format: 'es' } });
    await check(join(folder, 'out'), '/', { worker: false });
  });

  // The format of workers that heed itself starts is the default one, `iife`, in the builds without configuration above.
  test("a worker of the page's own, in the default format of workers", async () => {
    const folder = installApp('own-worker', `vite-${version}-own-worker-iife`);
    const { build } = await load();
    const options = { root: folder, configFile: false, logLevel: 'silent', build: { outDir: 'out' } };
    if (version < 8) return expect(build(options)).rejects.toThrow('iife');
    await build(options);
    await check(join(folder, 'out'), '/', { worker: false });
  });
});

/** Next.js builds pages by Turbopack and by webpack. */
const next = { CI: '1', NEXT_TELEMETRY_DISABLED: '1' };

describe.each([
  ['16', bundlers],
  ['15', join(root, 'tests/package/next-15')],
])('Next.js %s', (version, project) => {
  const program = () => createRequire(join(project, 'package.json')).resolve('next/dist/bin/next');
  const flags = { Turbopack: ['--turbopack'], webpack: version === '15' ? [] : ['--webpack'] };

  test.each(Object.entries(flags))('a client component, %s, no configuration', async (name, flag) => {
    const folder = install(`next-${name}`, 'next', join(project, 'apps'));
    await runNode([program(), 'build', ...flag], { cwd: folder, env: next });
    await check(join(folder, 'out'));
  });

  test.each(Object.entries(flags))('a route handler, %s, no configuration', async (name, flag) => {
    const folder = install(`next-route-${name}`, 'next-route', join(project, 'apps'));
    await runNode([program(), 'build', ...flag], { cwd: folder, env: next });
    await withNext(program(), folder, async (address) => {
      const response = await fetch(`${address}/api/search`);
      checkResult(await response.json(), true);
    });
  });
});

/** Runs `next start`. */
const withNext = (program: string, folder: string, body: (address: string) => Promise<void>) =>
  withServer(
    [program, 'start', '--port', '0', '--hostname', '127.0.0.1'],
    { cwd: folder, env: { ...next, NODE_ENV: 'production' }, ready: /(http:\/\/127\.0\.0\.1:\d+)[\s\S]*Ready/ },
    body,
  );

test('the Next.js example: a route that searches on the server', async () => {
  const folder = install('next-example', undefined, join(bundlers, 'apps'));
  fs.cpSync(join(root, 'examples/next'), folder, { recursive: true });
  fs.writeFileSync(join(folder, 'jsconfig.json'), '{ "compilerOptions": {} }'); // instead of the repository's tsconfig.json
  const program = require.resolve('next/dist/bin/next');
  await runNode([program, 'build'], { cwd: folder, env: next });
  await withNext(program, folder, async (address) => {
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
  });
});

describe('Jest 30', () => {
  const jest = join(bundlers, 'node_modules/jest/bin/jest.js');
  const runJest = (name: string, settings: object, test: string) => {
    const folder = install(name, 'plain', join(bundlers, 'apps'));
    fs.writeFileSync(join(folder, 'package.json'), JSON.stringify({ name, private: true, ...settings }));
    fs.writeFileSync(join(folder, 'search.test.js'), test);
    return runNode(['--experimental-vm-modules', jest, '--rootDir', '.'], { cwd: folder });
  };
  const body = `
    const heed = await load();
    const model = await heed.fromPretrained(undefined, { worker: true });
    const index = await heed.TextIndex.of(model, ['The cat sleeps.', 'Fry the onions.']);
    const [best] = await index.search('preparing a meal');
    expect(best.text).toBe('Fry the onions.');
    heed.dispose();`;

  test('ES modules, by the two lines of docs/bundlers.md', async () => {
    const settings = { type: 'module', jest: { transform: {} } };
    await runJest('jest-modules', settings, `import { load } from 'heed';\ntest('search', async () => {${body}\n});\n`);
  });

  test('CommonJS, by import()', async () => {
    const test = `test('search', async () => {\n    const { load } = await import('heed');${body}\n});\n`;
    await runJest('jest-common', {}, test);
  });
});
