/** On “Compute”, scores, weights and output stay visible while a number changes. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSite, type Site } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

const heads = '#compute?all=1&heads=2&words=red|round|apple|sky|sea&x=1,0,0;0,1,0;1,1,0;0,0,1;0,1,1';

/** The small matrices at the edge, or null if they are hidden; with the boxes of their cells. */
const stripOf = (page: Page) =>
  page.evaluate(() => {
    const strip = document.querySelector('.strip')!;
    if (getComputedStyle(strip).visibility === 'hidden') return null;
    return [...strip.querySelectorAll('table')].map((table) => ({
      numbers: [...table.querySelectorAll('td')].map((cell) => cell.textContent),
      isInside: [...table.querySelectorAll('td')].every((cell) => {
        const { left, top, right, bottom } = cell.getBoundingClientRect();
        return left >= 0 && top >= 0 && right <= innerWidth + 1 && bottom <= innerHeight;
      }),
    }));
  });
const numbersOf = (page: Page, id: string) => page.locator(`#${id} td`).allInnerTexts();

describe('scores, weights and output', () => {
  it.each([
    ['#compute?all=1', 1280, 800, 'output'],
    ['#compute?all=1', 360, 740, 'output'],
    [heads, 1280, 800, 'mixed'],
  ])('%s stay visible at %i x %i px while one edits', async (hash, width, height, output) => {
    const { page, complaints } = await site.open(hash);
    await page.setViewportSize({ width, height });
    await page.locator(`#${output} td`).first().waitFor();
    expect(await stripOf(page)).toBeNull(); // nothing is edited
    const before = await numbersOf(page, output);
    for (const id of ['x', 'wq', 'wk', 'wv']) {
      const field = page.locator(`#${id} input`).first();
      await field.fill('3');
      await expect.poll(async () => (await stripOf(page))?.map(({ isInside }) => isInside)).toEqual([true, true, true]);
      await expect
        .poll(async () => (await stripOf(page))?.map(({ numbers }) => numbers))
        .toEqual(await Promise.all(['scores', 'weights', output].map((of) => numbersOf(page, of))));
      // The field itself is not behind it.
      const [fieldBottom, stripTop] = await page.evaluate(() => [
        document.activeElement!.getBoundingClientRect().bottom,
        document.querySelector('.strip')!.getBoundingClientRect().top,
      ]);
      expect(fieldBottom).toBeLessThanOrEqual(stripTop!);
    }
    expect(await numbersOf(page, output)).not.toEqual(before);
    await page.evaluate(() => (document.activeElement as HTMLElement).blur());
    expect(await stripOf(page)).toBeNull();
    expect(complaints).toEqual([]);
    await page.setViewportSize({ width: 1280, height: 900 });
  });

  it('are not shown twice where the matrices themselves are in sight', async () => {
    const { page } = await site.open('#compute?all=1');
    await page.setViewportSize({ width: 2560, height: 4000 });
    await page.locator('#x input').first().fill('2');
    await expect.poll(() => stripOf(page)).toBeNull();
    await page.setViewportSize({ width: 1280, height: 900 });
    await expect.poll(() => stripOf(page)).not.toBeNull();
  });
});
