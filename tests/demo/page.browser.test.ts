/** The demo as a whole: its size, what it requests, old browsers, accessibility, and its use of the worker. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enter, pages } from './pages';
import { drawn, giveOwnClock, newVisit, openSite, type Site, shownMatrix, visit } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

/** Opens the page in a browser in which `WebAssembly.validate` accepts only some modules. */
async function visitWithout(accepts: (module: Uint8Array) => boolean, hash: string) {
  const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
  await page.addInitScript(`WebAssembly.validate = ${accepts}`);
  await page.goto(site.url + hash);
  return { page, context };
}

describe('the page', () => {
  it('weighs under 500 KB without the model, all pages together', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    const fetched = new Set<string>();
    context.on('request', (request) => fetched.add(new URL(request.url()).pathname.split('/heed/')[1] || 'index.html'));
    await page.goto(site.url);
    // “Watch it learn” and the lens are loaded when they are opened.
    for (const hash of Object.keys(pages).filter((hash) => !/learn|teach|inside/.test(hash))) await enter(page, hash);
    const model = /safetensors|words-/;
    const weights = await Promise.all(
      [...fetched]
        .filter((name) => !model.test(name))
        .map(async (name) => ({ name, bytes: brotliCompressSync(await readFile(join(site.folder, name))).length })),
    );
    const total = weights.reduce((sum, { bytes }) => sum + bytes, 0);
    console.log(`page weight, brotli: ${total} bytes`, weights);
    const names = weights.map(({ name }) => name).join(' ');
    expect(names).toMatch(/\.wasm/);
    expect(names).not.toMatch(/learning|train/);
    expect(total).toBeLessThan(500_000);
    await context.close();
  });

  it('is drawn before the module has loaded', async () => {
    const { page, context } = await newVisit(site.browser);
    await page.route(/\.wasm|worker-/, () => {});
    await page.goto(`${site.url}#compute?all=1`);
    await page.getByRole('heading', { name: 'Compute' }).waitFor();
    expect(await page.locator('.waiting').innerText()).toContain('when the module has loaded');
    await context.close();
  });

  it('follows an address that changes before the previous one is written', async () => {
    const { page, context } = await newVisit(site.browser);
    await page.addInitScript(() => {
      const { setTimeout: plain } = globalThis;
      const timers: (() => void)[] = [];
      const record = (task: () => void, delay = 0) => {
        if (delay < 5000) timers.push(task); // longer ones limit how long something is waited for
        return plain(task, delay);
      };
      Object.assign(globalThis, { timers, setTimeout: record });
    });
    await page.goto(site.url);
    await page.evaluate(() => {
      location.hash = '#meaning';
      // As if they became due before the hashchange event is delivered.
      for (const task of (globalThis as unknown as { timers: (() => void)[] }).timers) task();
    });
    await page.locator('.words .word').first().waitFor();
    await context.close();
  });

  it('opens “Watch it learn” offline once it has been opened', async () => {
    const { page, context, complaints } = await visit(site, '');
    await page
      .getByText(
        'Saved: the page now works offline, except “Watch it learn” and “Teach it” until they have been opened.',
      )
      .waitFor();
    await page.goto(`${site.url}#teach`);
    await page.locator('.mattered:not([aria-hidden]) li').first().waitFor();
    await page.getByText('Saved: the page now works offline.').waitFor();
    await context.setOffline(true);
    await page.reload();
    await page.locator('.mattered:not([aria-hidden]) li').first().waitFor();
    await page.getByRole('link', { name: 'Watch it learn' }).click();
    await page.getByRole('button', { name: 'One step' }).click();
    await page.locator('.gradients td').first().waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });

  it('makes no further request once it says so, even without a service worker', async () => {
    const { page, context } = await visit(site, '', { serviceWorkers: 'block' });
    await giveOwnClock(context);
    await page.reload();
    await page.getByText('Loaded: the page makes no further requests of its own.').waitFor();
    await context.setOffline(true);
    const requests: string[] = [];
    context.on('request', (request) => request.url().endsWith('/favicon.svg') || requests.push(request.url()));
    await page.getByRole('button', { name: 'Compute this weight by hand' }).click();
    await page.getByRole('button', { name: 'Positions', exact: true }).click();
    await page.locator('.all-matrices summary').click();
    await page.locator('.plots svg').first().waitFor();
    await page.getByRole('link', { name: 'Meaning' }).click();
    await page.locator('.words .word').first().waitFor();
    await page.goto(`${site.url}#inside?part=states`);
    await page.locator('.plot svg').first().waitFor();
    await page.getByRole('link', { name: 'Speed' }).click();
    await page.getByRole('button', { name: 'Measure' }).click();
    await page.getByRole('button', { name: 'Copy as text' }).waitFor();
    expect(requests).toEqual([]);
    await context.close();
  });

  it('makes no request while one types', async () => {
    const { page, context } = await visit(site, '#meaning');
    await page.getByText('Saved: the page now works offline').waitFor();
    await page.locator('.words .word').first().waitFor();
    const requests: string[] = [];
    // Chromium requests the icon whenever the address changes, and gets it from the cache.
    context.on('request', (request) => request.url().endsWith('/favicon.svg') || requests.push(request.url()));
    await page.getByLabel('Your sentences').fill('A sentence\nand another');
    await expect.poll(async () => (await shownMatrix(page, 'cosines')).length).toBe(2);
    const words = await page.locator('.words .word').allInnerTexts();
    await page.getByLabel('Describe something').fill('a place to sleep');
    await expect.poll(() => page.locator('.words .word').allInnerTexts()).not.toEqual(words);
    await expect.poll(() => page.url()).toContain('define=a+place+to+sleep'); // the last effect of typing
    expect(requests).toEqual([]);
    await context.close();
  });

  it.each(['simd128', 'relaxed-simd'])('runs on the %s build, with the same numbers', async (build) => {
    const { page, complaints } = await site.open(`#compute?all=1&build=${build}`);
    await page.getByText(`${build} build (asked for)`).waitFor();
    const [x, output] = [await shownMatrix(page, 'x'), await shownMatrix(page, 'output')];
    expect(x.length).toBe(4);
    await site.open('#compute?all=1');
    expect(output).toEqual(await shownMatrix(page, 'output'));
    expect(complaints).toEqual([]);
  });

  it('explains what it needs to a browser without SIMD', async () => {
    const { page, context } = await visitWithout(() => false, '#meaning');
    await page.getByText('This browser does not support heed.').waitFor();
    expect(await page.getByRole('alert').innerText()).toMatch(/Safari 16\.4/);
    await page.getByRole('link', { name: 'Speed' }).click();
    await page.getByRole('heading', { name: 'Speed', exact: true }).waitFor();
    await context.close();
  });

  it.each(['#compute?all=1', '#meaning', '#meaning?model=own', '#learn', '#inside?part=lens', '#speed'])(
    'offers another build on %s if the browser does not support the selected one',
    async (hash) => {
      // The feature test of relaxed SIMD contains the opcode of i16x8.relaxed_dot_i8x16_i7x16_s.
      const hasNoRelaxedSimd = (module: Uint8Array) => !module.join().includes('253,146,2');
      const { page, context } = await visitWithout(
        hasNoRelaxedSimd,
        `${hash}${hash.includes('?') ? '&' : '?'}build=relaxed-simd`,
      );
      await page.getByRole('alert').getByText('does not support the selected build').waitFor();
      await page.getByRole('button', { name: 'Select the build automatically' }).click();
      await page.getByText('simd128 build').first().waitFor();
      expect(await page.getByRole('alert').count()).toBe(0);
      expect(page.url()).not.toContain('build=');
      await context.close();
    },
  );

  it('reports that the module or the worker cannot be loaded', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    await page.route(/\.wasm$/, (route) =>
      route.fulfill({ contentType: 'text/html', body: '<!doctype html>not found' }),
    );
    await page.goto(`${site.url}#meaning`);
    const alert = page.getByRole('alert');
    await expect.poll(() => alert.innerText()).toMatch(/heed could not start.*HTML page.*\.wasm/s);
    await page.unroute(/\.wasm$/);
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.locator('.words .word').first().waitFor();

    await page.route(/worker-.*\.js$/, (route) => route.abort());
    await page.reload();
    await expect.poll(() => alert.innerText()).toMatch(/could not be loaded.*could not be downloaded/s);
    await page.unroute(/worker-.*\.js$/);
    await page.route(/worker-.*\.js$/, (route) =>
      route.fulfill({ contentType: 'text/javascript', body: 'throw new Error("at its start")' }),
    );
    await page.reload();
    await expect.poll(() => alert.innerText()).toMatch(/could not be loaded.*at its start/s);
    expect(await page.getByText('being loaded').count()).toBe(0);
    await context.close();
  });

  it('runs the model in its worker, and only for the first and the last input while one types', async () => {
    const { page, context } = await visit(site, '', { serviceWorkers: 'block' });
    // bench/page-responsiveness.mjs measures how long the main thread is blocked.
    await page.addInitScript(() => {
      const calls: Record<string, number> = {};
      Object.assign(globalThis, { calls });
      const { Worker: Plain } = globalThis;
      globalThis.Worker = class extends Plain {
        override postMessage(message: { type: string; method?: string }, ...rest: unknown[]) {
          if (message.method) calls[message.method] = (calls[message.method] ?? 0) + 1;
          super.postMessage(message, ...(rest as []));
        }
      };
    });
    await page.reload();
    const calls = () =>
      page.evaluate(() => ({ ...(globalThis as unknown as { calls: Record<string, number> }).calls }));
    /** Types all characters in one task, during which no result can arrive. */
    const type = (characters: string) =>
      page.evaluate((text) => {
        const input = document.activeElement as HTMLInputElement;
        for (const character of text) {
          input.value += character;
          input.dispatchEvent(new InputEvent('input', { bubbles: true }));
        }
      }, characters);

    await enter(page, '#meaning');
    await page.locator('#map-note').getByText('laid out by UMAP').waitFor(); // it embeds words, too
    const cosines = await shownMatrix(page, 'cosines');
    const words = await page.locator('.words .word').allInnerTexts();
    const before = await calls();
    await page.getByLabel('Your sentences').focus();
    await type('\nIt was a bright cold day in April, and the clocks were striking.');
    await expect.poll(async () => (await shownMatrix(page, 'cosines')).length).toBe(cosines.length + 1);
    await expect.poll(async () => (await calls()).embed! - before.embed!).toBe(2);
    await page.getByLabel('Describe something').focus();
    await type(' that one cannot leave');
    await expect.poll(() => page.locator('.words .word').allInnerTexts()).not.toEqual(words);
    // For the map, whose vectors may be longer than the dictionary's, each description may be embedded twice.
    await expect.poll(async () => (await calls()).embed! - before.embed!).toBeGreaterThanOrEqual(4);
    expect((await calls()).embed! - before.embed!).toBeLessThanOrEqual(6);
    await context.close();
  });

  it('has no accessibility violation that axe finds, in light and dark mode, on a desktop and a phone', async () => {
    const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
    // The page's policy would also forbid axe.
    const { page, context } = await visit(site, '', { bypassCSP: true });
    await page.evaluate(axe);
    for (const hash of Object.keys(pages)) {
      await enter(page, hash);
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
          // Without the lists of passed checks, which take most of the time.
          return (await axe.run({ resultTypes: ['violations'] })).violations;
        });
        const found = violations.map(
          ({ id, nodes }) =>
            `${id}: ${nodes
              .map(({ html }) => html)
              .slice(0, 3)
              .join(' ')}`,
        );
        expect(found, `${hash}, ${colorScheme}, ${width} px`).toEqual([]);
      }
    }
    await context.close();
  });

  it('never scrolls sideways, from a phone to a projector', async () => {
    const { page, context } = await visit(site);
    for (const hash of Object.keys(pages)) {
      await enter(page, hash);
      for (const width of [360, 768, 1280, 2560]) {
        await page.setViewportSize({ width, height: 800 });
        await drawn(page);
        await expect
          .poll(
            () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),
            {
              message: `${hash} at ${width}`,
            },
          )
          .toBeLessThanOrEqual(0);
      }
    }
    await context.close();
  });

  it('applies the chosen theme and keeps it in the link', async () => {
    const { page } = await site.open('#compute?all=1');
    await page.emulateMedia({ colorScheme: 'light' });
    const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await ground();
    await page.getByText('dark', { exact: true }).click();
    await expect.poll(ground).not.toBe(light);
    await expect.poll(() => page.url()).toContain('theme=dark');
  });
});
