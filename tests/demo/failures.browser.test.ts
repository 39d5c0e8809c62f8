/** Failures are states of the page: each is reported where something is missing, everything else works, and a retry needs no reload. What the reader has written is not lost. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { serve } from './setup';
import { newVisit, openSite, type Site } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

const model = /model-[\w-]+\.safetensors/;
const focused = (page: Page) => page.evaluate(() => document.activeElement!.localName);

describe('without the model', () => {
  it.each([
    ['404', { status: 404, body: 'no' }],
    ['500', { status: 500, body: 'no' }],
    ['a page in its place', { contentType: 'text/html', body: '<!doctype html>' }],
    ['a part of it', { status: 200, body: 'x'.repeat(1000) }],
  ] as const)('%s: the examples and “Watch it learn” work, and it is tried again in place', async (_, answer) => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    await page.route(model, (route) => route.fulfill(answer));
    await page.goto(site.url);
    const alert = page.getByRole('alert');
    await alert.getByText('The model could not be loaded.').waitFor();
    await page.getByRole('button', { name: 'star', exact: true }).first().click();
    await page.locator('.side').nth(1).locator('.outcome').getByText('celebrity', { exact: true }).waitFor();
    await page.locator('.side input').first().fill('A star shines.');
    await page.getByText('The model could not be loaded, so it cannot read your sentence yet.').waitFor();
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Watch it learn' }).click();
    await page.locator('.sequence td').first().waitFor();
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Meaning' }).click();
    await alert.getByText('The model could not be loaded.').first().waitFor();
    await page.unroute(model);
    await alert.getByRole('button', { name: 'Try again' }).first().click();
    await page.locator('.words .word').first().waitFor();
    expect(await alert.count()).toBe(0);
    expect(await focused(page)).not.toBe('body');
    await context.close();
  });

  it('it is loaded when the network returns', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    await page.route(model, (route) => route.abort());
    await page.goto(site.url);
    await page.getByRole('alert').getByText('The model could not be loaded.').waitFor();
    await page.unroute(model);
    await page.evaluate(() => dispatchEvent(new Event('online')));
    await page.locator('.ways button:enabled').first().waitFor();
    await expect.poll(() => page.getByRole('alert').count()).toBe(0);
    await context.close();
  });

  it('without the dictionary, “Meaning” says so, and tries again', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    const words = /words-[\w-]+\.txt/;
    await page.route(words, (route) => route.fulfill({ status: 404, body: 'no' }));
    await page.goto(`${site.url}#meaning`);
    const dictionary = page.locator('.dictionary');
    await dictionary.getByText('The dictionary could not be loaded.').waitFor();
    await page.locator('#cosines td').first().waitFor();
    await page.unroute(words);
    await dictionary.getByRole('button', { name: 'Try again' }).click();
    await page.locator('.words .word').first().waitFor();
    await context.close();
  });
});

describe('nothing is lost', () => {
  const long = Array.from({ length: 6 }, (_, i) => `label${i % 2}\t${`example ${i} `.repeat(160)}`).join('\n');

  it('a link with other examples leaves those that this browser keeps', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    await page.goto(`${site.url}#teach`);
    await page.locator('.editor input').first().waitFor();
    const kept = () => page.evaluate(() => JSON.parse(localStorage.getItem('heed-examples') ?? '[]').length as number);
    await page.evaluate((text) => {
      const rows = text.split('\n').map((line) => ({ label: line.split('\t')[0], text: line.split('\t')[1] }));
      localStorage.setItem('heed-examples', JSON.stringify(rows));
    }, long);
    const other = await context.newPage();
    await other.goto(`${site.url}#teach?${new URLSearchParams({ examples: 'a\tone\nb\ttwo' })}`);
    await other.locator('.editor input').first().waitFor();
    await expect.poll(kept).toBe(6);
    await other.reload();
    await other.locator('.editor input').first().waitFor();
    expect(await kept()).toBe(6);
    await context.close();
  });

  it('“Remove all” can be undone, with the button and with Back', async () => {
    const { page, complaints } = await site.open('#teach');
    const rows = () => page.locator('.editor ol > li').count();
    await page.locator('.editor input').first().waitFor();
    const before = await rows();
    await page.getByRole('button', { name: 'Remove all' }).click();
    await expect.poll(rows).toBe(1);
    expect(await focused(page)).toBe('button');
    await page.getByRole('button', { name: 'Undo' }).click();
    await expect.poll(rows).toBe(before);
    await page.getByRole('button', { name: 'Remove all' }).click();
    await expect.poll(rows).toBe(1);
    await page.goBack();
    await expect.poll(rows).toBe(before);
    expect(complaints).toEqual([]);
  });

  it('leaving “Teach it” and “Meaning” at any time throws nothing', async () => {
    const { page, complaints } = await site.open('#teach');
    await page.locator('.status-line').getByText('Loaded:').waitFor();
    for (const pause of [0, 100, 300, 700, 1200])
      for (const name of ['Teach it', 'See', 'Meaning', 'Compute']) {
        await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }).click();
        await page.waitForTimeout(pause);
      }
    expect(complaints).toEqual([]);
  });

  it.each(['#learn', '#teach', '#see', '#compute', '#meaning', '#inside'])(
    'what is said to be saved works without the server: %s, opened first',
    async (hash) => {
      const server = await serve(site.folder);
      const { page, context } = await newVisit(site.browser);
      try {
        await page.goto(`${server.origin}/heed/${hash}`);
        await page.getByText('Saved: the page now works offline').waitFor();
        server.close();
        await page.goto('about:blank');
        await page.goto(`${server.origin}/heed/${hash}`);
        const shown = {
          '#learn': '.sequence td',
          '#teach': '.mattered:not([aria-hidden]) li',
          '#see': '.ways button:enabled',
          '#compute': '#average td',
          '#meaning': '.words .word',
          '#inside': '.lines line',
        }[hash]!;
        await page.locator(shown).first().waitFor();
      } finally {
        server.close();
        await context.close();
      }
    },
  );
});
