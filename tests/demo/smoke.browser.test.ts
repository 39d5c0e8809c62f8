/** Every page of the demo once: complete, within its content security policy, offline, and small. `npm run test:demo` tests all else. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enter, pages } from './pages';
import { newVisit, openSite, type Site, shownMatrix, visit } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

describe('the page', () => {
  it('weighs under 436 KB without the model, all pages together', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    const fetched = new Set<string>();
    context.on('request', (request) => fetched.add(new URL(request.url()).pathname.split('/heed/')[1] || 'index.html'));
    await page.goto(site.url);
    // “Learning” and the lens are loaded when they are opened.
    for (const hash of Object.keys(pages).filter((hash) => !/learning|lens/.test(hash))) await enter(page, hash);
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
    expect(total).toBeLessThan(436_000);
    await context.close();
  });

  it('complies with its content security policy on every page, with the header and with the page’s own tag', async () => {
    const { page, complaints, context } = await visit(site);
    await page.getByText('Saved: the page now works offline').waitFor();
    for (const hash of Object.keys(pages)) await enter(page, hash);
    expect(complaints).toEqual([]);
    expect(await page.locator('meta[http-equiv="Content-Security-Policy"]').getAttribute('content')).toContain(
      "script-src 'self' 'wasm-unsafe-eval'",
    );
    expect(await page.evaluate(() => crossOriginIsolated)).toBe(false);
    await context.close();
  });

  it('works offline after it has loaded, and opens again offline', async () => {
    const { page, context, complaints } = await visit(site, '#text');
    await page.getByText('Saved: the page now works offline').waitFor();
    await context.setOffline(true);
    await page.getByText('You are offline; the page still works').waitFor();
    await page.getByLabel('Your sentences').fill('Nothing goes over the wire.\nAll is computed here.');
    await expect.poll(async () => (await shownMatrix(page, 'shipped-cosines')).length).toBe(2);
    await page.reload();
    await page.locator('.words .word').first().waitFor();
    await page.goto(`${site.url}#hand?positions=add`);
    await page.locator('.plots svg').first().waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });
});
