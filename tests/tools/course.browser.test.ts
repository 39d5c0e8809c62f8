/** The slides, the handouts and the notebooks of the course in a browser: what is seen, what fits, what the keys do, what cells print. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { launchChromium } from '../../tools/chromium.mjs';
import { chapters, page as handout, observable, slideDeck, slidesOf } from '../../tools/course.mjs';
import { ensurePackages } from '../../tools/setup.mjs';

const decks = chapters().filter(({ name }) => name !== 'index');
let folder: string;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  await ensurePackages('tools/checks'); // markdown-it and KaTeX
  await ensurePackages('tests/tools/notebooks');
  folder = mkdtempSync(join(tmpdir(), 'heed-course-'));
  browser = await launchChromium();
  page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
}, 300_000);
afterAll(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(name: string, html: string): Promise<void> {
  const file = join(folder, `${name}.html`);
  writeFileSync(file, html);
  await page.goto(pathToFileURL(file).href);
}

/** Texts outside of code that look like the source of a formula or like Markdown, and the number of images that are not shown. */
const faults = () =>
  page.evaluate(() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const raw: string[] = [];
    while (texts.nextNode()) {
      const { parentElement, data } = texts.currentNode as Text;
      if (!parentElement!.closest('code, pre, script, annotation') && /\$|\\[a-z]|\*\*|\]\(|\|---/.test(data))
        raw.push(data);
    }
    return { raw, missing: [...document.images].filter(({ naturalWidth }) => naturalWidth === 0).length };
  });

test.each(decks)('$name: every slide shows its formulas and fits its frame', async ({ name, text }) => {
  await open(name, await slideDeck(text));
  expect(await faults()).toEqual({ raw: [], missing: 0 });
  const slides = await page.evaluate(() =>
    [...document.querySelectorAll('section')].map((slide) => {
      const content = [...slide.children].filter(({ tagName }) => tagName !== 'FOOTER');
      const bottom = Math.max(...content.map((each) => each.getBoundingClientRect().bottom));
      const isWide = content.some(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 2);
      return {
        title: slide.querySelector('h1, h2')!.textContent,
        isWide,
        below: bottom > slide.getBoundingClientRect().top + 710,
      };
    }),
  );
  expect(slides).toHaveLength(slidesOf(text).length);
  expect(slides.filter(({ isWide, below }) => isWide || below)).toEqual([]);
});

test('arrow keys and presentation remotes turn the slides', async () => {
  await open('keys', await slideDeck(decks[0]!.text));
  const seen = () =>
    page.evaluate(() =>
      [...document.querySelectorAll('section')].findIndex((slide) => slide.getBoundingClientRect().bottom > 10),
    );
  expect(await seen()).toBe(0);
  for (const [key, expected] of [
    ['ArrowRight', 1],
    ['PageDown', 2],
    ['ArrowLeft', 1],
  ] as const) {
    await page.keyboard.press(key);
    await expect.poll(seen).toBe(expected);
  }
});

test('the handouts show formulas and figures; one has the solutions, the other room for answers', async () => {
  const exercises = decks.flatMap(({ text }) => text.match(/^\*\*\d\.\*\* /gm) ?? []).length;
  await open('handout', await handout({ solutions: false }));
  expect(await faults()).toEqual({ raw: [], missing: 0 });
  expect(await page.locator('.answer').count()).toBe(exercises);
  expect(await page.getByText('Solution', { exact: true }).count()).toBe(0);
  await open('handout-with-solutions', await handout());
  expect(await faults()).toEqual({ raw: [], missing: 0 });
  expect(await page.locator('details[open]').count()).toBe(exercises);
});

test("Observable's notebook kit builds the notebooks, which show formulas and print what the chapters print", async () => {
  const root = fileURLToPath(new URL('../../', import.meta.url));
  const apps = join(root, 'tests/tools/notebooks/apps'); // from where the kit is found
  mkdirSync(apps, { recursive: true });
  const tried = decks.filter(({ name }) => !/^1[134]/.test(name)); // the others train for a while; tests/web/docs.test.ts runs their code
  for (const { name, text } of tried) writeFileSync(join(apps, `${name}.html`), observable(text));
  const kit = join(root, 'tests/tools/notebooks/node_modules/@observablehq/notebook-kit/dist/bin/notebooks.js');
  const files = tried.map(({ name }) => join(apps, `${name}.html`));
  await promisify(execFile)(process.execPath, [kit, 'build', '--root', apps, '--', ...files]);

  // The built pages, and what they import from the CDN: heed and KaTeX.
  const types: Record<string, string> = {
    '.html': 'text/html',
    '.js': 'text/javascript',
    '.css': 'text/css',
    '.wasm': 'application/wasm',
  };
  const tab = await browser.newPage();
  await tab.route('**/*', async (route) => {
    const { pathname, hostname } = new URL(route.request().url());
    const [, heed] = /^\/npm\/heed@[^/]*\/(dist\/.*)$/.exec(pathname) ?? [];
    const file = pathname.startsWith('/npm/katex')
      ? join(root, 'tools/checks/node_modules/katex/dist', extname(pathname) === '.css' ? 'katex.min.css' : 'katex.mjs')
      : heed
        ? join(root, heed)
        : hostname === 'notebooks.test'
          ? join(apps, '.observable/dist', pathname)
          : undefined;
    if (!file) return route.abort(); // a font
    const type = file.endsWith('.mjs') ? 'text/javascript' : (types[extname(file)] ?? 'application/octet-stream');
    await route.fulfill({
      body: readFileSync(file),
      contentType: type,
      headers: { 'Access-Control-Allow-Origin': '*' },
    });
  });
  for (const { name, text } of tried) {
    const printed = [...text.matchAll(/^```js\n.*?^```\n\n```text\n(.*?)^```$/gms)].flatMap(([, output]) =>
      output!.trim().split('\n'),
    );
    await tab.goto(`https://notebooks.test/${name}.html`);
    const seen = () =>
      tab.evaluate(() =>
        [...document.querySelectorAll('pre.printed')].flatMap(({ textContent }) => textContent!.split('\n')),
      );
    await expect.poll(seen, { timeout: 60_000 }).toEqual(printed);
    expect(await tab.locator('.katex').count()).toBeGreaterThan(5);
    expect(await tab.locator('.observablehq--error').allInnerTexts()).toEqual([]);
  }
  await tab.close();
}, 600_000);
