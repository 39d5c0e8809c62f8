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

/** Serves a recipe with Vite's development server. `models`: the number of requests for the model so far. */
async function develop(folder: string) {
  const entry = createRequire(join(bundlers, 'package.json')).resolve('vite/package.json');
  const { createServer } = await import(pathToFileURL(join(entry, '../dist/node/index.js')).href);
  const site = { url: '', models: 0, [Symbol.asyncDispose]: async () => server.close() };
  const counting = {
    name: 'counting',
    configureServer({ middlewares }: { middlewares: { use(each: unknown): void } }) {
      middlewares.use((request: { url: string }, _: unknown, next: () => void) => {
        if (request.url.includes('model.safetensors')) site.models++;
        next();
      });
    },
  };
  const server = await createServer({
    root: folder,
    logLevel: 'error',
    plugins: [counting],
    server: { port: 0, host: '127.0.0.1' },
  });
  await server.listen();
  site.url = server.resolvedUrls.local[0];
  return site;
}

// React's StrictMode runs effects twice.
test.each([
  ['React', 'react', 'The index was built and stored.', 'search.jsx', 'use-search.js', 'open-index.js'],
  ['Svelte', 'svelte', 'Ready', 'Search.svelte', 'Search.svelte', 'open-index.svelte.js'],
  ['Vue', 'vue', 'Ready', 'NoteSearch.vue', 'NoteSearch.vue', 'open-index.js'],
])(
  '%s in development: edits of components keep the model and its worker',
  async (_, name, ready, view, code, opens) => {
    const folder = recipe(name);
    await using site = await develop(folder);
    const { page, errors } = await open(site.url);
    const first = page.locator('li').first();
    const edit = (file: string, from: string, to: string) => {
      const text = fs.readFileSync(join(folder, file), 'utf8');
      expect(text, file).toContain(from);
      fs.writeFileSync(join(folder, file), text.replace(from, to));
    };
    await page.getByText(ready).waitFor();
    await typeAndFind(page);

    edit(view, 'Search by meaning', 'Find by meaning');
    const field = page.getByLabel('Find by meaning');
    await field.fill('preparing a meal');
    await first.filter({ hasText: 'onions' }).waitFor();
    edit(code, 'topK: 3', 'topK: 2');
    await expect
      .poll(async () => {
        await field.fill('classical music');
        await field.fill('classical music concert');
        await first.filter({ hasText: 'orchestra' }).waitFor();
        return page.locator('li').count();
      })
      .toBe(2);
    expect([site.models, page.workers().length]).toEqual([1, 1]);

    edit(opens, 'worker: true', "worker: true, dtype: 'q8'");
    let n = 0;
    const reopened = async () => {
      await field.fill(`music ${n++}`); // React opens the index again when it is next needed
      return [site.models, page.workers().length];
    };
    await expect.poll(reopened).toEqual([2, 1]);
    expect(errors).toEqual([]);
    await page.close();
  },
);

test.each(['svelte', 'vue'])('%s: a build finds by meaning', async (name) => {
  const folder = recipe(name);
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

test.each(['', 'about.html'])('offline: after a visit of /%s, all pages work without the server', async (first) => {
  const folder = recipe('offline');
  await build(folder);
  const server = await serve(join(folder, 'dist'));
  const { page, errors } = await open(server.url + first);
  await page.getByText('Ready').waitFor();
  expect(server.missing).toEqual([]);
  await server[Symbol.asyncDispose]();
  for (const next of ['', 'about.html']) {
    await page.goto(server.url + next);
    await page.getByText('Ready').waitFor();
    await page.getByLabel('Search by meaning').fill('preparing a meal');
    await page.locator('li').first().filter({ hasText: 'onions' }).waitFor();
  }
  expect(errors).toEqual([]);
  await page.close();
});

// Each recipe is copied as a folder of its own, so both have the file.
test('the service workers of the recipes differ only in their pages', () => {
  const [offline, app] = ['offline', 'search-app'].map((name) =>
    fs.readFileSync(join(root, 'examples/recipes', name, 'sw.js'), 'utf8').replace(/^const PAGES = .*$/m, ''),
  );
  expect(app).toBe(offline);
});

test('search application: found while the index is built, filtered, updated, and without the server', async () => {
  const folder = recipe('search-app');
  const source = fs.readFileSync(join(folder, 'main.tsx'), 'utf8');
  expect(source.trimEnd().split('\n').length).toBeLessThanOrEqual(75);
  expect(source).not.toMatch(/\bas [A-Z]|\bany\b|\(undefined|, undefined/);
  await build(folder);
  const corpus = join(folder, 'dist/corpus.json');
  const some: { text: string }[] = JSON.parse(fs.readFileSync(corpus, 'utf8'));
  const many = Array.from({ length: 400 }, (_, i) => {
    const item = some[i % some.length]!;
    return { ...item, id: `${i}`, text: i < some.length ? item.text : `${item.text} Number ${i}.` };
  });
  fs.writeFileSync(corpus, JSON.stringify(many));
  const server = await serve(join(folder, 'dist'));
  const { page, errors } = await open(server.url);
  const first = page.locator('li').first();
  const field = page.getByLabel('Search by meaning');
  await page.getByText(/ of 400 texts/).waitFor();
  await field.fill('preparing a meal');
  await first.filter({ hasText: 'onions' }).waitFor();
  await page.getByText(/^400 texts/).waitFor();
  await page.getByLabel('Topic').fill('music');
  await first.filter({ hasText: '(music)' }).waitFor();
  const more = { id: 'new', text: 'A submarine on the bottom of the ocean.', metadata: { topic: 'travel' } };
  fs.writeFileSync(corpus, JSON.stringify([...many.slice(0, 390), more]));
  await page.reload();
  await page.getByText(/^391 texts/).waitFor();
  await server[Symbol.asyncDispose]();
  await page.reload();
  await page.getByText(/^391 texts/).waitFor();
  await field.fill('deep under water');
  await first.filter({ hasText: 'submarine' }).waitFor();
  expect(page.workers()).toHaveLength(1);
  expect(errors).toEqual([]);
  expect(server.missing).toEqual([]);
  await page.close();
});
