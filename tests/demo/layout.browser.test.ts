/** What moves and what overflows: nothing moves under the pointer on a phone (on a desktop: faults.ts), hardly anything while the page loads, and no page scrolls sideways. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { exampleOf, hands } from './pages';
import { mostShift } from './shifts';
import { drawn, newVisit, openSite, type Site, sharedLabels } from './site';
import { sweep } from './sweep';

/** Links to the pages, without the examples of “Compute”. */
const others = [
  '#see',
  '#compute?tour=2',
  '#meaning',
  '#inside',
  '#inside?part=states',
  '#meaning?model=own',
  '#learn',
  '#teach',
  `#teach?${sharedLabels}`,
  '#inside?part=lens',
  '#speed',
];

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

async function openHand(hash: string): Promise<Page> {
  const example = exampleOf(hash);
  const { page } = await site.open(example ? '#compute?all=1' : hash);
  await page.locator('#output td').first().waitFor();
  await page
    .locator('.status-line')
    .getByText(/Loaded:|Saved:/)
    .waitFor(); // the line grows
  if (example) {
    await page.getByRole('button', { name: example, exact: true }).click();
    await page.mouse.move(0, 0);
  }
  // The typeface has other widths than the one that is shown until it has loaded.
  await page.waitForFunction(() =>
    [...document.fonts].some(({ family, status }) => family.includes('Source Serif 4') && status === 'loaded'),
  );
  await drawn(page);
  return page;
}

describe('nothing moves while the pointer does', () => {
  it.each(hands.filter((hash) => /preset=(words|unscaled)|words=/.test(hash)))('%s on a phone', async (hash) => {
    const page = await openHand(hash);
    await page.setViewportSize({ width: 320, height: 800 });
    await drawn(page);
    const { pixels, which } = await page.evaluate(sweep);
    expect(pixels, which).toBeLessThanOrEqual(1);
    await page.setViewportSize({ width: 1280, height: 900 });
  });
});

/** By how many pixels the page is wider than its window. */
const overflowOf = (page: Page) =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

describe('no page scrolls sideways', () => {
  it.each([...hands, '#compute?tour=3&large=1', ...others])('%s, from 320 to 2560 px', async (hash) => {
    const page = hash.startsWith('#compute?all=1') ? await openHand(hash) : (await site.open(hash)).page;
    await page.locator('.status-line').getByText('Loaded:').waitFor();
    await page.waitForFunction(() => !document.querySelector('.waiting, .plot:empty'));
    for (const width of [320, 360, 600, 1280, 2560]) {
      await page.setViewportSize({ width, height: 800 });
      await drawn(page);
      const overflow = () => overflowOf(page);
      await expect.poll(overflow, { message: `at ${width} px`, timeout: 5000 }).toBeLessThanOrEqual(0);
    }
    await page.setViewportSize({ width: 1280, height: 900 });
  });

  it.each(['#see', '#meaning', '#inside', '#inside?part=states', '#inside?part=lens', '#teach'])(
    '%s, with a word of 400 letters in every field',
    async (hash) => {
      const { page } = await site.open(hash);
      await page.locator('.status-line').getByText('Loaded:').waitFor();
      const fields = page.locator('main :is(textarea, input[type=text], input:not([type])):visible');
      await fields.first().waitFor();
      for (const field of await fields.all()) await field.fill('x'.repeat(400));
      for (const width of [320, 1280]) {
        await page.setViewportSize({ width, height: 800 });
        await drawn(page);
        const overflow = () => overflowOf(page);
        await expect.poll(overflow, { message: `at ${width} px`, timeout: 5000 }).toBeLessThanOrEqual(0);
      }
      await page.setViewportSize({ width: 1280, height: 900 });
    },
  );
});

/** In the page, what moves when the typeface replaces each of the system's fonts that stand in for it (fallback.css) and that this machine has. */
async function swapTypeface(): Promise<{ family: string; total: number; moved: string[] }[]> {
  type Shift = PerformanceEntry & { value: number; sources: { node?: Element }[] };
  let found: Shift[] = [];
  const observer = new PerformanceObserver((list) => found.push(...(list.getEntries() as Shift[])));
  observer.observe({ type: 'layout-shift' });
  const frame = () => new Promise(requestAnimationFrame);
  const style = document.documentElement.style;
  const swapped = [];
  const families = new Set([...document.fonts].map(({ family }) => family).filter((name) => name.includes('Sized')));
  for (const family of families) {
    const faces = [...document.fonts].filter((face) => face.family === family);
    await Promise.allSettled(faces.map((face) => face.load()));
    if (faces.some(({ status }) => status !== 'loaded')) continue;
    style.setProperty('--serif', family);
    for (let i = 0; i < 4; i++) await frame();
    observer.takeRecords();
    found = [];
    style.removeProperty('--serif');
    for (let i = 0; i < 4; i++) await frame();
    found.push(...(observer.takeRecords() as Shift[]));
    const total = found.reduce((sum, { value }) => sum + value, 0);
    const moved = found.flatMap(({ sources }) => sources.map(({ node }) => node?.outerHTML?.slice(0, 60) ?? ''));
    swapped.push({ family, total, moved });
  }
  return swapped;
}

describe('while the page loads', () => {
  describe.each([1440, 1280, 390])('at %i px', (width) => {
    let page: Page;
    beforeAll(async () => {
      ({ page } = await newVisit(site.browser, { viewport: { width, height: 800 }, serviceWorkers: 'block' }));
      await page.addInitScript(() => {
        const shifts: { value: number; nodes: string[] }[] = [];
        Object.assign(globalThis, { shifts });
        new PerformanceObserver((list) => {
          type Shift = PerformanceEntry & { value: number; hadRecentInput: boolean; sources: { node?: Element }[] };
          for (const { value, hadRecentInput, sources } of list.getEntries() as Shift[])
            if (!hadRecentInput)
              shifts.push({ value, nodes: sources.map(({ node }) => node?.outerHTML?.slice(0, 60) ?? '') });
        }).observe({ type: 'layout-shift', buffered: true });
      });
    });
    afterAll(() => page?.context().close());

    const shiftsOf = (page: Page) =>
      page.evaluate(() => (globalThis as unknown as { shifts: { value: number; nodes: string[] }[] }).shifts);

    it('hardly anything moves while one types', async () => {
      await page.goto(`${site.slowUrl}?typed#see`);
      await page.locator('.side input').first().focus();
      await page.keyboard.press('End');
      await page.keyboard.type(' The bank was closed.', { delay: 20 });
      await page.getByText('Loaded:').waitFor();
      await page.locator('.side:not(.outdated)').first().waitFor();
      await drawn(page);
      const shifts = await shiftsOf(page);
      const total = shifts.reduce((sum, { value }) => sum + value, 0);
      expect(total, JSON.stringify(shifts, null, 1)).toBeLessThanOrEqual(mostShift);
    });

    // Files that arrive late move what is there.
    it.each(['#compute?all=1', ...others].map((hash, n) => [hash, n] as const))(
      'hardly anything moves: %s',
      async (hash, n) => {
        await page.goto(`${site.slowUrl}?${n}${hash}`);
        await page.getByText('Loaded:').waitFor();
        await page.waitForFunction(() => !document.querySelector('.waiting, .plot:empty'));
        await page.waitForFunction(() =>
          [...document.fonts].some(({ family, status }) => family.includes('Source Serif 4') && status === 'loaded'),
        );
        await drawn(page);
        const shifts = await shiftsOf(page);
        const total = shifts.reduce((sum, { value }) => sum + value, 0);
        console.log(`layout shift of ${hash} at ${width} px: ${total.toFixed(3)}`);
        expect(total, JSON.stringify(shifts, null, 1)).toBeLessThanOrEqual(mostShift);
        const swaps = await page.evaluate(swapTypeface);
        expect(swaps, "the machine's fonts that stand in").not.toEqual([]);
        for (const { family, total, moved } of swaps)
          expect(total, `${family}: ${moved.join('\n')}`).toBeLessThanOrEqual(mostShift);
      },
    );
  });
});
