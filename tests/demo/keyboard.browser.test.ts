/** The page by keyboard: few tab stops, names that tell controls apart, and a focus that is not lost. */
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSite, type Site } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

const focused = (page: Page) =>
  page.evaluate(() => document.activeElement!.getAttribute('aria-label') ?? document.activeElement!.textContent);

describe('by keyboard', () => {
  it('Enter keeps a cell selected, and releases it', async () => {
    const { page } = await site.open('#hand');
    await page.locator('#weights td[data-row="0"][data-column="0"]').focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('Enter');
    await expect.poll(() => decodeURIComponent(page.url())).toContain('at=query:1,key:1');
    await page.keyboard.press('Space');
    await expect.poll(() => page.url()).toContain('at=');
    await expect.poll(() => decodeURIComponent(page.url())).not.toContain('query:1');
  });

  it('steppers have names of their own', async () => {
    const { page } = await site.open('#hand');
    const width = page.locator('.stepper', { hasText: 'Head width' }).locator('output');
    await page.getByRole('button', { name: 'Increase head width' }).click();
    await expect.poll(() => width.innerText()).toBe('3');
    await page.getByRole('button', { name: 'Increase heads' }).click();
    await page.waitForSelector('#mixed');
    await page.getByRole('button', { name: 'Decrease head width' }).click();
    await expect.poll(() => width.innerText()).toBe('2');
    const names = await page
      .locator('.stepper button')
      .evaluateAll((buttons) => buttons.map((button) => button.getAttribute('aria-label')));
    expect(new Set(names).size).toBe(names.length);
  });

  it.each([
    ['#text', 2],
    ['#learning', 1],
  ] as const)('the heads of %s have %i tab stops, and arrow keys move between them', async (hash, stops) => {
    const { page } = await site.open(`${hash}?layer=1&head=0`);
    await page.locator('.head button').first().waitFor();
    expect(await page.locator('.head-grid :is(button, input):not([tabindex="-1"])').count()).toBe(stops);
    await page.locator('.head-grid button[tabindex="0"]').focus();
    await page.keyboard.press('ArrowRight');
    expect(await focused(page)).toBe('Show layer 2, head 2');
    await page.keyboard.press('ArrowUp');
    expect(await focused(page)).toBe('Show layer 1, head 2');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.url()).toMatch(/head=1/);
    expect(await page.locator('.head-grid button[tabindex="0"]').getAttribute('aria-label')).toBe(
      'Show layer 1, head 2',
    );
  });

  it('opening a model and cancelling keep the focus', async () => {
    const url = new URL('/model/', site.url).href;
    const { page } = await site.open(`#model?url=${encodeURIComponent(url)}`);
    await page.getByRole('button', { name: 'Open', exact: true }).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Contents' }).waitFor();
    expect(await focused(page)).toBe('Open');

    const choose = page.locator('input[type=file]').first();
    await choose.focus();
    await choose.setInputFiles(fileURLToPath(new URL('../../web/model', import.meta.url)));
    await page.locator('.facts-table').nth(1).waitFor();
    expect(await page.evaluate(() => (document.activeElement as HTMLInputElement).type)).toBe('file');

    await page.route('**/model/**', () => {}); // waits
    await page.getByRole('button', { name: 'Open', exact: true }).focus();
    await page.keyboard.press('Enter');
    const cancel = page.getByRole('button', { name: 'Cancel' }).first();
    await cancel.focus();
    await page.keyboard.press('Enter');
    await page.getByText('Loading was cancelled').waitFor();
    expect(await focused(page)).toBe('Model source');
    await page.unroute('**/model/**');
  });
});
