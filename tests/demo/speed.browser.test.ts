/** The speed page shows what it measures, and its text agrees with its tables. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { giveOwnClock, openSite, type Site, visit } from './site';

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
  await page.getByRole('button', { name: 'Measure' }).click();
  await page.getByRole('button', { name: 'Copy as text' }).click();
  const text = await page.evaluate(() => navigator.clipboard.readText());
  const rows = await page
    .locator('#length-table tbody tr')
    .evaluateAll((found) => found.map((row) => [...row.children].map((cell) => cell.textContent!)));
  expect(rows.map(([length]) => length)).toEqual(['8', '16', '32', '64', '128']);
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
