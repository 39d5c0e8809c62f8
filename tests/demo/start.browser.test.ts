/** The first page, the way from it to “By hand”, and the tour. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { steps } from '../../demo/src/pages/hand/tour-data';
import { openSite, type Site, shownMatrix } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

const shares = async (page: Page) =>
  (await page.locator('.shares .score').allInnerTexts()).map((text) => Number.parseInt(text, 10));
const byHand = (page: Page) => page.getByRole('button', { name: 'Compute this weight by hand' });
const lines = (page: Page) => page.locator('.lines line').evaluateAll((all) => all.map((line) => line.outerHTML));

describe('the first page', () => {
  it('moves with what one types', async () => {
    const { page, complaints } = await site.open('');
    await page.locator('.ways button:enabled').waitFor();
    const before = await lines(page);
    expect(before.length).toBeGreaterThan(0);
    await page.getByLabel('A sentence').fill('The bank gave her a flower');
    await expect.poll(() => page.locator('.shares').innerText()).toContain('flower');
    await expect.poll(() => lines(page)).not.toEqual(before);
    await page.locator('.queries').getByText('gave').click();
    await page.getByRole('heading', { name: 'What “gave” attends to' }).waitFor();
    await expect.poll(() => page.url()).toMatch(/#start\?text=The\+bank\+gave\+her\+a\+flower&token=3/);
    expect(complaints).toEqual([]);
  });

  it('carries the query and the keys of the model into “By hand”, where they give the same weights', async () => {
    const { page, complaints } = await site.open('#start?text=The+river+bank+was+muddy&token=3');
    await page.locator('.ways button:enabled').waitFor();
    const expected = await shares(page);
    await byHand(page).click();
    await page.getByRole('heading', { name: 'Attention by hand' }).waitFor();
    await expect.poll(async () => (await shownMatrix(page, 'weights'))[0]!.length).toBe(expected.length);
    const [weights] = await shownMatrix(page, 'weights');
    weights!.forEach((weight, key) => expect(Math.abs(100 * weight - expected[key]!)).toBeLessThan(1.6));
    expect((await shownMatrix(page, 'q'))[0]).toHaveLength(32);
    expect(await page.locator('.hint').innerText()).toContain('the query of “bank” as the model computed it');
    // The link has all of it.
    await expect.poll(() => page.url()).toContain('preset=model');
    const link = page.url();
    await page.goto('about:blank');
    await page.goto(link);
    await expect.poll(() => shownMatrix(page, 'weights')).toEqual([weights]);
    expect(complaints).toEqual([]);
  });

  it('offers no long sentence for “By hand”', async () => {
    const { page } = await site.open(`#start?text=${'a+'.repeat(20)}bank`);
    await page.getByText('For up to 12 tokens.').waitFor();
    expect(await byHand(page).isDisabled()).toBe(true);
  });
});

describe('the tour', () => {
  it('has six steps, with previous, next, keys and the state in the address', async () => {
    const { page, complaints } = await site.open('');
    await page.getByRole('link', { name: 'A tour in six steps' }).click();
    for (const [i, { title }] of steps.entries()) {
      await page.getByRole('heading', { name: title }).waitFor();
      await expect.poll(() => page.url()).toContain(`tour=${i + 1}`);
      if (i === 2) await page.getByRole('button', { name: 'Next' }).click();
      else if (i < 5) await page.evaluate(() => document.body.focus()).then(() => page.keyboard.press('ArrowRight'));
    }
    await page.keyboard.press('PageUp');
    await page.getByRole('heading', { name: steps[4]!.title }).waitFor();
    await page.getByRole('button', { name: 'Previous' }).click();
    await page.getByRole('heading', { name: steps[3]!.title }).waitFor();
    await page.getByRole('button', { name: 'End the tour' }).click();
    await page.getByRole('heading', { name: 'Attention by hand' }).waitFor();
    expect(complaints).toEqual([]);
  });

  it('has something to try, which can be undone and is part of the link', async () => {
    const { page } = await site.open('#hand?tour=5');
    await page.getByRole('heading', { name: steps[4]!.title }).waitFor();
    await expect
      .poll(async () => (await shownMatrix(page, 'output'))[0])
      .toEqual((await shownMatrix(page, 'output'))[2]);
    await page.getByRole('button', { name: 'Try: Add the positional encoding' }).click();
    await page.getByText(steps[4]!.attempt.see).waitFor();
    const tried = await shownMatrix(page, 'output');
    expect(tried[0]).not.toEqual(tried[2]);
    await expect.poll(() => page.url()).toContain('positions=add');
    const link = page.url();
    await page.goto('about:blank');
    await page.goto(link);
    await page.getByRole('heading', { name: steps[4]!.title }).waitFor();
    await expect.poll(() => shownMatrix(page, 'output')).toEqual(tried);
    await page.getByRole('button', { name: 'Start this step again' }).click();
    await expect
      .poll(async () => (await shownMatrix(page, 'output'))[0])
      .toEqual((await shownMatrix(page, 'output'))[2]);
  });

  it('has large type for a room, and arrow keys in fields keep their meaning', async () => {
    const { page } = await site.open('#hand?tour=1');
    await page.getByRole('heading', { name: steps[0]!.title }).waitFor();
    const size = () => page.evaluate(() => Number.parseFloat(getComputedStyle(document.documentElement).fontSize));
    const before = await size();
    await page.getByText('Large type').click();
    await expect.poll(size).toBeGreaterThan(1.2 * before);
    await expect.poll(() => page.url()).toContain('large=1');
    await page.locator('#x input').first().focus();
    await page.keyboard.press('ArrowRight');
    await page.getByRole('heading', { name: steps[0]!.title }).waitFor();
    await page.getByRole('button', { name: 'End the tour' }).click();
    await expect.poll(size).toBe(before);
  });
});
