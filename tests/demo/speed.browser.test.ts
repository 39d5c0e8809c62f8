/** The speed page shows what it measures, and its text agrees with its tables. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { drawn, giveOwnClock, newVisit, openSite, type Site, visit } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

it('measures this machine and gives the figures as text', async () => {
  const { page, complaints, context } = await visit(site, '', {
    permissions: ['clipboard-read', 'clipboard-write'],
    serviceWorkers: 'block',
  });
  await giveOwnClock(context);
  await page.goto(`${site.url}?#speed`);
  await page.getByText('One thread: this host does not send the two headers').waitFor();
  expect(await page.getByRole('group', { name: 'Threads' }).count()).toBe(0);
  await page.getByRole('button', { name: 'Measure' }).click();
  await page.getByRole('button', { name: 'Copy as text' }).click();
  const text = await page.evaluate(() => navigator.clipboard.readText());
  const rows = await page
    .locator('#length-table tbody tr')
    .evaluateAll((found) => found.map((row) => [...row.children].map((cell) => cell.textContent!)));
  expect(rows.map(([length]) => length)).toEqual(['8', '16', '32', '64', '128', '256']);
  for (const [length, perSecond, one] of rows) {
    expect(text).toMatch(new RegExp(`^ *${length} +${perSecond}$`, 'm'));
    // The rate and the time of one text are the same measurement, which is exact with this clock.
    expect(one).toMatch(/^\d*[05]0 ms$/);
    expect(Number(perSecond!.replaceAll(',', ''))).toBe(Math.round((1000 * Number(length)) / parseFloat(one!)));
  }
  const parts = [...text.matchAll(/^ *(\d+)\.00 ms {2}(.+)$/gm)].map(
    ([, time, part]) => [part!, Number(time)] as const,
  );
  expect(parts.map(([part]) => part)).toContain('attention');
  const layers = 3;
  for (const [part, time] of parts) expect(time % (50 * layers), part).toBe(0);
  expect(text).toMatch(/onnxruntime-web/);
  expect(complaints).toEqual([]);
  await context.close();
});

it('measures one thread and two where the page is cross-origin isolated, chosen with the keyboard', async () => {
  const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  const { page, complaints, context } = await newVisit(site.browser, {
    viewport: { width: 360, height: 800 },
    permissions: ['clipboard-read', 'clipboard-write'],
    serviceWorkers: 'block',
    bypassCSP: true, // which would also forbid axe
  });
  await giveOwnClock(context);
  await page.goto(`${site.isolatedUrl}#speed`);
  const choice = page.getByRole('group', { name: 'Threads' });
  await choice.getByRole('radio', { name: '1 and auto' }).focus();
  await page.keyboard.press('ArrowLeft');
  expect(await choice.getByRole('radio', { name: '1 and 2' }).isChecked()).toBe(true);
  expect(await page.getByText('One thread:').count()).toBe(0);
  await page.getByRole('button', { name: 'Measure' }).focus();
  await page.keyboard.press('Enter');
  await page.getByText('Measured with one thread and with 2: asked for.').waitFor();
  await page.getByRole('button', { name: 'Copy as text' }).click();
  const text = await page.evaluate(() => navigator.clipboard.readText());
  expect(text).toMatch(/^tokens {2}tokens\/s {2}with 2 threads$/m);
  const table = page.locator('#length-table');
  expect(await table.locator('thead th').allInnerTexts()).toEqual([
    'Tokens',
    'Tokens per second',
    'Time per text',
    'With 2 threads',
  ]);
  const rows = await table
    .locator('tbody tr')
    .evaluateAll((found) => found.map((row) => [...row.children].map((cell) => cell.textContent!)));
  expect(rows.map(([length]) => length)).toEqual(['8', '16', '32', '64', '128', '256']);
  for (const [length, one, , both] of rows) {
    const [, several, gain] = both!.match(/^([\d,]+), (\d+\.\d\d)×$/)!;
    const [first, second] = [one!, several!].map((shown) => Number(shown.replaceAll(',', '')));
    expect(Math.abs(second! / first! - Number(gain))).toBeLessThan(0.01);
    expect(text).toMatch(new RegExp(`^ *${length} +${one} +${several} +${gain}×$`, 'm'));
  }
  expect(await page.locator('.plot svg').first().textContent()).toContain('2 threads');
  await drawn(page);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: typeof import('axe-core') };
    return (await axe.run({ resultTypes: ['violations'] })).violations.map(({ id }) => id);
  });
  expect(violations).toEqual([]);
  expect(complaints).toEqual([]);
  await context.close();
});

it('measures one thread if no more are wanted', async () => {
  const { page, complaints, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
  await giveOwnClock(context);
  await page.goto(`${site.isolatedUrl}#speed?threads=1`);
  await page.getByRole('button', { name: 'Measure' }).click();
  await page.getByRole('button', { name: 'Measure again' }).waitFor();
  expect(await page.locator('#length-table thead th').count()).toBe(3);
  expect(await page.getByText('Measured with').count()).toBe(0);
  expect(complaints).toEqual([]);
  await context.close();
});
