/** The demo page, built and served by setup.ts, in Chromium. */
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { inject } from 'vitest';
import { pack } from '../../demo/src/engine/learning/shared';
import { launchChromium } from '../../tools/chromium.mjs';

export interface Visit {
  page: Page;
  context: BrowserContext;
  /** Errors and violations of the content security policy, from the console. */
  complaints: string[];
}

export interface Site {
  url: string;
  /** The same demo under a longer path. */
  deepUrl: string;
  /** The same demo with the headers that isolate it from other origins. */
  isolatedUrl: string;
  /** The same demo, in which files that can wait arrive late. */
  slowUrl: string;
  folder: string;
  browser: Browser;
  /**
   * Loads the page again at `hash`, in a tab that all tests of a file share. A new document in the same process takes a third
   * of the time of a new browser context. `file`: another one than the page.
   */
  open(hash: string, file?: string): Promise<Visit>;
  close(): Promise<void>;
}

export async function openSite(): Promise<Site> {
  const { url, deepUrl, isolatedUrl, slowUrl, folder } = inject('demo');
  const browser: Browser = await launchChromium();
  let shared: Visit | undefined;
  let documents = 0;
  return {
    url,
    deepUrl,
    isolatedUrl,
    slowUrl,
    folder,
    browser,
    async open(hash, file = '') {
      shared ??= await newVisit(browser, { serviceWorkers: 'block' });
      await shared.page.mouse.move(0, 0); // cells under the pointer are highlighted
      shared.complaints.length = 0;
      await shared.page.goto(`${url}${file}?${documents++}${hash}`); // a change of the hash alone would keep the document
      return shared;
    },
    close: () => browser.close(),
  };
}

/** Opens the page in a new browser context. */
export async function visit(site: Site, hash = '', options: BrowserContextOptions = {}): Promise<Visit> {
  const made = await newVisit(site.browser, options);
  await made.page.goto(site.url + hash);
  return made;
}

/** A page in a new browser context, before it has loaded anything. */
export async function newVisit(browser: Browser, options: BrowserContextOptions = {}): Promise<Visit> {
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
 * Gives pages that are loaded from now on a clock that advances by 50 ms with each reading, so that the speed page measures
 * quickly and gets the same results on every machine.
 */
export const giveOwnClock = (context: BrowserContext) =>
  context.addInitScript(() => {
    let now = 0;
    performance.now = () => (now += 50);
  });

/** Waits for two animation frames, after which the page's observers have reacted to a new layout and the result is drawn. */
export const drawn = (page: Page): Promise<void> =>
  page.evaluate(
    () => new Promise<void>((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve()))),
  );

/** The numbers that a matrix on the page shows; −∞ is `-Infinity`. */
export async function shownMatrix(page: Page, id: string): Promise<number[][]> {
  await page.waitForSelector(`#${id} td`);
  const rows = await page.$$eval(`#${id} tbody tr`, (found) =>
    found.map((row) =>
      [...row.querySelectorAll('td')].map((cell) => cell.querySelector('input')?.value ?? cell.textContent ?? ''),
    ),
  );
  return rows.map((row) => row.map((text) => (text === '−∞' ? -Infinity : Number(text.replace('−', '-')))));
}

/** The rounding error of numbers with two decimals. */
export const shownWithin = 0.00501;

export function largestDifference(a: number[][], b: number[][]): number {
  if (a.length !== b.length || a.some((row, i) => row.length !== b[i]!.length)) return Infinity;
  return Math.max(
    ...a.flatMap((row, i) => row.map((entry, j) => (entry === b[i]![j] ? 0 : Math.abs(entry - b[i]![j]!)))),
  );
}

const row = (phase: number) => Array.from({ length: 384 }, (_, i) => Math.sin(phase + i));

/** The parameters of a link with a classifier of two labels, as “Teach it your labels” copies it. */
export const sharedLabels = new URLSearchParams({
  classifier: pack({ labels: ['it’s up', 'down'], weight: [row(0), row(2)], bias: [0, 0.5] })!,
  test: "A ladder's top.",
});
