/** The page as a whole: its weight, its policy, offline, old browsers, accessibility, and work that is done off the main thread. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { drawn, giveOwnClock, openSite, type Site, shownMatrix, visit } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

/** Links to the rooms, each with the last of what it shows on its own. */
const rooms: [hash: string, ...shown: string[]][] = [
  ['#hand?positions=add&heads=2', '#mixed td', '.plots svg'],
  ['#text', '.words li', '#shipped-cosines td', '.plot svg'],
  ['#text?view=map', '.map-area canvas', '.plot svg'],
  ['#model', '.drop'],
  ['#speed', '.plot svg'],
];

/** Goes to a room as one does by a link, loading nothing anew, and waits until all of it is there. */
async function enter(page: Page, [hash, ...shown]: (typeof rooms)[number]): Promise<void> {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
  await page
    .locator('.state-of-things')
    .getByText(/Loaded:|Saved:/)
    .waitFor();
  for (const part of shown) await page.locator(part).first().waitFor();
  await page.waitForFunction(
    () => !document.querySelector('.waiting, .plot:empty'), // a plot is empty until it is drawn
  );
  await drawn(page);
}

describe('the page', () => {
  it('weighs under 350 KB without the model, all rooms together', async () => {
    const context = await site.browser.newContext({ serviceWorkers: 'block' });
    const fetched = new Set<string>();
    context.on('request', (request) => fetched.add(new URL(request.url()).pathname.split('/heed/')[1] || 'index.html'));
    const page = await context.newPage();
    await page.goto(site.url);
    for (const room of rooms) await enter(page, room);
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
    await page.getByText('Saved: works offline').waitFor();
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
    await page.getByText('Saved: works offline').waitFor();
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
    const { page, context } = await visit(site, '', { serviceWorkers: 'block' });
    await giveOwnClock(context);
    await page.reload();
    await page.getByText('Loaded: makes no further requests.').waitFor();
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
    await page.getByRole('button', { name: 'Copy as text' }).waitFor();
    expect(requests).toEqual([]);
    await context.close();
  });

  it('makes no request while one types', async () => {
    const { page, context } = await visit(site, '#text');
    await page.getByText('Saved: works offline').waitFor();
    await page.locator('.words li').first().waitFor();
    await page.locator('.plot svg').first().waitFor();
    const requests: string[] = [];
    // Chromium asks for the icon whenever the address changes, and gets the kept one.
    context.on('request', (request) => request.url().endsWith('/favicon.svg') || requests.push(request.url()));
    await page.getByLabel('Your sentences').fill('A sentence\nand another');
    await expect.poll(async () => (await shownMatrix(page, 'shipped-cosines')).length).toBe(2);
    const words = await page.locator('.words .word').allInnerTexts();
    await page.getByLabel('Describe a thing').fill('a place to sleep');
    await expect.poll(() => page.locator('.words .word').allInnerTexts()).not.toEqual(words);
    await expect.poll(() => page.url()).toContain('define=a+place+to+sleep'); // the last that typing does
    expect(requests).toEqual([]);
    await context.close();
  });

  it.each(['simd128', 'relaxed-simd'])('runs on the %s build, with the same numbers', async (build) => {
    const { page, complaints } = await site.open(`#hand?build=${build}`);
    await page.getByText(`${build} build (asked for)`).waitFor();
    const [x, output] = [await shownMatrix(page, 'x'), await shownMatrix(page, 'output')];
    expect(x.length).toBe(4);
    await site.open('#hand');
    expect(output).toEqual(await shownMatrix(page, 'output'));
    expect(complaints).toEqual([]);
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

  it('computes in its worker, one task of a kind at a time, however fast one types', async () => {
    const { page, context } = await visit(site, '', { serviceWorkers: 'block' });
    // bench/page-responsiveness.mjs measures how long the main thread is held.
    await page.addInitScript(() => {
      const seen = { webAssembly: 0, tasks: {} as Record<string, { now: number; most: number; all: number }> };
      Object.assign(globalThis, { seen });
      const { WebAssembly: engine, Worker: Plain } = globalThis;
      Object.defineProperty(globalThis, 'WebAssembly', {
        get() {
          seen.webAssembly++;
          return engine;
        },
      });
      /** Counts calls by method, from a request of Comlink to its answer. */
      globalThis.Worker = class extends Plain {
        private readonly waiting = new Map<string, { now: number }>();

        constructor(url: string | URL, options?: WorkerOptions) {
          super(url, options);
          // Before Comlink listens, which may send the next request at once.
          this.addEventListener('message', ({ data: { id } }) => {
            const task = this.waiting.get(id);
            if (task) task.now--;
            this.waiting.delete(id);
          });
        }

        override postMessage(message: { id: string; path?: string[] }, ...rest: unknown[]) {
          const method = message.path?.join('.') ?? '';
          seen.tasks[method] ??= { now: 0, most: 0, all: 0 };
          const task = seen.tasks[method];
          this.waiting.set(message.id, task);
          task.all++;
          task.most = Math.max(task.most, ++task.now);
          super.postMessage(message, ...(rest as []));
        }
      };
    });
    await page.reload();
    /** Types all letters in one task, in which nothing can be answered. */
    const type = (letters: string) =>
      page.evaluate((text) => {
        const input = document.activeElement as HTMLInputElement;
        for (const letter of text) {
          input.value += letter;
          input.dispatchEvent(new InputEvent('input', { bubbles: true }));
        }
      }, letters);

    await enter(page, rooms[1]!);
    const cosines = await shownMatrix(page, 'shipped-cosines');
    const words = await page.locator('.words .word').allInnerTexts();
    await page.getByLabel('Your sentences').focus();
    await type('\nIt was a bright cold day in April, and the clocks were striking.');
    await page.getByLabel('Describe a thing').focus();
    await type(' that one cannot leave');
    await expect.poll(async () => (await shownMatrix(page, 'shipped-cosines')).length).toBe(cosines.length + 1);
    await expect.poll(() => page.locator('.words .word').allInnerTexts()).not.toEqual(words);
    await enter(page, rooms[0]!);
    await page.locator('#x input').first().focus();
    await type('.25');
    await expect.poll(async () => (await shownMatrix(page, 'x'))[0]![0]).toBe(1.25);

    const seen = await page.evaluate(
      () =>
        (
          globalThis as unknown as {
            seen: { webAssembly: number; tasks: Record<string, { most: number; all: number }> };
          }
        ).seen,
    );
    expect(seen.webAssembly).toBe(0);
    for (const method of ['attention', 'similarity', 'projection', 'define', 'hand']) {
      expect(seen.tasks[method]!.most, method).toBe(1);
      expect(seen.tasks[method]!.all, method).toBeGreaterThan(1);
    }
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
        await drawn(page);
        const violations = await page.evaluate(async () => {
          const { axe } = globalThis as unknown as { axe: typeof import('axe-core') };
          // Without the lists of what is in order, which take most of the time.
          return (await axe.run({ resultTypes: ['violations'] })).violations;
        });
        const found = violations.map(
          ({ id, nodes }) =>
            `${id}: ${nodes
              .map(({ html }) => html)
              .slice(0, 3)
              .join(' ')}`,
        );
        expect(found, `${room[0]}, ${colorScheme}, ${width} px`).toEqual([]);
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
        await drawn(page);
        await expect
          .poll(
            () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),
            {
              message: `${room[0]} at ${width}`,
            },
          )
          .toBeLessThanOrEqual(0);
      }
    }
    await context.close();
  });

  it('takes the theme that one chooses, and keeps it in the link', async () => {
    const { page } = await site.open('#hand');
    await page.emulateMedia({ colorScheme: 'light' });
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await ground();
    await page.getByText('dark', { exact: true }).click();
    await expect.poll(ground).not.toBe(light);
    await expect.poll(() => page.url()).toContain('theme=dark');
  });
});
