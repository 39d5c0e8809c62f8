/** The page as a whole: its weight, its policy, offline, old browsers, accessibility, and a main thread that never stalls. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import type { AxeResults } from 'axe-core';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSite, type Site, shownMatrix, visit } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite('page');
});
afterAll(() => site?.close());

const rooms = ['#hand?positions=add&heads=2', '#text', '#text?view=map', '#model', '#speed'];

/** Until a room has all that it shows on its own. */
async function settled(page: Page): Promise<void> {
  await page.getByText(/build \(/).waitFor();
  await expect.poll(() => page.locator('.state-of-things').innerText(), { timeout: 30_000 }).not.toContain('loading');
  await expect.poll(() => page.locator('.waiting').count()).toBe(0);
  await page.waitForTimeout(500);
}

/** To another room as one goes by a link: nothing is loaded anew. */
async function enter(page: Page, room: string): Promise<void> {
  await page.evaluate((hash) => {
    location.hash = hash;
  }, room);
  await settled(page);
}

const files = async (page: Page): Promise<string[]> =>
  page.evaluate(() =>
    performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname.split('/heed/')[1]!),
  );

interface TraceEvent {
  name: string;
  pid: number;
  tid: number;
  args?: { name?: string };
  /** The thread's own time, in microseconds: what other processes of a busy machine take is not in it. */
  tdur?: number;
}

/** Milliseconds of the tasks of pages' main threads, longest first. */
function longestTasks(trace: Buffer): number[] {
  const { traceEvents } = JSON.parse(trace.toString()) as { traceEvents: TraceEvent[] };
  const thread = ({ pid, tid }: TraceEvent) => `${pid} ${tid}`;
  const main = new Set(
    traceEvents.filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain').map(thread),
  );
  return traceEvents
    .filter((event) => event.name.endsWith('RunTask') && event.tdur !== undefined && main.has(thread(event)))
    .map(({ tdur }) => tdur! / 1000)
    .sort((a, b) => b - a);
}

describe('the page', () => {
  it('weighs under 350 KB without the model, all rooms together', async () => {
    const { page, context } = await visit(site, '#hand?positions=add', { serviceWorkers: 'block' });
    const fetched = new Set<string>(['index.html']);
    page
      .context()
      .on('request', (request) => fetched.add(new URL(request.url()).pathname.split('/heed/')[1] || 'index.html'));
    for (const room of rooms) {
      await page.goto(site.url + room);
      await page.reload();
      await settled(page);
    }
    for (const name of await files(page)) fetched.add(name);
    const model = /safetensors|words-/;
    const weights = await Promise.all(
      [...fetched]
        .filter((name) => !model.test(name))
        .map(async (name) => ({ name, bytes: brotliCompressSync(await readFile(join(site.folder, name))).length })),
    );
    const total = weights.reduce((sum, { bytes }) => sum + bytes, 0);
    console.log(`page weight, brotli: ${total} bytes`, weights);
    expect(weights.map(({ name }) => name).join(' ')).toMatch(/\.wasm/);
    expect(total).toBeLessThan(350_000);
    await context.close();
  });

  it('paints before the module is there', async () => {
    const context = await site.browser.newContext();
    const page = await context.newPage();
    await page.route(/\.wasm|worker-/, () => {});
    await page.goto(site.url);
    await page.getByRole('heading', { name: 'Attention by hand' }).waitFor();
    expect(await page.locator('.waiting').innerText()).toContain('as soon as the module has loaded');
    await context.close();
  });

  it('keeps to its content policy in every room, with the header and with the page’s own tag', async () => {
    const { page, complaints, context } = await visit(site);
    for (const room of rooms) await enter(page, room);
    expect(complaints).toEqual([]);
    expect(await page.locator('meta[http-equiv="Content-Security-Policy"]').getAttribute('content')).toContain(
      "script-src 'self' 'wasm-unsafe-eval'",
    );
    expect(await page.evaluate(() => crossOriginIsolated)).toBe(false);
    await context.close();
  });

  it('works with the network cut after it has loaded, and opens again without one', async () => {
    const { page, context, complaints } = await visit(site, '#text');
    await page.getByText('Saved: works offline').waitFor({ timeout: 30_000 });
    await context.setOffline(true);
    await page.getByText('You are offline; the page works on.').waitFor();
    await page.getByLabel('Your sentences').fill('Nothing goes over the wire.\nAll is computed here.');
    await expect.poll(async () => (await shownMatrix(page, 'shipped-cosines')).length).toBe(2);
    await page.reload();
    await page.locator('.words li').first().waitFor();
    await page.goto(`${site.url}#hand?positions=add`);
    await page.locator('.plots svg').first().waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });

  it('needs nothing more once it says so, without a service worker too', async () => {
    const { page, context } = await visit(site, '#hand', { serviceWorkers: 'block' });
    await page.getByText('Loaded: makes no further requests.').waitFor({ timeout: 30_000 });
    await context.setOffline(true);
    const requests: string[] = [];
    context.on('request', (request) => request.url().endsWith('/favicon.svg') || requests.push(request.url()));
    await page.getByRole('button', { name: 'Positions', exact: true }).click();
    await page.locator('.plots svg').first().waitFor();
    await page.getByRole('link', { name: 'Your text' }).click();
    await page.locator('.words li').first().waitFor();
    await page.locator('.plot svg').first().waitFor();
    await page.getByRole('link', { name: 'Speed' }).click();
    await page.getByRole('button', { name: 'Measure' }).click();
    await page.getByRole('button', { name: 'Copy as text' }).waitFor({ timeout: 60_000 });
    expect(requests).toEqual([]);
    await context.close();
  });

  it('makes no request while one types', async () => {
    const { page, context } = await visit(site, '#text');
    await page.getByText('Saved: works offline').waitFor({ timeout: 30_000 });
    await page.locator('.words li').first().waitFor();
    await page.locator('.plot svg').first().waitFor();
    const requests: string[] = [];
    // Chromium asks for the icon whenever the address changes, and gets the kept one.
    context.on('request', (request) => request.url().endsWith('/favicon.svg') || requests.push(request.url()));
    await page.getByLabel('Your sentences').fill('A sentence\nand another');
    await expect.poll(async () => (await shownMatrix(page, 'shipped-cosines')).length).toBe(2);
    await page.getByLabel('Describe a thing').fill('a place to sleep');
    await page.waitForTimeout(500);
    expect(requests).toEqual([]);
    await context.close();
  });

  it.each(['simd128', 'relaxed-simd'])('runs on the %s build, with the same numbers', async (build) => {
    const { page, context, complaints } = await visit(site, `#hand?build=${build}`);
    await page.getByText(`${build} build (asked for)`).waitFor();
    const [x, output] = [await shownMatrix(page, 'x'), await shownMatrix(page, 'output')];
    expect(x.length).toBe(4);
    const plain = await visit(site, '#hand');
    expect(output).toEqual(await shownMatrix(plain.page, 'output'));
    await plain.context.close();
    expect(complaints).toEqual([]);
    await context.close();
  });
  it('explains itself to a browser without SIMD', async () => {
    const context = await site.browser.newContext({ serviceWorkers: 'block' });
    const page = await context.newPage();
    await page.route(/worker-.*\.js/, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: `WebAssembly.validate = () => false;${await response.text()}` });
    });
    await page.goto(`${site.url}#text`);
    await page.getByText('This browser is too old for heed.').waitFor();
    expect(await page.getByRole('alert').innerText()).toMatch(/Safari 16\.4/);
    // The rest of the page goes on.
    await page.getByRole('link', { name: 'Speed' }).click();
    await page.getByRole('heading', { name: 'Speed', exact: true }).waitFor();
    await context.close();
  });

  it('says what is wrong when the module or the worker cannot be had', async () => {
    const context = await site.browser.newContext({ serviceWorkers: 'block' });
    const page = await context.newPage();
    await page.route(/\.wasm$/, (route) =>
      route.fulfill({ contentType: 'text/html', body: '<!doctype html>not found' }),
    );
    await page.goto(`${site.url}#text`);
    const alert = page.getByRole('alert');
    await expect.poll(() => alert.innerText()).toMatch(/heed could not start.*HTML page.*\.wasm/s);
    await page.unroute(/\.wasm$/);
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.locator('.words li').first().waitFor();

    await page.route(/worker-.*\.js$/, (route) => route.abort());
    await page.reload();
    await expect.poll(() => alert.innerText()).toContain('heed could not start');
    await context.close();
  });

  it('never holds the main thread for 50 ms while one types', async () => {
    const { page, context } = await visit(site, '#text');
    await settled(page);
    await page.locator('.plot svg').first().waitFor();
    await page.getByLabel('Your sentences').click();
    await page.keyboard.press('Control+End');
    await site.browser.startTracing(page, {
      categories: ['toplevel', 'disabled-by-default-devtools.timeline', '__metadata'],
    });
    await page.keyboard.type(' It was a bright cold day in April, and the clocks were striking.', { delay: 40 });
    await page.getByLabel('Describe a thing').click();
    await page.keyboard.type(' that one cannot leave', { delay: 40 });
    await page.getByRole('link', { name: 'By hand' }).click();
    await page.locator('#x input').first().click();
    await page.keyboard.type('-1.25', { delay: 40 });
    await page.waitForTimeout(500);
    const longest = longestTasks(await site.browser.stopTracing());
    console.log('longest tasks of the main thread while typing, ms of its own time:', longest.slice(0, 5));
    expect(longest.length).toBeGreaterThan(50);
    expect(longest[0]).toBeLessThan(50);
    await context.close();
  });

  it('has no accessibility violation that axe finds, in light and dark, on a desktop and a phone', async () => {
    const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
    // The policy that the page lives under would forbid the checker too.
    const { page, context } = await visit(site, '', { bypassCSP: true });
    await page.evaluate(axe);
    for (const room of rooms) {
      await enter(page, room);
      for (const [colorScheme, width] of [
        ['light', 1280],
        ['dark', 1280],
        ['light', 360],
      ] as const) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 800 });
        const { violations } = await page.evaluate(() =>
          (globalThis as unknown as { axe: { run(): Promise<AxeResults> } }).axe.run(),
        );
        const found = violations.map(
          ({ id, nodes }) =>
            `${id}: ${nodes
              .map(({ html }) => html)
              .slice(0, 3)
              .join(' ')}`,
        );
        expect(found, `${room}, ${colorScheme}, ${width} px`).toEqual([]);
      }
    }
    await context.close();
  });

  it('never scrolls sideways, from a phone to a projector', async () => {
    const { page, context } = await visit(site);
    for (const room of rooms) {
      await enter(page, room);
      for (const width of [360, 768, 1280, 2560]) {
        await page.setViewportSize({ width, height: 800 });
        await page.waitForTimeout(100);
        const overflow = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        expect(overflow, `${room} at ${width}`).toBeLessThanOrEqual(0);
      }
    }
    await context.close();
  });

  it('takes the theme that one chooses, and keeps it in the link', async () => {
    const { page, context } = await visit(site, '#hand', { colorScheme: 'light' });
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await ground();
    await page.getByText('dark', { exact: true }).click();
    expect(await ground()).not.toBe(light);
    await expect.poll(() => page.url()).toContain('theme=dark');
    await context.close();
  });
});
