/** What the page downloads: little for readers who save data, and what it says offline; faults.ts counts the builds of the module. */
import type { BrowserContext } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { newVisit, openSite, type Site, visit } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

/** The names of the files that are requested, those of the service worker included. */
function requested(context: BrowserContext): Set<string> {
  const names = new Set<string>();
  context.on('request', (request) => names.add(new URL(request.url()).pathname.split('/').at(-1)!));
  return names;
}

describe('traffic', () => {
  it('for readers who save data, the model is downloaded when it is needed', async () => {
    const { page, context, complaints } = await newVisit(site.browser);
    const names = requested(context);
    await page.addInitScript(() => {
      Object.defineProperty(navigator, 'connection', { value: { saveData: true } });
    });
    await page.goto(`${site.url}#compute?all=1`);
    await page.locator('#output td').first().waitFor();
    await page.getByText('Your browser is set to save data').waitFor();
    await page.waitForLoadState('networkidle');
    const loaded = [...names].join(' ');
    expect(loaded).not.toMatch(/safetensors|words-|plot-library|sw\.js/);
    await page.getByRole('link', { name: 'Meaning' }).click();
    await page.locator('.words .word').first().waitFor();
    expect([...names].join(' ')).toMatch(/safetensors/);
    await page.getByRole('link', { name: 'Speed' }).click();
    await page.getByRole('button', { name: 'Measure' }).waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });

  it('offline, “Watch it learn” says why it cannot be opened if it never was', async () => {
    const { page, context } = await visit(site);
    await page.getByText('Saved: the page now works offline').waitFor();
    await context.setOffline(true);
    await page
      .getByText('the page still works, except “Watch it learn” and “Teach it” if they were not opened before')
      .waitFor();
    await page.getByRole('link', { name: 'Watch it learn' }).click();
    await expect.poll(() => page.getByRole('alert').innerText()).toContain('You are offline. It is tried again');
    expect(await page.getByRole('alert').innerText()).not.toContain('preload');
    await context.setOffline(false); // the page tries again by itself
    await page.getByRole('button', { name: 'Train', exact: true }).waitFor();
    await context.close();
  });
});
