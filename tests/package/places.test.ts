// The installed package in web environments that need only a static server, and with the two bundlers that the repository
// uses itself. For other bundlers see bundlers.test.ts.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { build as esbuild } from 'esbuild';
import { type Browser, chromium } from 'playwright-core';
import { createServer, build as viteBuild } from 'vite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { chromiumArguments, chromiumPath, launchChromium } from '../../tools/chromium.mjs';
import { copyRuntime, install } from './installed.js';
import { checkPage, checkResult } from './page.js';
import { serve } from './serve.js';

let browser: Browser;
let plain: string;

beforeAll(async () => {
  browser = await launchChromium();
  plain = install('plain', 'plain');
});
afterAll(() => browser?.close());

test('an import map on a static server, under a sub-path', async () => {
  await using server = await serve(plain, { base: '/some/where/' });
  await checkPage(browser, server.url);
  expect(server.missing).toEqual([]);
});

test('a page that imports the package from another origin, as from a CDN', async () => {
  await using cdn = await serve(plain, { headers: { 'access-control-allow-origin': '*' } });
  const folder = install('from-cdn', 'plain');
  const page = fs.readFileSync(join(folder, 'index.html'), 'utf8');
  fs.writeFileSync(join(folder, 'index.html'), page.replace('./node_modules/', `${cdn.url}node_modules/`));
  await using server = await serve(folder);
  await checkPage(browser, server.url); // the model in a worker, too
  expect(cdn.missing).toEqual([]);
});

test('a classic script in a page without a charset runs the same build', async () => {
  const folder = install('classic', 'vite');
  const out = join(folder, 'out');
  const define = { 'import.meta.url': 'scriptUrl' }; // classic scripts have no import.meta
  await esbuild({
    entryPoints: [join(folder, 'main.js')],
    outfile: join(out, 'main.js'),
    banner: { js: 'var scriptUrl = document.currentScript.src;' },
    ...{ bundle: true, format: 'iife', minify: true, charset: 'utf8', define },
  });
  copyRuntime(folder, out);
  fs.writeFileSync(join(out, 'index.html'), '<!doctype html><title>classic</title><script src="./main.js"></script>');
  await using server = await serve(out, { types: { '.html': 'text/html' } });
  await checkPage(browser, server.url);
});

test("a page with script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'", async () => {
  const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'";
  await using server = await serve(plain, { headers: { 'content-security-policy': policy } });
  await checkPage(browser, `${server.url}strict.html`);
});

test('a sandboxed frame', async () => {
  await using server = await serve(plain, { headers: { 'access-control-allow-origin': '*' } });
  await checkPage(browser, `${server.url}frame.html`, { worker: false });
});

test.each(['worker', 'service-module'])('%s', async (kind) => {
  await using server = await serve(plain);
  await checkPage(browser, `${server.url}workers.html?kind=${kind}`, { worker: false });
});

test('a classic service worker, bundled as one script', async () => {
  await esbuild({
    entryPoints: [join(plain, 'answer.js')],
    outfile: join(plain, 'classic.js'),
    bundle: true,
    format: 'iife',
    define: { 'import.meta.url': 'self.location.href' }, // classic scripts have no import.meta
  });
  copyRuntime(plain, plain);
  await using server = await serve(plain);
  await checkPage(browser, `${server.url}workers.html?kind=service-classic`, { worker: false });
});

test('an MV3 extension: its service worker and a page', async () => {
  const folder = install('extension', 'extension');
  const context = await chromium.launchPersistentContext('', {
    executablePath: chromiumPath(),
    args: [...chromiumArguments, `--disable-extensions-except=${folder}`, `--load-extension=${folder}`],
    ignoreDefaultArgs: ['--disable-extensions'],
  });
  try {
    const background = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
    const run = () => (globalThis as unknown as { run(): Promise<object> }).run();
    checkResult(await background.evaluate(run), false);
    await checkPage(context, new URL('page.html', background.url()).href);
  } finally {
    await context.close();
  }
});

test('esbuild', async () => {
  const folder = install('esbuild', 'vite');
  const outdir = join(folder, 'out');
  await esbuild({ entryPoints: [join(folder, 'main.js')], outdir, bundle: true, format: 'esm', minify: true });
  copyRuntime(folder, outdir);
  fs.copyFileSync(join(folder, 'index.html'), join(outdir, 'index.html'));
  await using server = await serve(outdir);
  await checkPage(browser, server.url);
  expect(server.missing).toEqual([]);
});

test('one function costs less than 6 KB', async () => {
  const folder = install('one-function', 'one-function');
  const outfile = join(folder, 'out.js');
  await esbuild({ entryPoints: [join(folder, 'main.js')], outfile, bundle: true, format: 'esm', minify: true });
  await import(pathToFileURL(outfile).href);
  const { found } = globalThis as unknown as { found: { index: number }[][] };
  expect(found[0]![0]!.index).toBe(1);
  expect(brotliCompressSync(fs.readFileSync(outfile)).length).toBeLessThan(6000); // as docs/bundlers.md says
});

test('a Vite build, under a sub-path', async () => {
  const root = install('vite', 'vite');
  await viteBuild({ root, configFile: false, base: '/some/where/', logLevel: 'error', build: { outDir: 'out' } });
  await using server = await serve(join(root, 'out'), { base: '/some/where/' });
  await checkPage(browser, server.url);
  expect(server.missing).toEqual([]);
});

// Vite writes such a worker as one script. Rolldown fails to do so if a chunk remains that nothing imports.
test("a Vite build of a page with a worker of its own, in Vite's default format of workers", async () => {
  const root = install('vite-own-worker', 'own-worker');
  await viteBuild({ root, configFile: false, logLevel: 'error', build: { outDir: 'out' } });
  await using server = await serve(join(root, 'out'));
  await checkPage(browser, server.url, { worker: false });
  expect(server.missing).toEqual([]);
});

test("Vite's development server", async () => {
  const root = install('vite-dev', 'vite');
  const server = await createServer({
    root,
    configFile: false,
    logLevel: 'error',
    server: { port: 0, host: '127.0.0.1' },
  });
  try {
    await server.listen();
    await checkPage(browser, server.resolvedUrls!.local[0]);
  } finally {
    await server.close();
  }
});
