/** The demo page (built and served by setup.ts), and a Chromium to visit it with. */
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { inject } from 'vitest';
import { launchChromium } from '../../tools/chromium.mjs';

export interface Visit {
  page: Page;
  context: BrowserContext;
  /** Errors and violations of the content policy, as the console has them. */
  complaints: string[];
}

export interface Site {
  url: string;
  folder: string;
  browser: Browser;
  /**
   * Loads the page anew at `hash`, in a tab that all tests of a file share: a new document and a new worker in the process of
   * the last one, which takes a third of a fresh visitor's time.
   */
  open(hash: string): Promise<Visit>;
  close(): Promise<void>;
}

export async function openSite(): Promise<Site> {
  const { url, folder } = inject('demo');
  const browser: Browser = await launchChromium();
  let shared: Visit | undefined;
  let documents = 0;
  return {
    url,
    folder,
    browser,
    async open(hash) {
      shared ??= await newVisit(browser, { serviceWorkers: 'block' });
      await shared.page.mouse.move(0, 0); // what the pointer rests on lights up
      shared.complaints.length = 0;
      await shared.page.goto(`${url}?${documents++}${hash}`); // by the hash alone it would be the same document
      return shared;
    },
    close: () => browser.close(),
  };
}

/** A fresh visitor. */
export async function visit(site: Site, hash = '', options: BrowserContextOptions = {}): Promise<Visit> {
  const made = await newVisit(site.browser, options);
  await made.page.goto(site.url + hash);
  return made;
}

async function newVisit(browser: Browser, options: BrowserContextOptions): Promise<Visit> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    reducedMotion: 'reduce',
    ...options,
  });
  context.setDefaultTimeout(120_000); // for a busy machine
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  return { page, context, complaints };
}

/**
 * Gives the workers of pages that are loaded from now on a clock that advances by 50 ms whenever it is read: the speed room then
 * measures at once, and the same on every machine.
 */
export async function giveOwnClock(context: BrowserContext): Promise<void> {
  await context.route(/worker-.*\.js/, async (route) => {
    const response = await route.fetch();
    const clock = '{ let now = 0; performance.now = () => (now += 50); }';
    await route.fulfill({ response, body: `${clock}${await response.text()}` });
  });
}

/** Waits for two animation frames: by then the page's observers have seen a changed layout, and their changes are drawn. */
export const drawn = (page: Page): Promise<void> =>
  page.evaluate(
    () => new Promise<void>((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve()))),
  );

/** The numbers that a matrix of the page shows; `-Infinity` where it shows that. */
export async function shownMatrix(page: Page, id: string): Promise<number[][]> {
  await page.waitForSelector(`#${id} td`);
  const rows = await page.$$eval(`#${id} tbody tr`, (found) =>
    found.map((row) =>
      [...row.querySelectorAll('td')].map((cell) => cell.querySelector('input')?.value ?? cell.textContent ?? ''),
    ),
  );
  return rows.map((row) => row.map((text) => (text === '−∞' ? -Infinity : Number(text.replace('−', '-')))));
}

/** Numbers shown with two decimals are right to half a hundredth. */
export const shownWithin = 0.00501;

export function largestDifference(a: number[][], b: number[][]): number {
  if (a.length !== b.length || a.some((row, i) => row.length !== b[i]!.length)) return Infinity;
  return Math.max(
    ...a.flatMap((row, i) => row.map((entry, j) => (entry === b[i]![j] ? 0 : Math.abs(entry - b[i]![j]!)))),
  );
}
