/** Sharing what was learned on “Teach it your labels” as a link. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSite, type Site, sharedLabels, visit } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

const good = sharedLabels.get('classifier')!;

describe('a link with a classifier', () => {
  it('gives whoever opens it the same labels, without training', async () => {
    const { page, context, complaints } = await visit(site, '#teach', { serviceWorkers: 'block' });
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.locator('.probabilities li').first().waitFor();
    const shown = () => page.locator('.probabilities li').allInnerTexts();
    const expected = await shown();
    await page.getByRole('button', { name: 'Copy a link with the classifier' }).click();
    const link = await page.evaluate(() => navigator.clipboard.readText());
    expect(link.length).toBeLessThan(2500);
    expect(link).not.toContain('onions+and+garlic');

    const other = await context.newPage();
    const requested: string[] = [];
    other.on('request', (request) => requested.push(request.url()));
    await other.goto(link);
    await other.getByRole('heading', { name: 'A classifier that was shared with you' }).waitFor();
    await other.locator('.probabilities li').first().waitFor();
    const shares = (texts: string[]) => texts.map((text) => Number(/(\d+) %/.exec(text)![1]));
    const found = await other.locator('.probabilities li').allInnerTexts();
    expect(found.map((text) => text.replace(/\d+ %/, ''))).toEqual(expected.map((text) => text.replace(/\d+ %/, '')));
    // Weights of 8 bits move a probability by a percentage point or two.
    for (const [i, share] of shares(found).entries())
      expect(Math.abs(share - shares(expected)[i]!)).toBeLessThanOrEqual(3);
    await other.getByLabel('Text to label').fill('The ferry to the island leaves from the harbour.');
    await expect.poll(() => other.locator('.probabilities .best').innerText()).toContain('travel');
    expect(requested.filter((url) => /learning-worker/.test(url))).toEqual([]);

    await other.getByRole('button', { name: 'Teach your own labels' }).click();
    await other.getByRole('heading', { name: 'Examples', exact: true }).waitFor();
    await expect.poll(() => other.url()).not.toContain('classifier=');
    expect(complaints).toEqual([]);
    await context.close();
  });

  it.each([
    ['one letter', 'x'],
    ['markup', '<img src=x onerror=alert(1)>'],
    ['cut off', good.slice(0, 200)],
    ['a label too many', `${good}\tthird`],
    ['too few bytes', `a${'A'.repeat(700)}\tone\ttwo`],
  ])('that is damaged or hostile has one message, and the page goes on: %s', async (_, classifier) => {
    const { page, complaints } = await site.open(`#teach?${new URLSearchParams({ classifier })}`);
    const alert = page.getByRole('alert');
    await alert.waitFor();
    expect(await alert.count()).toBe(1);
    expect(await alert.innerText()).toMatch(
      /^The classifier in this link could not be read\. It.* Ask for the link again/s,
    );
    await page.getByRole('button', { name: 'Teach your own labels' }).click();
    await page.locator('.probabilities li').first().waitFor();
    expect(complaints).toEqual([]);
  });
});
