// The recipes for pages that no bundler builds, in Chromium: a strict content security policy, and an extension whose button opens a tab.
import * as fs from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { chromiumArguments, chromiumPath, launchChromium } from '../../tools/chromium.mjs';
import { install, root } from './installed.js';
import { serve } from './serve.js';

let browser: Browser;
beforeAll(async () => {
  browser = await launchChromium();
});
afterAll(() => browser?.close());

/** A copy of a recipe, with heed's files in heed/, as its comment says. */
function recipe(name: string): string {
  const folder = install(`host-${name}`);
  fs.cpSync(join(root, 'examples/recipes', name), folder, { recursive: true });
  fs.renameSync(join(folder, 'node_modules/heed/dist'), join(folder, 'heed'));
  fs.rmSync(join(folder, 'node_modules'), { recursive: true });
  return folder;
}

describe('content security policy', () => {
  let folder: string;
  let policy: string;
  beforeAll(() => {
    folder = recipe('content-security-policy');
    policy = /Content-Security-Policy: (.*)/.exec(fs.readFileSync(join(folder, '_headers'), 'utf8'))![1]!;
  });

  /** The page under a policy, with the model in a worker or in the page, once its status is not "Loading…" any more. */
  async function visit(policy: string, { worker = true } = {}) {
    const server = await serve(folder, { headers: { 'content-security-policy': policy } });
    const page = await browser.newPage();
    const said: string[] = [];
    page.on('console', (message) => said.push(message.text()));
    if (!worker)
      await page.route('**/main.js', async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, body: (await response.text()).replace('worker: true', 'worker: false') });
      });
    await page.goto(server.url);
    const status = page.getByRole('status');
    await expect.poll(() => status.innerText()).not.toBe('Loading…');
    const close = async () => {
      await page.close();
      await server[Symbol.asyncDispose]();
    };
    return { page, said, status: await status.innerText(), close };
  }

  const find = async (page: Page) => {
    await page.getByLabel('Search by meaning').fill('preparing a meal');
    await page.locator('li').first().filter({ hasText: 'onions' }).waitFor();
  };

  test('docs/bundlers.md names the policy of the recipe', () => {
    expect(fs.readFileSync(join(root, 'docs/bundlers.md'), 'utf8')).toContain(`\n${policy}\n`);
  });

  test.each([true, false])('its directives are enough, worker: %s', async (worker) => {
    const { page, said, status, close } = await visit(policy, { worker });
    expect(status).toBe('Ready');
    expect(page.workers()).toHaveLength(worker ? 1 : 0);
    await find(page);
    expect(said).toEqual([]);
    await close();
  });

  test.each([true, false])("without 'wasm-unsafe-eval', the error says so first, worker: %s", async (worker) => {
    const { status, close } = await visit(policy.replace(" 'wasm-unsafe-eval'", ''), { worker });
    expect(status).toMatch(/^wasm: the page's Content-Security-Policy forbids WebAssembly\. Add 'wasm-unsafe-eval'/);
    await close();
  });

  // Chromium tells a script nothing more; the console names the directive.
  test.each([
    ["connect-src 'self'", "connect-src 'none'", /^wasm: expected heed's module at .*Failed to fetch/],
    ["worker-src 'self'", "worker-src 'none'", /^worker: the worker failed \(its script could not be loaded\)/],
  ])('without %s, the message is one of docs/troubleshooting.md', async (allowed, forbidden, message) => {
    const { said, status, close } = await visit(policy.replace(allowed, forbidden));
    expect(status).toMatch(message);
    expect(said.join('\n')).toContain(forbidden);
    await close();
  });
});

test('an extension whose button opens a tab finds sentences of the page that was open', async () => {
  const folder = recipe('extension-tab');
  const server = createServer((_, response) => {
    const text = 'The ferry to the island sails twice a day. The museum shows paintings of the last century.';
    response.setHeader('content-type', 'text/html').end(`<!doctype html><title>Village</title><p>${text}</p>`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const context = await chromium.launchPersistentContext('', {
    executablePath: chromiumPath(),
    args: [
      ...chromiumArguments,
      `--disable-extensions-except=${folder}`,
      `--load-extension=${folder}`,
      '--enable-unsafe-extension-debugging', // for Extensions.triggerAction, which clicks the extension's button
    ],
    ignoreDefaultArgs: ['--disable-extensions'],
  });
  try {
    const background = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
    const village = await context.newPage();
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    await village.goto(address);
    const devtools = await context.browser()!.newBrowserCDPSession();
    const { targetInfos } = await devtools.send('Target.getTargets', { filter: [{ type: 'tab' }] });
    const { targetId } = targetInfos.find(({ url }) => url === address)!;
    const opened = context.waitForEvent('page');
    const click = { id: new URL(background.url()).host, targetId };
    await (devtools.send as (method: string, given: object) => Promise<unknown>)('Extensions.triggerAction', click);
    const tab = await opened;
    await tab.getByText('2 sentences').waitFor();
    await tab.getByLabel('Find by meaning').fill('boat trip');
    await tab.locator('li').first().filter({ hasText: 'ferry' }).waitFor();
    await tab.getByLabel('Find by meaning').fill('art exhibition');
    await tab.locator('li').first().filter({ hasText: 'museum' }).waitFor();
  } finally {
    await context.close();
    server.close();
    server.closeAllConnections();
  }
});
