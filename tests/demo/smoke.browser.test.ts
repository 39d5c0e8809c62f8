/** Every page of the demo once: complete, within its content security policy, and offline. `npm run test:demo` tests all else. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { enter, pages } from './pages';
import { openSite, type Site, shownMatrix, visit } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

describe('the page', () => {
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
    const { page, context, complaints } = await visit(site, '#meaning');
    await page.getByText('Saved: the page now works offline').waitFor();
    await context.setOffline(true);
    await page.getByText('You are offline; the page still works').waitFor();
    await page.getByLabel('Your sentences').fill('Nothing goes over the wire.\nAll is computed here.');
    await expect.poll(async () => (await shownMatrix(page, 'cosines')).length).toBe(2);
    await page.reload();
    await page.locator('.words .word').first().waitFor();
    await page.goto(`${site.url}#compute?all=1&positions=add`);
    await page.locator('.plots svg').first().waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });
});
