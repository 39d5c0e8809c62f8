/** The demo as a static folder: under any path, its share picture, and what it requests before it can be used. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { drawn, newVisit, openSite, type Site } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

describe('below a longer path', () => {
  it('shows every page, requests nothing outside the path, and opens again offline', async () => {
    const { page, context, complaints } = await newVisit(site.browser);
    const requested: string[] = [];
    context.on('request', (request) => requested.push(request.url()));
    await page.goto(site.deepUrl);
    await page.getByRole('button', { name: 'Compute this weight by hand' }).click();
    await page.locator('#attention td').first().waitFor();
    await page.getByRole('link', { name: 'Meaning' }).click();
    for (const part of ['.words .word', '#cosines td', '.passages li']) await page.locator(part).first().waitFor();
    await page.getByText('your own', { exact: true }).click();
    await page.getByText('Drop a model folder').waitFor();
    await page.getByRole('link', { name: 'Speed' }).click();
    await page.getByRole('button', { name: 'Measure' }).waitFor();
    await page.getByText('Saved: the page now works offline').waitFor();
    expect(requested.filter((url) => !url.startsWith(site.deepUrl))).toEqual([]);
    await context.setOffline(true);
    await page.goto(`${site.deepUrl}#meaning`);
    await page.reload();
    await page.locator('.words .word').first().waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });
});

describe('the share picture', () => {
  it('is a PNG of 1200 by 630 and at most 150 KB, which the page names', async () => {
    const html = await readFile(join(site.folder, 'index.html'), 'utf8');
    const contentOf = (name: string) => new RegExp(`(?:property|name)="${name}"\\s+content="([^"]+)"`).exec(html)?.[1];
    expect(new URL(contentOf('og:image')!).href).toMatch(/^https:.*\/share\.png$/);
    expect(contentOf('twitter:card')).toBe('summary_large_image');
    for (const name of ['description', 'og:title', 'og:description', 'og:image:alt'])
      expect(contentOf(name)).toMatch(/\w+/);
    const picture = await readFile(join(site.folder, 'share.png'));
    expect(picture.toString('latin1', 1, 4)).toBe('PNG');
    expect([picture.readUInt32BE(16), picture.readUInt32BE(20)]).toEqual([1200, 630]);
    expect(picture.length).toBeLessThan(150_000);
  });
});

/** What the first page needs: its document, style sheet and scripts. */
const isNeeded = /^($|index-[\w-]+\.(js|css)$|(early|import|rolldown-runtime)-[\w-]+\.js$)/;
const nameOf = (url: string) => new URL(url).pathname.slice('/heed/'.length).replace('assets/', '');
const sizeOf = async (name: string) => {
  const file = await readFile(join(site.folder, name === '' ? 'index.html' : `assets/${name}`));
  return { name, bytes: /woff2$/.test(name) ? file.length : brotliCompressSync(file).length };
};

describe('the first visit', () => {
  it('downloads at most 230 KB before the model', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    const names: string[] = [];
    let release = () => {};
    const requested = new Promise<void>((resolve) => {
      release = resolve;
    });
    await context.route(/model-[\w-]+\.safetensors/, () => release()); // waits forever
    context.on('request', (request) => names.push(nameOf(request.url())));
    await page.goto(site.url);
    await requested;
    const isCounted = (name: string) => !/safetensors$|^favicon/.test(name);
    const sizes = await Promise.all([...new Set(names.filter(isCounted))].map(sizeOf));
    const total = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
    console.log(`before the model, brotli: ${total} bytes`, sizes);
    expect(sizes.map(({ name }) => name).join(' ')).toMatch(/\.wasm/);
    expect(total).toBeLessThan(230_000);
    await context.close();
  });

  // Its time, which depends on the machine, is measured by bench/page-load.mjs.
  it.each([1280, 390])(
    'the largest contentful paint at %i px needs nothing but the page’s own files',
    async (width) => {
      const { page, context } = await newVisit(site.browser, {
        serviceWorkers: 'block',
        viewport: { width, height: 844 },
      });
      let release = () => {};
      const released = new Promise<void>((resolve) => {
        release = resolve;
      });
      await context.route('**/*', async (route) => {
        if (!isNeeded.test(nameOf(route.request().url()))) await released;
        await route.continue();
      });
      const largest = () =>
        page.evaluate(
          () =>
            new Promise<{ text: string; at: number }>((resolve) =>
              new PerformanceObserver((list) => {
                const { element, startTime } = list.getEntries().at(-1) as PerformanceEntry & { element: Element };
                resolve({ text: element.textContent!, at: startTime });
              }).observe({ type: 'largest-contentful-paint', buffered: true }),
            ),
        );
      await page.goto(site.url, { waitUntil: 'commit' });
      await page.locator('.path b').first().waitFor();
      await drawn(page);
      const early = await largest();
      release();
      await page.getByText('Loaded:').waitFor();
      await drawn(page);
      expect(await largest()).toEqual(early);
      console.log(`largest contentful paint at ${width} px: ${early.text}`);
      await context.close();
    },
  );
});

describe('before the page can be used', () => {
  it.each([
    { hash: '', shown: '.path b', others: /^$/, needsModule: false },
    {
      hash: '#compute?all=1',
      shown: '#output td',
      others: /^(?!plot|worker|threads|learning)[\w-]+\.js$/,
      needsModule: true,
    },
  ])('“$hash” requests its document, style, scripts and the module', async ({ hash, shown, others, needsModule }) => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    const needed = new Set<string>();
    const isModule = /^heed-relaxed-simd-[\w-]+\.wasm$/;
    await context.route('**/*', async (route) => {
      const path = nameOf(route.request().url());
      if (!isNeeded.test(path) && !others.test(path) && !(needsModule && isModule.test(path))) return; // waits forever
      needed.add(path);
      await route.continue();
    });
    await page.goto(`${site.url}${hash}`, { waitUntil: 'commit' });
    await page.locator(shown).first().waitFor();
    const sizes = await Promise.all([...needed].map(sizeOf));
    const total = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
    console.log(`before the page can be used, brotli: ${total} bytes`, sizes);
    // 200 KB arrive in a second at 1.6 Mbit/s, see bench/page-load.mjs.
    expect(total).toBeLessThan(needsModule ? 238_000 : 60_000);
    await context.close();
  });

  it('shows how far the model is while one can already write', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    await context.route(/model-[\w-]+\.safetensors/, () => {});
    await page.goto(`${site.url}#meaning`);
    await page.getByRole('progressbar', { name: 'The model' }).waitFor();
    await page.getByLabel('Your sentences').fill('Written before the model is there.');
    await context.close();
  });
});
