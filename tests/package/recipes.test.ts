// The pages in examples/recipes, built with the packages of bundlers/ and the packed tarball, and driven in Chromium; the
// programs in recipes/databases are run by tests/adapters/recipes.test.ts.
import * as fs from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchChromium } from '../../tools/chromium.mjs';
import { install, root, runNode } from './installed.js';
import { serve } from './serve.js';

const bundlers = join(root, 'tests/package/bundlers');
const vite = join(bundlers, 'node_modules/vite/bin/vite.js');

let browser: Browser;
beforeAll(async () => {
  browser = await launchChromium();
});
afterAll(() => browser?.close());

/** A copy of a recipe with the installed package, inside bundlers/, so that it can resolve the other packages. */
function recipe(name: string): string {
  const folder = install(`recipe-${name}`, undefined, join(bundlers, 'apps'));
  fs.cpSync(join(root, 'examples/recipes', name), folder, { recursive: true });
  return folder;
}

const build = (folder: string) => runNode([vite, 'build', '--logLevel', 'error'], { cwd: folder });

/** A new page that collects its errors. */
async function open(url: string): Promise<{ page: Page; errors: string[] }> {
  const page = await browser.newPage();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  await page.goto(url);
  return { page, errors };
}

/** The last of several texts, which are typed faster than they are embedded, determines what is found. */
async function typeAndFind(page: Page) {
  const field = page.getByLabel('Search by meaning');
  const first = page.locator('li').first();
  await field.pressSequentially('preparing a meal');
  await first.filter({ hasText: 'onions' }).waitFor();
  await field.fill('a pet');
  await field.fill('classical music concert');
  await first.filter({ hasText: 'orchestra' }).waitFor();
  await field.fill(' ');
  await expect.poll(() => page.locator('li').count()).toBe(0);
}

test('React: a build finds by meaning, and reads the index from IndexedDB on the second visit', async () => {
  const folder = recipe('react');
  await build(folder);
  await using server = await serve(join(folder, 'dist'));
  const { page, errors } = await open(server.url);
  await page.getByText('The index was built and stored.').waitFor();
  await typeAndFind(page);
  await page.getByLabel('Search by meaning').fill('dinner');
  await page.getByText('(kitchen)').waitFor(); // the metadata, stored with the texts
  await page.reload();
  await page.getByText('The index was read from IndexedDB.').waitFor();
  await typeAndFind(page);
  expect(errors).toEqual([]);
  expect(server.missing).toEqual([]);
  await page.close();
});

test('React in development: StrictMode runs effects twice, and one model is loaded in one worker', async () => {
  const folder = recipe('react');
  const entry = createRequire(join(bundlers, 'package.json')).resolve('vite/package.json');
  const { createServer } = await import(pathToFileURL(join(entry, '../dist/node/index.js')).href);
  const server = await createServer({
    root: folder,
    logLevel: 'error',
    server: { port: 0, host: '127.0.0.1', hmr: false },
  });
  try {
    await server.listen();
    const { page, errors } = await open(server.resolvedUrls.local[0]);
    await page.getByText('The index was built and stored.').waitFor();
    await typeAndFind(page);
    expect(page.workers()).toHaveLength(1);
    expect(errors).toEqual([]);
    await page.close();
  } finally {
    await server.close();
  }
});

test('Svelte: a build finds by meaning', async () => {
  const folder = recipe('svelte');
  await build(folder);
  await using server = await serve(join(folder, 'dist'));
  const { page, errors } = await open(server.url);
  await page.getByText('Ready').waitFor();
  await typeAndFind(page);
  expect(errors).toEqual([]);
  expect(server.missing).toEqual([]);
  await page.close();
});

test('service worker: /search is answered by it, not by the server', async () => {
  const folder = recipe('service-worker');
  await build(folder);
  await using server = await serve(join(folder, 'dist'));
  const { page, errors } = await open(server.url);
  await page.getByText('Ready').waitFor();
  await page.getByLabel('Search by meaning').fill('preparing a meal');
  await page.getByRole('button').click();
  await page.locator('li').first().filter({ hasText: 'onions' }).waitFor();
  const empty = await page.evaluate(() => fetch('/search?q=').then(async (response) => response.json()));
  expect(empty).toEqual({ error: 'q is missing' });
  expect(errors).toEqual([]);
  expect(server.missing).toEqual([]);
  await page.close();
});
