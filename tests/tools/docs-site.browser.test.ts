/** The documentation's site runs its examples in the page, with the site's own copy of heed and no other requests. */
import * as fs from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addExamples, linkPages } from '../../tools/api.mjs';
import { launchChromium } from '../../tools/chromium.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const types: Record<string, string> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.wasm': 'application/wasm',
  '.json': 'application/json',
  '.css': 'text/css',
};

/** Pages whose examples need no files of the reader's. */
const chapters = fs
  .readdirSync(join(root, 'docs/course'))
  .filter((name) => /^\d\d-/.test(name))
  .map((name) => `course/${name.slice(0, -3)}`);
const pages = [
  'transformer',
  'attention',
  'own-layers',
  'encoder',
  'linear',
  'masks',
  'inspection',
  'dropout',
  'state-dicts',
];

interface Block {
  code: string;
  printed: string;
}

/** TypeDoc's names of files. */
const fileOf = (name: string) => name.replace('/', '_');

/** The blocks of a page, and the markup that TypeDoc makes of them. */
function blocksOf(name: string): Block[] {
  const text = fs.readFileSync(join(root, `docs/${name}.md`), 'utf8');
  return [...text.matchAll(/```js\n(.*?)```\n(?:\n```text\n(.*?)```)?/gs)].map(([, code, printed]) => ({
    code: code!,
    printed: printed ?? '',
  }));
}
const escaped = (code: string) =>
  code
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .split('\n')
    .map((line) => `<span>${line}</span>`)
    .join('<br/>');
const pageOf = (blocks: Block[]) =>
  `<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><link rel="icon" href="data:,"><link rel="stylesheet" href="../assets/custom.css"><title>A page</title></head><body><div class="tsd-typography"><h1>A page</h1>${blocks
    .map(({ code }) => `<pre><code class="js">${escaped(code)}</code><button type="button">Copy</button></pre>`)
    .join('')}</div>\n<div class="col-sidebar"></div></body></html>`;

let folder: string;
let server: Server;
let browser: Browser;
let page: Page;
const requested: string[] = [];
const complaints: string[] = [];

beforeAll(async () => {
  folder = fs.mkdtempSync(join(tmpdir(), 'heed-docs-'));
  fs.mkdirSync(join(folder, 'documents'));
  fs.mkdirSync(join(folder, 'assets'));
  fs.copyFileSync(join(root, 'tools/site/site.css'), join(folder, 'assets/custom.css')); // as TypeDoc's customCss does
  for (const name of pages) fs.writeFileSync(join(folder, `documents/${name}.html`), pageOf(blocksOf(name)));
  for (const name of chapters) fs.writeFileSync(join(folder, `documents/${fileOf(name)}.html`), pageOf(blocksOf(name)));
  const own = ["console.log('<b>');\nthrow new TypeError('no');\n", "import fs from 'node:fs';\n"];
  fs.writeFileSync(join(folder, 'documents/own.html'), pageOf(own.map((code) => ({ code, printed: '' }))));
  fs.writeFileSync(join(folder, 'documents/endless.html'), pageOf([{ code: 'for (;;);\n', printed: '' }]));
  addExamples(folder, join(root, 'dist'));
  linkPages(folder, pages);
  server = createServer((request, response) => {
    const path = new URL(request.url!, 'http://localhost').pathname;
    const file = join(folder, path);
    if (!fs.existsSync(file)) return void response.writeHead(404).end();
    response.writeHead(200, { 'Content-Type': types[extname(path)] ?? 'application/octet-stream' });
    response.end(fs.readFileSync(file));
  });
  await new Promise<void>((resolve) => server.listen(0, resolve));
  browser = await launchChromium();
  page = await browser.newPage();
  page.on('request', (request) => requested.push(request.url()));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(error.message));
});
afterAll(async () => {
  await browser?.close();
  server?.close();
  fs.rmSync(folder, { recursive: true, force: true });
});

const origin = () => `http://localhost:${(server.address() as AddressInfo).port}`;
const open = (name: string) => page.goto(`${origin()}/documents/${fileOf(name)}.html`);
const words = (text: string) => text.split(/\s+/).filter(Boolean).join(' ');

describe('examples in the page', () => {
  it.each(chapters)('%s has a button for each block', async (name) => {
    await open(name);
    await page.locator('.run-example').first().waitFor();
    expect(await page.locator('.run-example').count()).toBe(blocksOf(name).length);
  });

  it.each([...pages, 'course/04-self-attention', 'course/07-cross-attention'])(
    '%s prints what the page says',
    async (name) => {
      complaints.length = 0;
      await open(name);
      const blocks = blocksOf(name);
      const buttons = page.locator('.run-example');
      await buttons.first().waitFor();
      const count = await buttons.count();
      expect(count).toBeGreaterThan(0);
      for (let i = 0; i < count; i++) {
        if (!blocks[i]!.printed) continue;
        await buttons.nth(i).click();
        await page.locator('.run-example').nth(i).and(page.locator('[data-state=ended]')).waitFor();
        expect(words(await page.locator('.run-output').nth(i).innerText())).toBe(words(blocks[i]!.printed));
      }
      expect(complaints).toEqual([]);
      expect(requested.filter((url) => !url.startsWith(origin()) && !url.startsWith('blob:'))).toEqual([]);
    },
  );

  it('shows errors as text, and has no button where a page has no such module', async () => {
    await open('own');
    const button = page.locator('.run-example');
    await button.first().waitFor();
    expect(await button.count()).toBe(1);
    await button.click();
    await page.locator('.run-example[data-state=ended]').waitFor();
    expect(await page.locator('.run-output').innerText()).toBe('<b>\nTypeError: no\n');
  });

  it('can be stopped', async () => {
    await open('endless');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByRole('button', { name: 'Run' }).waitFor();
  });

  it('does not scroll sideways on a phone, though its tables and lines of code are wide', async () => {
    await open('own');
    await page.setViewportSize({ width: 390, height: 844 });
    const widths = await page.evaluate(() => {
      const wide = 'wide'.repeat(100);
      const table = `<table><tbody><tr><td>${wide}</td><td>${wide}</td></tr></tbody></table>`;
      document
        .querySelector('.tsd-typography')!
        .insertAdjacentHTML('beforeend', `${table}<pre><code>${wide}</code></pre>`);
      const { scrollWidth, clientWidth } = document.documentElement;
      return { scrollWidth, clientWidth, table: document.querySelector('table')!.scrollWidth };
    });
    expect(widths.scrollWidth).toBe(widths.clientWidth);
    expect(widths.table).toBeGreaterThan(widths.clientWidth);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('stands beside links to the previous and the next page', async () => {
    await open(pages[1]!);
    await page.getByRole('link', { name: '→' }).click();
    expect(page.url()).toContain(pages[2]);
  });
});
