// The applications in examples/, built and run from the packed package. tests/web/train/examples.slow.test.ts has those of training,
// tests/adapters the recipes, bundlers.test.ts the Next.js application.
import * as fs from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { build as viteBuild } from 'vite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { chromiumArguments, chromiumPath, launchChromium } from '../../tools/chromium.mjs';
import { install, root, runNode } from './installed.js';
import { serve } from './serve.js';

let browser: Browser;
beforeAll(async () => {
  browser = await launchChromium();
});
afterAll(() => browser?.close());

/** The installed package in a folder with a copy of an example. */
function example(name: string): string {
  const folder = install(`example-${name.replace(/\W/g, '-')}`);
  fs.cpSync(join(root, 'examples', name), name.includes('.') ? join(folder, name) : folder, { recursive: true });
  return folder;
}

test('semantic-search builds its index in a worker once and reads it from IndexedDB afterwards', async () => {
  const folder = example('semantic-search');
  await viteBuild({ root: folder, logLevel: 'error' });
  await using server = await serve(join(folder, 'dist'));
  const page = await browser.newPage();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  const started = page.waitForEvent('worker');
  await page.goto(server.url);
  await page.getByText('The index was built and stored.').waitFor({ timeout: 120_000 });
  await started;
  const first = page.locator('#results li').first();
  await page.getByLabel('Search by meaning').fill('stars and planets');
  await first.filter({ hasText: 'telescope' }).waitFor();
  await page.getByLabel('Search by meaning').fill('football match');
  await first.filter({ hasText: 'goalkeeper' }).waitFor();

  await page.reload();
  await page.getByText('The index was read from IndexedDB.').waitFor({ timeout: 120_000 });
  await page.getByLabel('Search by meaning').fill('stars and planets');
  await first.filter({ hasText: 'telescope' }).waitFor();
  await page.getByLabel('Search by meaning').fill(' ');
  await expect.poll(() => page.locator('#results li').count()).toBe(0);
  expect(errors).toEqual([]);
  expect(server.missing).toEqual([]);
  await page.close();
});

test('notebook draws Q, K, V and the weights of a head, and its formula gives those weights', async () => {
  const folder = example('notebook');
  const page = await browser.newPage();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  await page.route('https://cdn.jsdelivr.net/npm/heed/dist/**', (route) => {
    const path = join(folder, 'node_modules/heed/dist', route.request().url().split('/heed/dist/')[1]!);
    if (!fs.existsSync(path)) return route.fulfill({ status: 404 });
    const type = path.endsWith('.js') ? 'text/javascript' : path.endsWith('.wasm') ? 'application/wasm' : '*/*';
    return route.fulfill({ path, contentType: type, headers: { 'access-control-allow-origin': '*' } });
  });
  await using server = await serve(folder);
  await page.goto(server.url);
  const difference = page.locator('output');
  await expect.poll(() => difference.innerText(), { timeout: 120_000 }).toMatch(/^\d/);
  expect(Number(await difference.innerText())).toBeLessThan(1e-5);
  const count = (id: string) => page.locator(`#${id} rect`).count();
  const tokens = 9; // [CLS] the cat sat on the mat . [SEP]
  expect(await count('weights')).toBe(tokens * tokens);
  for (const id of ['queries', 'keys', 'values']) expect(await count(id)).toBe(tokens * 32);
  const titles = await page.locator('#weights rect title').allTextContents();
  const weights = titles.map((title) => Number(title.split(': ')[1]));
  for (let i = 0; i < tokens; i++)
    expect(weights.slice(i * tokens, (i + 1) * tokens).reduce((a, b) => a + b)).toBeCloseTo(1, 2);
  await page.getByLabel('Sentence').fill('The dog.');
  await expect.poll(() => count('weights')).toBe(25); // [CLS] the dog . [SEP]
  await page.getByLabel('Head', { exact: true }).fill('5');
  await expect.poll(() => page.locator('#weights').getAttribute('aria-label')).toContain('head 4 in layer 1');
  expect(errors).toEqual([]);
  await page.close();
});

test('extension finds a sentence of the open page', async () => {
  const folder = example('extension');
  fs.cpSync(join(folder, 'node_modules/heed/dist'), join(folder, 'heed'), { recursive: true });
  fs.rmSync(join(folder, 'node_modules'), { recursive: true });
  // A click on the extension's button gives it access to the page; no test can make one.
  const manifest = JSON.parse(fs.readFileSync(join(folder, 'manifest.json'), 'utf8'));
  fs.writeFileSync(join(folder, 'manifest.json'), JSON.stringify({ ...manifest, host_permissions: ['http://*/*'] }));
  const text =
    'The ferry to the island sails twice a day. Bread is baked in the square every morning. The museum shows paintings of the last century.';
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'text/html');
    response.end(`<!doctype html><title>Village</title><p>${text}</p>`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const context = await chromium.launchPersistentContext('', {
    executablePath: chromiumPath(),
    args: [...chromiumArguments, `--disable-extensions-except=${folder}`, `--load-extension=${folder}`],
    ignoreDefaultArgs: ['--disable-extensions'],
  });
  try {
    const background = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
    const page = await context.newPage();
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    const popup = await context.newPage();
    await popup.goto(new URL('popup.html', background.url()).href);
    const best = popup.locator('#results li').first();
    // The popup listens once it has read the page.
    await expect
      .poll(
        async () => {
          await popup.getByLabel('Find by meaning').fill('');
          await popup.getByLabel('Find by meaning').fill('boat trip');
          return best.innerText({ timeout: 10_000 }).catch(() => '');
        },
        { timeout: 120_000 },
      )
      .toContain('ferry');
    await popup.getByLabel('Find by meaning').fill('art exhibition');
    await best.filter({ hasText: 'museum' }).waitFor();
  } finally {
    await context.close();
    server.close();
    server.closeAllConnections();
  }
});

test('chat-retrieval puts the passages that answer the question into the prompt', async () => {
  const cwd = example('chat-retrieval.mjs');
  const printed = await runNode(['chat-retrieval.mjs'], { cwd });
  expect(printed).toContain('[1] Items may be sent back within 30 days.');
  expect(printed).toContain('Question: Can I send back');
  const other = await runNode(['chat-retrieval.mjs', 'When can I visit the store?'], { cwd });
  expect(other).toContain('[5] Our shop in Lisbon');
});

/** A tiny checkpoint of tests/fixtures, whose weights are random, with the shipped tokenizer cut to its vocabulary. */
function checkpoint(folder: string, name: string): string {
  const from = join(root, 'tests/fixtures/models', name);
  const to = join(folder, name);
  fs.cpSync(from, to, { recursive: true });
  const tokenizer = JSON.parse(fs.readFileSync(join(root, 'web/model/tokenizer.json'), 'utf8'));
  const { vocab_size } = JSON.parse(fs.readFileSync(join(from, 'config.json'), 'utf8'));
  const kept = Object.entries<number>(tokenizer.model.vocab).filter(([, id]) => id < vocab_size);
  tokenizer.model.vocab = Object.fromEntries(kept);
  fs.writeFileSync(join(to, 'tokenizer.json'), JSON.stringify(tokenizer));
  return to;
}

test('chat-retrieval reranks with a cross-encoder', async () => {
  const cwd = example('chat-retrieval.mjs');
  const model = checkpoint(cwd, 'bert-one-label');
  const printed = await runNode(['chat-retrieval.mjs', 'sent back', model], { cwd });
  expect(printed.match(/^\[\d\] /gm)).toHaveLength(2);
});

test('classify prints a label with a score for each text, and spans of the text', async () => {
  const cwd = example('classify.mjs');
  const model = checkpoint(cwd, 'bert');
  const lines = (await runNode(['classify.mjs', model, model], { cwd })).trim().split('\n');
  const { id2label } = JSON.parse(fs.readFileSync(join(model, 'config.json'), 'utf8'));
  const labels = Object.values<string>(id2label).join('|');
  for (const text of ['A wonderful film from start to finish.', 'The plot is dull and far too long.'])
    expect(lines.shift()).toMatch(new RegExp(`^${text} -> (${labels}) [01]\\.\\d\\d$`));
  for (const line of lines) {
    expect('Ada Lovelace met Charles Babbage in London.').toContain(line.split(' -> ')[0]);
  }
});

test('own-transformer learns whether brackets are balanced, and runs without heed/train', async () => {
  const cwd = example('own-transformer.mjs');
  fs.cpSync(join(root, 'examples/support'), join(cwd, 'support'), { recursive: true });
  const printed = await runNode(['own-transformer.mjs'], { cwd });
  expect(Number(/^right: (\d+) of 500/m.exec(printed)?.[1])).toBeGreaterThanOrEqual(450);
  expect(printed).toMatch(/^\(\(\)\(\(\)\)\)\(\)\(\): balanced$/m);
});
